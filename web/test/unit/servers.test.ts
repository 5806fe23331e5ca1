/** Servers that compress, know no ranges or break the rules of them, and checksums in every way of loading. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { resolve } from "../../src/sources/hub.ts";
import { openModel, openSource, type OpenSource } from "../../src/sources/open.ts";
import type { SourceOptions } from "../../src/sources/remote.ts";
import { Store } from "../../src/sources/store.ts";
import type { Keep, SourceSpec } from "../../src/protocol/protocol.ts";
import { FakeFolder, pattern } from "./fakes.ts";

const URL_ = "https://models.test/m/tiny.gguf";
const DATA = pattern(700_000);
const SHA = createHash("sha256").update(DATA).digest("hex");
const CHUNK = 100_000;
const OTHER = "0".repeat(64);

interface Request {
  /** The nth request, from 1 on. */
  n: number;
  start: number | undefined;
  end: number;
  method: string;
  /** Whether the browser may take it from its cache. */
  cached: boolean;
}

interface Answer {
  status?: number;
  headers?: Record<string, string>;
  body?: Uint8Array;
  /** The bytes after which the connection breaks. */
  breaks?: number;
  /** The response is of another site: the page sees the headers that are safelisted. */
  foreign?: boolean;
}

const VISIBLE = ["content-length", "content-type", "last-modified"];

/** A browser's fetch of a server that answers by `answer`; undefined is a connection that fails. */
function fetchOf(answer: (request: Request) => Answer | undefined): { fetch: typeof fetch; log: string[] } {
  const log: string[] = [];
  const fake = async (_: RequestInfo | URL, init: RequestInit = {}): Promise<Response> => {
    init.signal?.throwIfAborted();
    const range = new Headers(init.headers).get("Range");
    log.push(range?.replace("bytes=", "") ?? init.method ?? "whole");
    const [, from, to] = /^bytes=(\d+)-(\d*)$/.exec(range ?? "") ?? [];
    const start = from === undefined ? undefined : Number(from);
    const end = to ? Math.min(Number(to) + 1, DATA.length) : DATA.length;
    const cached = init.cache !== "reload";
    const got = answer({ n: log.length, start, end, method: init.method ?? "GET", cached });
    if (!got) throw new TypeError("Failed to fetch");
    const { status = 200, headers = {}, body = DATA, breaks, foreign } = got;
    const shown = new Headers(headers);
    if (foreign) for (const name of [...shown.keys()]) if (!VISIBLE.includes(name)) shown.delete(name);
    let at = 0;
    const stream = new ReadableStream<Uint8Array>({
      pull(controller) {
        if (breaks !== undefined && at >= breaks) return controller.error(new TypeError("network error"));
        if (at >= body.length) return controller.close();
        const next = Math.min(at + 50_000, breaks ?? Infinity, body.length);
        controller.enqueue(body.slice(at, next));
        at = next;
      },
    });
    const response = new Response(stream, { status, headers: shown });
    if (foreign) Object.defineProperty(response, "type", { value: "cors" });
    return response;
  };
  return { fetch: fake as typeof fetch, log };
}

/** The response of a server that keeps the rules: a part, or without ranges the whole file. */
function right({ start, end }: Request, more: Answer = {}): Answer {
  const part = start !== undefined;
  const body = part ? DATA.slice(start, end) : DATA;
  const headers: Record<string, string> = { ETag: '"one"', "Content-Length": String(body.length) };
  if (part) headers["Content-Range"] = `bytes ${start}-${end - 1}/${DATA.length}`;
  return { status: part ? 206 : 200, body, ...more, headers: { ...headers, ...more.headers } };
}

