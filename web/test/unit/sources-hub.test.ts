import assert from "node:assert/strict";
import { test } from "node:test";
import { addressOf, brief, HUB, isSingleFile, parseName, partsOf, resolve } from "../../src/sources/hub.ts";
import type { ForetokenError } from "../../src/protocol/errors.ts";
import { filesOf, publishedSHA256 } from "../../src/sources/repository.ts";
import { Downloads, openModel } from "../../src/sources/open.ts";
import { sortFiles } from "../../src/widget/files.ts";
import type { Progress } from "../../src/protocol/protocol.ts";

const PAGE = "https://page.test/demo/index.html";
const OID = "ab".repeat(32);

/** A server of small texts by address; `log` holds the requests. */
function texts(files: Record<string, unknown>): { fetch: typeof fetch; log: string[] } {
  const log: string[] = [];
  const answer = async (input: RequestInfo | URL): Promise<Response> => {
    log.push(String(input));
    const found = files[String(input)];
    if (found === undefined) return new Response("no", { status: 404 });
    return new Response(typeof found === "string" ? found : JSON.stringify(found), {
      headers: { "Content-Type": "application/json" },
    });
  };
  return { fetch: answer as typeof fetch, log };
}

test("addresses have a scheme that files are read from, or the page's own", () => {
  for (const text of ["data:,x", "blob:https://page.test/1", "http://a.test/b", "HTTPS://a.test/b", "//a.test/b", "b"])
    assert.ok(resolve(text, PAGE).url, text);
  assert.equal(resolve("b.gguf", "chrome-extension://id/page.html").url, "chrome-extension://id/b.gguf");
  for (const [text, base] of [
    ["javascript:alert(1)", PAGE],
    [" java\nscript:alert(1)", PAGE],
    ["file:///etc/passwd", PAGE],
    ["b.gguf", "file:///home/page.html"],
    ["ftp://a.test/b", PAGE],
    ["ws://a.test/b", PAGE],
    ["chrome://version", PAGE],
    ["chrome-extension://id/b.gguf", PAGE],
    ["about:blank", PAGE],
    ["view-source:https://a.test/", PAGE],
    ["hf:../../b", PAGE],
    [`intent:${"x".repeat(9000)}`, PAGE],
  ] as const)
    assert.throws(
      () => resolve(text, base),
      ({ code, message }: ForetokenError) =>
        code === "bad_option" && /the scheme \S+ cannot be read/.test(message) && message.length < 400,
      text.slice(0, 40),
    );
  assert.throws(() => resolve("owner/repo/a.gguf", PAGE, "ftp://hub.test"), /scheme ftp:/);
  assert.throws(() => resolve("file:///a.gguf", PAGE), /let the user pick the file/);
  assert.throws(() => resolve("./a.gguf", "file:///site/index.html"), /run make demo or any static server/);
});

test("names for people are short, and leave the direction of the text alone", () => {
  assert.equal(brief("Qwen2.5 1.5B – é😀"), "Qwen2.5 1.5B – é😀");
  const long = brief(`${"a".repeat(300)}-00001-of-00002.gguf`);
  assert.ok(long.length === 200 && long.endsWith("aaa-00001-of-00002.gguf") && long.includes("…"));
  assert.equal(brief("a\u202egnp.exe\n\u2066\0\ud800b"), "a\ufffdgnp.exe\ufffd\ufffd\ufffd\ufffdb");
});

