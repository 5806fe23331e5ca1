/** A server of model files with faults that tests choose. */
import { createHash } from "node:crypto";
import { promises as fs } from "node:fs";
import http from "node:http";
import { brotliCompressSync, constants, deflateSync, gzipSync } from "node:zlib";

const sha256 = (data) => createHash("sha256").update(data).digest("hex");

const FAST = { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } };
const CODINGS = {
  gzip: (data) => gzipSync(data, { level: 1 }),
  deflate: (data) => deflateSync(data, { level: 1 }),
  br: (data) => brotliCompressSync(data, FAST),
};

/** Waits until the response can take more data or is closed. */
function drained(response) {
  return new Promise((resolve) => {
    const go = () => {
      response.off("drain", go).off("close", go);
      resolve();
    };
    response.on("drain", go).on("close", go);
    if (response.destroyed) go(); // closed before the listener was added
  });
}

/**
 * Starts a server on a free port, which is another origin than the page's. `files` maps paths to descriptions:
 *
 *   data or path    the bytes, or a file on disk
 *   etag            the ETag; default a hash of the bytes
 *   ranges: false   ignores Range
 *   refuses         the status of a response to Range
 *   coding          the Content-Encoding of every response; ranges and lengths are of the encoded form
 *   chunked         sends no Content-Length
 *   cors: false     sends no CORS headers
 *   drop(n, start)  returns the bytes after which the nth response, from byte `start` on, breaks, or undefined
 *   corrupt         the position of a byte to corrupt
 *   length(n)       returns the Content-Length of a body of n bytes
 *   redirect        the address to redirect to, by `status`; default 302
 *   gate(start)     resolves when the response from byte `start` on may start
 *   rate            bytes per second of a response
 *
 * `requests` holds {path, range} of each request since the test cleared it.
 */
export async function startFaults() {
  const files = new Map();
  const requests = [];
  const open = new Set();
  const server = http.createServer((request, response) => {
    answer(request, response).catch((error) => response.destroy(error));
  });
  server.on("connection", (socket) => {
    open.add(socket);
    socket.on("close", () => open.delete(socket));
  });

  async function answer(request, response) {
    const { pathname } = new URL(request.url, "http://x");
    const range = request.headers.range;
    const method = request.method;
    requests.push({ path: pathname, range, method });
    const file = files.get(pathname);
    const headers = { "Cross-Origin-Resource-Policy": "cross-origin", "Cache-Control": "no-store" };
    if (file?.cors !== false)
      Object.assign(headers, {
        "Access-Control-Allow-Origin": "*",
        "Access-Control-Expose-Headers": "ETag, Content-Range, X-Linked-Etag",
      });
    else delete headers["Cross-Origin-Resource-Policy"];
    if (!file) return void response.writeHead(404, headers).end("not here");
    if (file.redirect)
      return void response.writeHead(file.status ?? 302, { ...headers, Location: file.redirect }).end();
    if (file.json)
      return void response
        .writeHead(200, { ...headers, "Content-Type": "application/json" })
        .end(JSON.stringify(file.json));
    if (range && file.refuses) return void response.writeHead(file.refuses, headers).end();
    if (file.coding) {
      headers["Content-Encoding"] = file.coding;
      file.encoded ??= CODINGS[file.coding](file.data);
    }
    file.size ??= file.path ? (await fs.stat(file.path)).size : undefined;
    const data = file.encoded ?? file.data;
    const total = data?.length ?? file.size;
    file.tag ??= file.data ? sha256(file.data).slice(0, 16) : String(total);
    headers["ETag"] = `"${file.etag ?? file.tag}"`;
    headers["Content-Type"] = "application/octet-stream";
    let start = 0;
    let end = total;
    let status = 200;
    const match = /^bytes=(\d+)-(\d*)$/.exec(range ?? "");
    if (match && file.ranges !== false) {
      start = Number(match[1]);
      end = match[2] ? Math.min(Number(match[2]) + 1, total) : total;
      if (start >= total) return void response.writeHead(416, headers).end();
      status = 206;
      headers["Content-Range"] = `bytes ${start}-${end - 1}/${file.total ?? total}`;
    }
    file.answers = (file.answers ?? 0) + 1;
    const drop = file.drop?.(file.answers, start);
    if (!file.chunked) headers["Content-Length"] = file.length ? file.length(end - start) : end - start;
    await file.gate?.(start);
    if (response.destroyed) return;
    response.writeHead(status, headers).flushHeaders();
    if (method === "HEAD") return void response.end();
    const handle = file.path ? await fs.open(file.path) : undefined;
    try {
      const piece = Buffer.alloc(256 * 1024);
      for (let at = start; at < end && !response.destroyed;) {
        let take = Math.min(piece.length, end - at);
        if (drop !== undefined) take = Math.min(take, start + drop - at);
        if (take <= 0) return void response.destroy();
        let part;
        if (handle) part = Buffer.from(piece.subarray(0, (await handle.read(piece, 0, take, at)).bytesRead));
        else part = Buffer.from(data.subarray(at, at + take));
        if (file.corrupt >= at && file.corrupt < at + take) part[file.corrupt - at] ^= 0xff;
        if (!response.write(part)) await drained(response);
        // Wait in steps, so that deleting the rate takes effect.
        for (let wait = take; file.rate && wait > 0 && !response.destroyed; wait -= file.rate / 20)
          await new Promise((resolve) => setTimeout(resolve, 50));
        at += take;
      }
      response.end();
    } finally {
      await handle?.close();
    }
  }

  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${server.address().port}`;
  return {
    url,
    files,
    requests,
    /** Serves a file and, like a hub, its checksum in the list of files. */
    publish(repo, name, file) {
      files.set(`/${repo}/resolve/main/${name}`, file);
      files.set(`/api/models/${repo}/tree/main`, {
        json: [
          { type: "file", path: name, size: file.data.length, lfs: { oid: sha256(file.data), size: file.data.length } },
        ],
      });
    },
    async stop() {
      const closed = new Promise((resolve) => server.close(resolve));
      for (const socket of open) socket.destroy();
      await closed;
    },
  };
}