/** Opens the file and reads all of it; `folder` is the browser's store, with chunks of `CHUNK` bytes. */
async function load(
  answer: (request: Request) => Answer | undefined,
  cache: Keep,
  sha256?: string,
  folder = new FakeFolder(),
) {
  const { fetch, log } = fetchOf(answer);
  const storage = { getDirectory: async () => ({ getDirectoryHandle: async () => folder.handle }) };
  Object.defineProperty(globalThis, "navigator", { configurable: true, value: { onLine: true, storage } });
  const scope = globalThis as unknown as Record<string, unknown>;
  scope.FileSystemFileHandle = class {
    createSyncAccessHandle(): void {}
  };
  const notices: string[] = [];
  const progress: [number, number][] = [];
  const events = {
    notice: (text: string) => notices.push(text),
    download: (_: string, done: number, total: number) => progress.push([done, total]),
  };
  const spec: SourceSpec = { kind: "url", url: URL_, cache, ...(sha256 ? { sha256 } : {}) };
  let source: OpenSource | undefined;
  try {
    source = await openSource(spec, events, { fetch, retryDelay: 1, chunk: CHUNK } as SourceOptions);
    const bytes = new Uint8Array(source.size);
    for (let at = 0; at < source.size; at += 300_000)
      bytes.set(await source.read(at, Math.min(300_000, source.size - at)), at);
    await source.finished?.();
    return { bytes, log, notices, progress, stored: folder.files.size > 0 };
  } finally {
    source?.close?.();
    delete scope.FileSystemFileHandle;
  }
}

const NGINX = /turn its compression off for this file \(nginx: gzip off; elsewhere: Cache-Control: no-transform\)$/;

/** The encoded form is shorter than the file; that fetch decodes it is left out. */
const encoded = (headers: Record<string, string>): Answer => ({
  headers: { "Content-Encoding": "gzip", ...headers },
});

const LENGTH = { "Content-Length": "12345" };

type Server = (request: Request) => Answer | undefined;
const foreign = (server: Server): Server => (request) => {
  const answer = server(request);
  return answer && { ...answer, foreign: true };
};

// Chromium refuses an encoded response to a request for a range; other browsers decode it.
const COMPRESSING: Record<string, Server> = {
  "with a length": ({ start }) => (start === undefined ? encoded(LENGTH) : undefined),
  "in chunks": ({ start }) => (start === undefined ? encoded({}) : undefined),
  "with a length, in a browser that decodes": () => encoded(LENGTH),
  "in chunks, in a browser that decodes": () => encoded({}),
  "by another coding": ({ start }) => (start === undefined ? encoded({ "Content-Encoding": "zstd" }) : undefined),
  "by two codings": ({ start }) => (start === undefined ? encoded({ "Content-Encoding": "br, gzip" }) : undefined),
};