test("names on a hub are distinguished from addresses and paths", () => {
  for (const [text, want] of Object.entries({
    "Qwen/Qwen3-0.6B-GGUF/Qwen3-0.6B-Q8_0.gguf": {
      repo: "Qwen/Qwen3-0.6B-GGUF",
      revision: "main",
      path: "Qwen3-0.6B-Q8_0.gguf",
    },
    "owner/repo@v1.0/sub/file.gguf": { repo: "owner/repo", revision: "v1.0", path: "sub/file.gguf" },
    "owner/repo/file.gguf@abc123": { repo: "owner/repo", revision: "abc123", path: "file.gguf" },
    "owner/repo/file.gguf?revision=refs%2Fpr%2F1": { repo: "owner/repo", revision: "refs/pr/1", path: "file.gguf" },
    "owner/repo": { repo: "owner/repo", revision: "main", path: "" },
    "hf:owner/repo": { repo: "owner/repo", revision: "main", path: "" },
    "hf:models/repo/file.gguf": { repo: "models/repo", revision: "main", path: "file.gguf" },
  }))
    assert.deepEqual(parseName(text), want, text);
  for (const text of [
    "models/demo/target.gguf",
    "./owner/repo/file.gguf",
    "../a/b/c.gguf",
    "/a/b/c.gguf",
    "https://x.test/a/b/c.gguf",
    "folder/file.gguf",
    "file.gguf",
    "a/b/../c.gguf",
    "a//c/d.gguf",
    "",
  ])
    assert.equal(parseName(text), undefined, text);
});

test("a text resolves to an address and its checksum", () => {
  const cases: [string, string | undefined, string, string?][] = [
    ["owner/repo/my file.gguf", undefined, `${HUB}/owner/repo/resolve/main/my%20file.gguf`],
    ["owner/repo@refs/x.gguf", undefined, `${HUB}/owner/repo/resolve/refs/x.gguf`],
    ["owner/repo/x.gguf", "http://mirror.test/hf/", "http://mirror.test/hf/owner/repo/resolve/main/x.gguf"],
    [`owner/repo/x.gguf#sha256=${OID.toUpperCase()}`, undefined, `${HUB}/owner/repo/resolve/main/x.gguf`, OID],
    ["x.gguf", undefined, "https://page.test/demo/x.gguf"],
    ["./a/b/x.gguf", undefined, "https://page.test/demo/a/b/x.gguf"],
    [`https://x.test/y.gguf?z=1#sha256=${OID}`, undefined, "https://x.test/y.gguf?z=1", OID],
    [`${HUB}/owner/repo/blob/main/x.gguf`, undefined, `${HUB}/owner/repo/resolve/main/x.gguf`],
    [
      "https://elsewhere.test/owner/repo/blob/main/x.gguf",
      undefined,
      "https://elsewhere.test/owner/repo/blob/main/x.gguf",
    ],
  ];
  for (const [text, hub, url, sha256] of cases)
    assert.deepEqual(resolve(text, PAGE, hub), { url, ...(sha256 ? { sha256 } : {}) }, text);
  assert.equal(
    addressOf({ repo: "o/r", revision: "a/b", path: "c/d e.gguf" }, HUB),
    `${HUB}/o/r/resolve/a%2Fb/c/d%20e.gguf`,
  );
});

test("one part of a split file stands for all", async () => {
  assert.deepEqual(partsOf("m-00002-of-00003.gguf"), [
    "m-00001-of-00003.gguf",
    "m-00002-of-00003.gguf",
    "m-00003-of-00003.gguf",
  ]);
  for (const whole of ["m.gguf", "m-00001-of-00000.gguf", "m-1-of-3.gguf", "m-00001-of-01000.gguf"])
    assert.equal(partsOf(whole), undefined, whole);
  const files = await filesOf({ url: "https://x.test/a/m-00001-of-00002.gguf?token=1" }, texts({}));
  assert.deepEqual(
    files.map((file) => file.url),
    ["https://x.test/a/m-00001-of-00002.gguf?token=1", "https://x.test/a/m-00002-of-00002.gguf?token=1"],
  );
  assert.deepEqual(await filesOf({ url: "https://x.test/a/m.gguf", sha256: OID }, texts({})), [
    { url: "https://x.test/a/m.gguf", sha256: OID },
  ]);
});

