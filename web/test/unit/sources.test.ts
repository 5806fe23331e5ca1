import assert from "node:assert/strict";
import { test } from "node:test";
import { openBlob, openURL, type SourceOptions } from "../../src/sources/open.ts";

const DATA = Uint8Array.from({ length: 900_000 }, (_, i) => (i * 7 + (i >> 8)) & 255);
const URL_ = "http://models.test/a%20b/tiny.gguf?download=1";

interface Script {
  ranges?: boolean;
  type?: string;
  status?: number | number[];
  etag?: string[];
  /** The number of bytes after which the nth body breaks. */
  breaks?: (number | undefined)[];
  hideSize?: boolean;
}

/** A fake fetch; `log` holds the requested ranges. */
function server(script: Script): { options: SourceOptions; log: string[] } {
  const log: string[] = [];
  let request = 0;
  let body = 0;
  const fake = async (_url: RequestInfo | URL, init?: RequestInit): Promise<Response> => {
    const range = new Headers(init?.headers).get("Range");
    log.push(init?.method === "HEAD" ? "HEAD" : (range ?? "whole"));
    const n = request++;
    const status = Array.isArray(script.status) ? script.status[n] : script.status;
    if (status === 0) throw new TypeError("Failed to fetch");
    if (status && status !== 200) return new Response("no", { status });
    const headers = new Headers({ "Content-Type": script.type ?? "application/octet-stream" });
    const etag = script.etag?.[Math.min(n, script.etag.length - 1)];
    if (etag) headers.set("ETag", etag);
    let bytes = DATA;
    let code = 200;
    const match = /bytes=(\d+)-(\d*)/.exec(range ?? "");
    if (match && script.ranges !== false) {
      const from = Number(match[1]);
      const to = Math.min(Number(match[2] || Infinity), DATA.length - 1);
      bytes = DATA.slice(from, to + 1);
      code = 206;
      if (!script.hideSize) headers.set("Content-Range", `bytes ${from}-${to}/${DATA.length}`);
    }
    headers.set("Content-Length", String(bytes.length));
    if (init?.method === "HEAD") return new Response(null, { headers });
    const broken = script.breaks?.[body++];
    if (broken === undefined) return new Response(bytes, { status: code, headers });
    let sent = false;
    const stream = new ReadableStream({
      pull(controller) {
        if (!sent) controller.enqueue(bytes.slice(0, broken));
        else controller.error(new TypeError("network error"));
        sent = true;
      },
    });
    return new Response(stream, { status: code, headers });
  };
  return { options: { fetch: fake as typeof fetch, retryDelay: 1 }, log };
}

test("a URL is read by ranges, and small reads come from blocks", async () => {
  const { options, log } = server({});
  const source = await openURL(URL_, options);
  assert.equal(source.name, "tiny.gguf");
  assert.equal(source.size, DATA.length);
  for (const [offset, length] of [
    [0, 4],
    [4, 8],
    [262_140, 8],
    [899_999, 1],
    [0, 0],
    [10, 500_000],
  ] as const) {
    assert.deepEqual(await source.read(offset, length), DATA.slice(offset, offset + length), `${offset}+${length}`);
  }
  assert.deepEqual(log, ["bytes=0-262143", "bytes=262144-524287", "bytes=786432-899999", "bytes=10-500009"]);
});

test("a read outside the file is an error that names the range", async () => {
  const source = await openURL(URL_, server({}).options);
  for (const [offset, length] of [
    [-1, 4],
    [0, DATA.length + 1],
    [DATA.length, 1],
    [0.5, 1],
    [Number.MAX_SAFE_INTEGER, 10],
  ] as const) {
    await assert.rejects(source.read(offset, length), /^SourceError: tiny\.gguf: range: /);
  }
});

test("a dropped connection resumes where it broke", async () => {
  const { options, log } = server({ breaks: [undefined, 100_000, 200_000] });
  const source = await openURL(URL_, options);
  assert.deepEqual(await source.read(0, 600_000), DATA.slice(0, 600_000));
  assert.deepEqual(log.slice(1), ["bytes=0-599999", "bytes=100000-599999", "bytes=300000-599999"]);
});

test("after all retries the error names the byte where the connection broke", async () => {
  const { options } = server({ breaks: [undefined, 1000, 0, 0, 0, 0, 0, 0] });
  const source = await openURL(URL_, options);
  await assert.rejects(
    source.read(0, 600_000),
    /tiny\.gguf: download: the connection dropped at byte 1000 and 4 retries/,
  );
});

test("an overloaded server is retried, a missing file is not", async () => {
  const overloaded = server({ status: [503, 0, 429, 200] });
  assert.equal((await openURL(URL_, overloaded.options)).size, DATA.length);
  assert.equal(overloaded.log.length, 4);
  const missing = server({ status: 404 });
  await assert.rejects(
    openURL(URL_, missing.options),
    /tiny\.gguf: download: the server answered 404 Not Found for http:/,
  );
  assert.equal(missing.log.length, 1);
  await assert.rejects(openURL(URL_, server({ status: 0 }).options), /cannot be reached \(Failed to fetch\)/);
});

test("an HTML page is not a model", async () => {
  await assert.rejects(
    openURL(URL_, server({ type: "text/html; charset=utf-8" }).options),
    /tiny\.gguf: content-type: .*HTML page/,
  );
});

test("without ranges a file downloads at once, with progress", async () => {
  const { options, log } = server({ ranges: false, breaks: [5000] });
  const seen: number[] = [];
  const source = await openURL(URL_, { ...options, onDownload: (done, total) => seen.push(done / total) });
  assert.equal(source.size, DATA.length);
  assert.deepEqual(await source.read(800_000, 5), DATA.slice(800_000, 800_005));
  assert.equal(log.length, 2);
  assert.equal(seen.at(-1), 1);
});

test("a request for all bytes gives a size that the response hides", async () => {
  const { options, log } = server({ hideSize: true });
  assert.equal((await openURL(URL_, options)).size, DATA.length);
  assert.deepEqual(log, ["bytes=0-262143", "bytes=0-", "bytes=899999-899999", "bytes=899999-"]);
});

test("a file that changes during the load is an error", async () => {
  const { options } = server({ etag: ['"one"', '"two"'] });
  const source = await openURL(URL_, options);
  await assert.rejects(source.read(0, 600_000), /the file changed on the server/);
  const weak = await openURL(URL_, server({ etag: ['W/"one"', 'W/"two"'] }).options);
  assert.equal((await weak.read(0, 600_000)).length, 600_000);
});

test("a local file is read in slices", async () => {
  const source = openBlob(new Blob([DATA]), "mine.gguf");
  assert.deepEqual(await source.read(262_100, 100), DATA.slice(262_100, 262_200));
  const gone = openBlob(
    {
      size: 10,
      slice: () => ({ arrayBuffer: () => Promise.reject(new Error("NotReadableError")) }),
    } as unknown as Blob,
    "gone.gguf",
  );
  await assert.rejects(gone.read(0, 4), /gone\.gguf: file: can no longer be read/);
});