test("a server that compresses is loaded from, and whoever owns it is told", async (t) => {
  for (const [name, own] of Object.entries(COMPRESSING))
    for (const [site, server] of Object.entries({ own, other: foreign(own) }))
      for (const cache of ["auto", "off"] as const)
        await t.test(`${name}, ${site} site, cache ${cache}`, async () => {
          const got = await load(server, cache);
          assert.deepEqual(got.bytes, DATA);
          assert.equal(got.stored, false, "left a file in the store");
          // Another site's coding is hidden: with a length nothing shows but that the length was wrong.
          const silent = site === "other" && cache === "off" && /decodes/.test(name);
          if (silent) assert.deepEqual(got.notices, []);
          else assert.match(got.notices.at(-1)!, NGINX);
          if (site === "own")
            assert.match(got.notices.join("\n"), /^tiny\.gguf: the server compresses it \(Content-Encoding: .*$/);
          for (const [done, total] of got.progress) assert.ok(total === 0 || done <= total, `${done} of ${total}`);
          assert.deepEqual(got.progress.at(-1), [DATA.length, DATA.length]);
        });
});

test("a part of an encoded form is no part of the file", async () => {
  const server: Server = (request) => {
    const { start } = request;
    return start === undefined ? encoded(LENGTH) : right(request, { headers: { "Content-Encoding": "gzip" } });
  };
  for (const cache of ["auto", "off"] as const) {
    const got = await load(server, cache);
    assert.deepEqual(got.bytes, DATA);
    assert.match(got.notices[0]!, NGINX);
  }
  // Codings that no browser undoes change nothing, such as one that storages add.
  const plain = await load((request) => right(request, { headers: { "Content-Encoding": "aws-chunked" } }), "off");
  assert.deepEqual([plain.bytes, plain.notices], [DATA, []]);
});

test("what is not in its Content-Encoding cannot be loaded, and the error says what to do", async () => {
  const server: Server = ({ start }) => (start === undefined ? { ...encoded(LENGTH), breaks: 0 } : undefined);
  for (const one of [server, foreign(server)])
    for (const cache of ["auto", "off"] as const)
      await assert.rejects(load(one, cache), /retries failed: .*Content-Encoding is wrong; turn its compression off/);
});

/** Servers without ranges, or that break the rules of ranges. */
const RANGELESS: Record<string, Server> = {
  "ignore them": (request) => right({ ...request, start: undefined }),
  "refuse them with 416": (request) => (request.start === undefined ? right(request) : { status: 416 }),
  "refuse them with 501": (request) => (request.start === undefined ? right(request) : { status: 501 }),
  "refuse them with 400": (request) => (request.start === undefined ? right(request) : { status: 400 }),
  "send other bytes": (request) =>
    request.start === undefined ? right(request) : right({ ...request, start: request.start + 5 }),
  "send a wrong header": (request) =>
    request.start === undefined ? right(request) : right(request, { headers: { "Content-Range": "bytes=0-9/10" } }),
  "send several parts": (request) =>
    request.start === undefined
      ? right(request)
      : { status: 206, headers: { "Content-Type": "multipart/byteranges; boundary=x" } },
  "answer requests for them by silence": (request) => (request.start === undefined ? right(request) : undefined),
};

test("without ranges, or with wrong ones, the file is loaded in one piece", async (t) => {
  for (const [name, server] of Object.entries(RANGELESS))
    for (const [site, one] of Object.entries({ own: server, other: foreign(server) }))
      for (const cache of ["auto", "off"] as const)
        await t.test(`${name}, ${site} site, cache ${cache}`, async () => {
          const got = await load(one, cache);
          assert.deepEqual(got.bytes, DATA);
          for (const [done, total] of got.progress) assert.ok(total === 0 || done <= total, `${done} of ${total}`);
        });
});

test("a file whose announced length is wrong is never kept, nor used from a download that ended early", async (t) => {
  for (const length of [3 * CHUNK, 3 * CHUNK + 1, DATA.length - 1, DATA.length + 1, 8 * CHUNK])
    await t.test(`${length} bytes`, async () => {
      const server = foreign(() => ({ headers: { "Content-Length": String(length) } }));
      const folder = new FakeFolder();
      for (const _ of [1, 2]) {
        const got = await load(server, "auto", undefined, folder);
        assert.deepEqual([got.bytes, got.stored], [DATA, false]);
      }
      // The tab ended after the last chunk of the announced length.
      const key = await Store.key(URL_);
      const kept = new Uint8Array(length);
      kept.set(DATA.subarray(0, length));
      const hashes = Array.from({ length: Math.ceil(length / CHUNK) }, (_, i) =>
        JSON.stringify([i, createHash("sha256").update(kept.subarray(i * CHUNK, (i + 1) * CHUNK)).digest("hex")]),
      );
      const first = JSON.stringify({ v: 1, url: URL_, name: "tiny.gguf", size: length, chunk: CHUNK, created: 1 });
      folder.files.set(key, kept);
      folder.files.set(`${key}.journal`, new TextEncoder().encode([first, ...hashes, ""].join("\n")));
      const got = await load(server, "auto", undefined, folder);
      assert.deepEqual([got.bytes, got.stored], [DATA, false]);
    });
});

test("a hidden size is not that of a part whose length the server caps", async () => {
  const capped: Server = (request) =>
    right({ ...request, end: Math.min(request.end, (request.start ?? 0) + 250_000) });
  const server = foreign((request) => (request.start === undefined ? right(request) : capped(request)));
  for (const cache of ["auto", "off"] as const) assert.deepEqual((await load(server, cache)).bytes, DATA);
  // No byte behind the file is asked for: some servers fail then.
  const got = await load(
    foreign((request) => (request.start! >= DATA.length ? undefined : right(request))),
    "auto",
  );
  assert.deepEqual([got.bytes, got.stored, got.notices], [DATA, true, []]);
});

test("a short outage does not end the ranges", async () => {
  const outages: Record<string, Server> = {
    "503, then a drop": ({ n }) => (n === 1 ? { status: 503 } : undefined),
    "a drop, then 503": ({ n }) => (n === 1 ? undefined : { status: 503 }),
    "three failures": () => undefined,
  };
  for (const [name, fault] of Object.entries(outages))
    for (const faults of name.startsWith("three") ? [3, 5] : [2])
      for (const cache of ["auto", "off"] as const) {
        const got = await load((request) => (request.n <= faults ? fault(request) : right(request)), cache);
        assert.deepEqual([got.bytes, got.notices], [DATA, []], name);
        assert.equal(got.stored, cache === "auto", name);
        assert.match(got.log.at(-1)!, /^\d+-\d+$/, name);
      }
});

test("a size that is hidden is that of the file, not of its encoded form", async () => {
  // To requests without a range, HEAD among them, the server compresses.
  const server = foreign((request) => (request.start === undefined ? encoded(LENGTH) : right(request)));
  for (const cache of ["auto", "off"] as const) {
    const got = await load(server, cache);
    assert.deepEqual(got.bytes, DATA);
    assert.deepEqual(got.notices, []);
    assert.ok(!got.log.includes("whole"), got.log.join(" "));
  }
});

test("one failed request, or one server of several without ranges, does not end the ranges", async () => {
  for (const odd of [1, 2]) {
    const faults: Server[] = [() => undefined];
    if (odd > 1) faults.push((request) => right({ ...request, start: undefined }));
    for (const fault of faults) {
      const got = await load((request) => (request.n === odd ? fault(request) : right(request)), "off");
      assert.deepEqual([got.bytes, got.notices], [DATA, []]);
      assert.match(got.log.at(-1)!, /^\d+-\d+$/);
    }
  }
  const turns: Server = (request) => right({ ...request, start: request.n > 1 ? undefined : request.start });
  await assert.rejects(load(turns, "off"), /download: the server sent the whole file, where it had sent parts/);
  const shifts: Server = (request) => right({ ...request, start: request.n > 1 ? 7 : request.start });
  await assert.rejects(load(shifts, "off"), /sent other bytes than those from \d+ on .* \(bytes 7-\d+\/700000\)/);
});

test("an address that a redirect led to may expire", async () => {
  for (const status of [403, 400, 410]) {
    let valid = true;
    const server: Server = (request) => {
      if (!request.cached) valid = true; // the redirect is asked for again, and gives a new address
      if (request.n === 2) valid = false;
      return valid ? right(request) : { status };
    };
    assert.deepEqual((await load(server, "off")).bytes, DATA);
    const signed: Server = (request) => (request.n === 1 ? right(request) : { status });
    await assert.rejects(load(signed, "off"), /answered \d+ .*in the middle of the file \(a signed address expires/);
  }
});

test("a checksum holds in every way of loading", async (t) => {
  const drops: Server = (request) => right(request, request.n < 4 ? { breaks: 150_000 } : {});
  const ways: Record<string, Server> = {
    ranges: right,
    "ranges, hidden size": foreign(right),
    "dropped connections": drops,
    "no ranges": RANGELESS["ignore them"]!,
    "no ranges, dropped": (request) => right({ ...request, start: undefined }, request.n < 3 ? { breaks: 99_999 } : {}),
    compressed: COMPRESSING["with a length"]!,
    "compressed, other site": foreign(COMPRESSING["in chunks"]!),
  };
  for (const [name, server] of Object.entries(ways))
    for (const cache of ["auto", "off"] as const)
      await t.test(`${name}, cache ${cache}`, async () => {
        assert.deepEqual((await load(server, cache, SHA)).bytes, DATA);
        await assert.rejects(load(server, cache, OTHER), { code: "checksum", message: /tiny\.gguf: sha256: / });
      });
  // A dropped connection goes on where it broke.
  const resumed = await load(drops, "off", SHA);
  assert.deepEqual(resumed.log, ["0-", "150000-699999", "300000-699999", "450000-699999"]);
  const changes: Server = (request) =>
    right(request, request.n === 1 ? { breaks: 150_000 } : { headers: { ETag: '"two"' } });
  await assert.rejects(load(changes, "off", SHA), { code: "changed" });
});

test("a file is not read before its checksum was compared, where nothing is stored", async () => {
  const { fetch } = fetchOf(right);
  for (const url of [URL_, "data:application/octet-stream,x", "blob:https://page.test/1"])
    await assert.rejects(openSource({ kind: "url", url, sha256: OTHER, cache: "off" }, {}, { fetch }), {
      code: "checksum",
    });
});

test("a checksum that is misspelt is refused", () => {
  const at = (fragment: string) => resolve(`https://x.test/m.gguf#${fragment}`, undefined);
  const upper = SHA.toUpperCase();
  for (const [fragment, want] of Object.entries({
    [`sha256=${SHA}`]: SHA,
    [`sha256=${upper}`]: SHA,
    [`SHA256=${SHA}`]: SHA,
    [`name=x&sha256=${SHA}`]: SHA,
    [`sha256=${SHA}&name=x`]: SHA,
    "": undefined,
    part: undefined,
    "page=2&zoom=3": undefined,
  }))
    assert.equal(at(fragment).sha256, want, fragment);
  for (const fragment of [
    "sha256=",
    "sha256",
    `sha256=${SHA.slice(1)}`,
    `sha256=${SHA}0`,
    `sha256=${SHA} x`,
    `sha256=${SHA}?download=true`,
    `sha256=${SHA}#sha256=${SHA}`,
    `sha256=${SHA}&sha256=${OTHER}`,
    `sha256=${SHA}&sha256=${SHA}`,
    `sha256=0x${SHA.slice(2)}`,
    `sha256=${SHA.slice(1)}g`,
    `sha256:${SHA}`,
    `sha256-${SHA}`,
    "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=",
    "sha256=47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=",
    `sha-256=${SHA}`,
    `sha256%3D${SHA}`,
    `name=x;sha256=${SHA}`,
    `#sha256=${SHA}`,
    `sha512=${SHA}${SHA}`,
    `sha1=${SHA.slice(24)}`,
    `md5=${SHA.slice(32)}`,
    `checksum=${SHA}`,
    `integrity=sha256-${SHA}`,
  ])
    assert.throws(() => at(fragment), { code: "bad_option", message: /#sha256= and 64 hexadecimal digits/ }, fragment);
  assert.throws(() => resolve(`owner/repo/m.gguf#sha256=${SHA.slice(1)}`, undefined), { code: "bad_option" });
});

test("of a model of several files a checksum is compared with the named one, and a note says so", async () => {
  const { fetch } = fetchOf(right);
  const open = async (spec: SourceSpec) => {
    const notices: string[] = [];
    const sources = await openModel(spec, { notice: (text) => notices.push(text) }, { fetch, retryDelay: 1 });
    return { count: sources.length, notices };
  };
  const url = (name: string, sha256?: string): SourceSpec => ({
    kind: "url", url: `https://models.test/m/${name}`, cache: "off", ...(sha256 ? { sha256 } : {}),
  });
  const note = /^m-00002-of-00003\.gguf: the checksum is compared with this file alone, and with none of .* 2 others/;
  const split = await open(url("m-00002-of-00003.gguf", SHA));
  assert.equal(split.count, 3);
  assert.match(split.notices.join(), note);
  const tensors = await open(url("model.safetensors", SHA));
  assert.match(tensors.notices.join(), /^model\.safetensors: the checksum is compared with this file alone/);
  assert.deepEqual((await open(url("m-00002-of-00003.gguf"))).notices, []);
  for (const name of ["m-00002-of-00003.gguf", "model.safetensors", "m.gguf", "m"])
    await assert.rejects(open(url(name, OTHER)), { code: "checksum" }, name);
  // A part that the model does not have.
  await assert.rejects(open(url("m-00004-of-00003.gguf", SHA)), { code: "bad_option" });
  // A list has a checksum for each.
  const parts = [1, 2, 3].map((i) => `m-0000${i}-of-00003.gguf`);
  const list = (last: string): SourceSpec => ({
    kind: "files", files: parts.map((name, i) => url(name, i === 2 ? last : SHA)),
  });
  assert.deepEqual(await open(list(SHA)), { count: 3, notices: [] });
  await assert.rejects(open(list(OTHER)), { code: "checksum" });
});