test("safetensors load with their companion files, sharded ones by their index", async () => {
  const names = async (url: string, server = texts({})): Promise<string[]> =>
    (await filesOf({ url }, server)).map(
      (file) => `${file.url.replace("https://x.test/m/", "")}${file.optional ? "?" : ""}`,
    );
  const beside = [
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json?",
    "generation_config.json?",
    "chat_template.jinja?",
  ];
  assert.deepEqual(await names("https://x.test/m/model.safetensors"), [...beside, "model.safetensors"]);
  const index = {
    "https://x.test/m/model.safetensors.index.json": {
      weight_map: {
        b: "model-00002-of-00002.safetensors",
        a: "model-00001-of-00002.safetensors",
        c: "model-00002-of-00002.safetensors",
      },
    },
  };
  const shards = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"];
  assert.deepEqual(await names("https://x.test/m/model.safetensors.index.json", texts(index)), [
    ...beside,
    "model.safetensors.index.json",
    ...shards,
  ]);
  assert.deepEqual(await names("https://x.test/m/model-00002-of-00002.safetensors"), [
    ...beside,
    "model.safetensors.index.json",
    ...shards,
  ]);
  for (const bad of [
    "{",
    { weight_map: {} },
    { weight_map: { a: "../x.safetensors" } },
    { weight_map: { a: 1 } },
    { weight_map: { a: "x.bin" } },
  ]) {
    await assert.rejects(
      names(
        "https://x.test/m/model.safetensors.index.json",
        texts({ "https://x.test/m/model.safetensors.index.json": bad }),
      ),
      /model\.safetensors\.index\.json: index: /,
    );
  }
});

test("a repository stands for its only model", async () => {
  const list = `${HUB}/api/models/o/r/tree/main`;
  const entries = (...paths: string[]) => texts({ [list]: paths.map((path) => ({ type: "file", path, size: 1 })) });
  const of = async (server: ReturnType<typeof texts>): Promise<string[]> =>
    (await filesOf({ url: resolve("o/r", PAGE).url }, server)).map((file) =>
      file.url.replace(`${HUB}/o/r/resolve/main/`, ""),
    );
  assert.deepEqual(await of(entries("README.md", "m-Q8_0.gguf")), ["m-Q8_0.gguf"]);
  assert.deepEqual(await of(entries("m-00001-of-00002.gguf", "m-00002-of-00002.gguf", "mmproj-f16.gguf")), [
    "m-00001-of-00002.gguf",
    "m-00002-of-00002.gguf",
  ]);
  assert.ok((await of(entries("config.json", "model.safetensors"))).includes("model.safetensors"));
  await assert.rejects(
    of(entries("a.gguf", "b.gguf")),
    /o\/r: name: it has several models; name one: o\/r\/a\.gguf, o\/r\/b\.gguf/,
  );
  await assert.rejects(of(entries("README.md")), /neither a \.gguf file nor model\.safetensors/);
  await assert.rejects(of(texts({})), /does not list the files/);
});

test("the checksum of a file on a hub comes from the list of files", async () => {
  const server = texts({
    "http://mirror.test/hf/api/models/o/r/tree/v1/sub": [
      { type: "file", path: "sub/x.gguf", size: 9, lfs: { oid: OID, size: 9 } },
      { type: "file", path: "sub/y.json", size: 9, oid: "ab".repeat(20) },
    ],
  });
  assert.equal(await publishedSHA256("http://mirror.test/hf/o/r/resolve/v1/sub/x.gguf", server), OID);
  assert.equal(await publishedSHA256("http://mirror.test/hf/o/r/resolve/v1/sub/y.json", server), undefined);
  assert.equal(await publishedSHA256("http://mirror.test/hf/o/r/resolve/v2/sub/x.gguf", server), undefined);
  const before = server.log.length;
  assert.equal(await publishedSHA256("http://other.test/x.gguf", server), undefined);
  assert.equal(server.log.length, before, "requested the list of another address");
});

