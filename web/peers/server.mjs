/**
 * A loopback server for the pages, the built site, the installed engines and the models. All responses have the headers
 * that threads need (cross-origin isolation), so all engines have the same conditions.
 */
import { createReadStream, promises as fs } from "node:fs";
import { createServer } from "node:http";
import path from "node:path";

const TYPES = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript",
  ".mjs": "text/javascript",
  ".json": "application/json",
  ".wasm": "application/wasm",
};

/** Serves folders under their prefixes on a free port; an object of the form { "/site/": "web/dist" }. */
export async function serve(folders) {
  const server = createServer(async (request, response) => {
    const headers = {
      "Cross-Origin-Opener-Policy": "same-origin",
      "Cross-Origin-Embedder-Policy": "require-corp",
      "Cache-Control": "no-store",
    };
    try {
      const { pathname } = new URL(request.url, "http://localhost");
      const prefix = Object.keys(folders).find((p) => pathname.startsWith(p));
      const file =
        prefix && path.join(folders[prefix], path.normalize(`/${decodeURIComponent(pathname.slice(prefix.length))}`));
      const { size } = await fs.stat(file ?? "");
      headers["Content-Type"] = TYPES[path.extname(file)] ?? "application/octet-stream";
      headers["Accept-Ranges"] = "bytes";
      const range = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? "");
      const start = range ? Number(range[1]) : 0;
      const end = range?.[2] ? Math.min(Number(range[2]), size - 1) : size - 1;
      if (range) headers["Content-Range"] = `bytes ${start}-${end}/${size}`;
      response.writeHead(range ? 206 : 200, { ...headers, "Content-Length": end - start + 1 });
      if (request.method === "HEAD") response.end();
      else
        createReadStream(file, { start, end })
          .on("error", () => response.destroy())
          .pipe(response);
    } catch {
      response.writeHead(404, headers).end();
    }
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${server.address().port}/`,
    close: () => new Promise((resolve) => (server.closeAllConnections(), server.close(resolve))),
  };
}
