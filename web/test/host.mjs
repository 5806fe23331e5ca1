/** A plain static server, by default without special headers: texts at paths, folders below prefixes. */
import { promises as fs } from "node:fs";
import http from "node:http";
import path from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";

const TYPES = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript",
  ".mjs": "text/javascript",
  ".css": "text/css",
  ".svg": "image/svg+xml",
  ".png": "image/png",
  ".json": "application/json",
  ".wasm": "application/wasm",
  ".webmanifest": "application/manifest+json",
};
const typeOf = (name) => TYPES[path.extname(name)];

/**
 * Serves `pages` (path → text) and `folders` (prefix → folder) on `port`, by default a free one; tests may change both
 * later. `headers` go with every answer, or are a function of its path, `cors` allows other origins to read everything,
 * `isolated` sends the headers that give pages shared memory, `compressed` sends .gz siblings, and `rate` is the most
 * bytes of a file a second. `asked` lists the requested paths. After `down(true)`, connections end without an answer,
 * as without a network.
 */
export async function startHost({
  pages = {},
  folders = {},
  headers: always = {},
  cors = false,
  isolated = false,
  compressed = false,
  rate = Infinity,
  port = 0,
} = {}) {
  const asked = [];
  const sent = [];
  /** Sends a file in pieces: a browser may not want all of it. */
  async function send(name, data, response) {
    const count = { name, bytes: 0 };
    sent.push(count);
    async function* pieces() {
      const begun = performance.now();
      for (let at = 0; at < data.length; at += 1 << 16) {
        const early = (1000 * at) / rate - (performance.now() - begun);
        if (early > 1) await new Promise((resolve) => setTimeout(resolve, early));
        const piece = data.subarray(at, at + (1 << 16));
        count.bytes += piece.length;
        yield piece;
      }
    }
    await pipeline(Readable.from(pieces(), { highWaterMark: 1 }), response).catch(() => undefined);
  }
  let isDown = false;
  const server = http.createServer((request, response) => {
    answer(request, response).catch((cause) => {
      response.writeHead(500).end(String(cause));
    });
  });
  async function answer(request, response) {
    const { pathname } = new URL(request.url, "http://localhost");
    asked.push(pathname);
    const headers = {
      ...(typeof always === "function" ? always(pathname) : always),
      ...(cors ? { "Access-Control-Allow-Origin": "*" } : {}),
      ...(isolated
        ? { "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Embedder-Policy": "require-corp" }
        : {}),
    };
    if (pages[pathname] !== undefined)
      return response
        .writeHead(200, { ...headers, "Content-Type": typeOf(pathname) ?? TYPES[".html"] })
        .end(pages[pathname]);
    const prefix = Object.keys(folders).find((start) => pathname.startsWith(start));
    if (prefix !== undefined) {
      const folder = path.resolve(folders[prefix]);
      let file = path.join(folder, decodeURIComponent(pathname.slice(prefix.length)));
      if (file !== folder && !file.startsWith(folder + path.sep)) return response.writeHead(403).end();
      if ((await fs.stat(file).catch(() => undefined))?.isDirectory()) file = path.join(file, "index.html");
      const zipped =
        compressed && /\bgzip\b/.test(request.headers["accept-encoding"] ?? "")
          ? await fs.readFile(`${file}.gz`).catch(() => undefined)
          : undefined;
      const data = zipped ?? (await fs.readFile(file).catch(() => undefined));
      if (data) {
        const about = {
          "Content-Type": typeOf(file) ?? "application/octet-stream",
          "Content-Length": data.length,
          ...(zipped ? { "Content-Encoding": "gzip" } : {}),
        };
        response.writeHead(200, { ...headers, ...about });
        if (request.method === "HEAD") return response.end();
        return send(file, data, response);
      }
    }
    if (pathname === "/favicon.ico") return response.writeHead(204).end();
    response.writeHead(404, headers).end("not found");
  }
  server.on("connection", (socket) => {
    if (isDown) socket.destroy();
  });
  await new Promise((resolve, reject) => server.once("error", reject).listen(port, "127.0.0.1", resolve));
  const origin = `http://127.0.0.1:${server.address().port}`;
  return {
    url: `${origin}/`,
    origin,
    pages,
    folders,
    asked,
    /** The bytes of files sent, without headers, of those whose names pass `wanted`. */
    sent: (wanted = () => true) => sent.reduce((sum, { name, bytes }) => sum + (wanted(name) ? bytes : 0), 0),
    down(now) {
      isDown = now;
      if (now) server.closeAllConnections();
    },
    async stop() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