test("a model opens all its files; only optional ones may be missing", async () => {
  const at = "https://x.test/m/";
  const files: Record<string, unknown> = {
    [`${at}model.safetensors`]: "weights",
    [`${at}config.json`]: "{}",
    [`${at}tokenizer.json`]: "{}",
  };
  const opened = await openModel(
    { kind: "url", url: `${at}model.safetensors`, cache: "off" },
    {},
    { ...texts(files), retryDelay: 1 },
  );
  assert.deepEqual(
    opened.map((source) => source.name),
    ["config.json", "tokenizer.json", "model.safetensors"],
  );
  delete files[`${at}tokenizer.json`];
  await assert.rejects(
    openModel({ kind: "url", url: `${at}model.safetensors`, cache: "off" }, {}, { ...texts(files), retryDelay: 1 }),
    /tokenizer\.json: download: the server answered 404/,
  );
  const local = ["a-00001-of-00002.gguf", "a-00002-of-00002.gguf"].map((name) => ({
    kind: "file" as const,
    file: new Blob(["GGUF"]),
    name,
  }));
  assert.deepEqual(
    (await openModel({ kind: "files", files: local })).map((source) => source.size),
    [4, 4],
  );
});

test("the downloads of a load are added up", () => {
  const seen: Progress[] = [];
  const downloads = new Downloads((progress) => seen.push(progress));
  assert.equal(downloads.active, false);
  downloads.report("a.gguf", 10, 100);
  downloads.report("b.gguf", 5, 50, "another tab is downloading it");
  assert.deepEqual(seen.at(-1), { stage: "download", done: 15, total: 150, note: "another tab is downloading it" });
  downloads.report("b.gguf", 50, 50);
  assert.equal(downloads.active, true);
  downloads.report("a.gguf", 100, 100);
  assert.deepEqual(seen.at(-1), { stage: "download", done: 150, total: 150 });
  assert.equal(downloads.active, false);
});

test("picked or dropped files are sorted into models", () => {
  const file = (name: string, size: number): File => new File([new Uint8Array(size)], name);
  const names = (sorted: Record<string, File[]>): Record<string, string[]> =>
    Object.fromEntries(Object.entries(sorted).map(([role, list]) => [role, list.map((f) => f.name)]));
  assert.deepEqual(
    names({
      ...sortFiles([
        file("small.gguf", 3),
        file("large-00001-of-00002.gguf", 4),
        file("large-00002-of-00002.gguf", 4),
        file("bins.json", 9),
      ]),
    }),
    {
      target: ["large-00001-of-00002.gguf", "large-00002-of-00002.gguf"],
      draft: ["small.gguf"],
      calibrations: ["bins.json"],
    },
  );
  assert.deepEqual(
    names({
      ...sortFiles([
        file("config.json", 1),
        file("model.safetensors", 5),
        file("tokenizer.json", 1),
        file("d.gguf", 2),
      ]),
    }),
    {
      target: ["model.safetensors", "config.json", "tokenizer.json"],
      draft: ["d.gguf"],
      calibrations: [],
    },
  );
  assert.throws(
    () => sortFiles([file("a.gguf", 1), file("b.gguf", 2), file("c.gguf", 3)]),
    /3 models, want a target and at most one draft/,
  );
  assert.throws(() => sortFiles([file("notes.txt", 1)]), /notes\.txt: file: not a model file/);
  assert.throws(() => sortFiles([file("bins.json", 1)]), /bins\.json: files: contain no model/);
});

test("an address shows whether a model is a single file", () => {
  for (const url of ["https://a.example/x.gguf", "https://a.example/x.GGUF?download=true"])
    assert.ok(isSingleFile(url), url);
  for (const url of [
    "https://a.example/x-00001-of-00002.gguf",
    "https://a.example/model.safetensors",
    "https://a.example/o/r/tree/main",
    "https://a.example/x",
  ])
    assert.ok(!isSingleFile(url), url);
});
