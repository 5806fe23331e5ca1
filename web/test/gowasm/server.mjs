// The loopback server behind gowasm.mjs: the page, the scripts, and files of
// the allowed directories, read-only, for the binary's os.Open and os.Stat.
import { createReadStream, promises as fs, realpathSync } from "node:fs";
import http from "node:http";
import path from "node:path";

const PAGE = `<!doctype html><meta charset="utf-8"><title>go test</title><script>
  // Messages of the worker go to the server one after the other, in order.
  // The page has nothing else to do, so output shows while the worker computes.
  let queue = Promise.resolve();
  const post = (where, body) => {
    queue = queue.then(() => fetch(where, { method: "POST", body })).catch(() => {});
  };
  fetch("/start").then((r) => r.json()).then((start) => {
    const worker = new Worker("/worker.js");
    worker.onmessage = ({ data }) => {
      if (data.output) post("/output?fd=" + data.fd, data.output);
      else if (data.why !== undefined) post("/fail", data.why);
      else post("/exit?code=" + data.exit, "");
    };
    worker.onerror = (e) => post("/fail", "the worker failed: " + (e.message || "it could not be loaded"));
    worker.postMessage(start);
  });
</script>`;

const TYPES = { ".js": "text/javascript", ".wasm": "application/wasm" };

/** Starts the server and resolves to {url, close}. */
export function serve({ roots, scripts, start, output, exit, fail }) {
  const allowed = [];
  for (const r of roots) {
    try {
      if (r) allowed.push(realpathSync(r));
    } catch {
      // A directory that is not there has no files to serve.
    }
  }

  /** The real path of a name inside the allowed directories. */
  async function locate(name) {
    const real = await fs.realpath(path.resolve(start.cwd, name));
    if (!allowed.some((a) => real === a || real.startsWith(a + path.sep))) {
      throw Object.assign(new Error("outside the directories that tests may read"), { code: "ENOENT" });
    }
    return real;
  }

  const json = (res, value, status = 200) => {
    res.writeHead(status, { "content-type": "application/json", "cache-control": "no-store" });
    res.end(JSON.stringify(value));
  };

  const file = {
    async stat(res, name) {
      const { mode, size, mtimeMs, ino } = await fs.stat(await locate(name));
      json(res, { mode, size, mtimeMs: Math.floor(mtimeMs), ino });
    },
    async readdir(res, name) {
      json(res, (await fs.readdir(await locate(name))).sort());
    },
    async read(res, name, range) {
      const m = /^bytes=(\d+)-(\d+)$/.exec(range ?? "");
      const real = await locate(name);
      const { size } = await fs.stat(real);
      const from = m ? Number(m[1]) : 0;
      const to = Math.min(m ? Number(m[2]) : size - 1, size - 1);
      const head = { "content-type": "application/octet-stream", "cache-control": "no-store" };
      if (from > to) {
        res.writeHead(200, { ...head, "content-length": 0 }).end();
        return;
      }
      res.writeHead(206, { ...head, "content-length": to - from + 1, "content-range": `bytes ${from}-${to}/${size}` });
      createReadStream(real, { start: from, end: to })
        .on("error", () => res.destroy())
        .pipe(res);
    },
  };

  async function body(req) {
    const parts = [];
    for await (const p of req) parts.push(p);
    return Buffer.concat(parts);
  }

  const server = http.createServer(async (req, res) => {
    // Shared memory, which threads need, is for pages that are isolated.
    res.setHeader("cross-origin-opener-policy", "same-origin");
    res.setHeader("cross-origin-embedder-policy", "require-corp");
    try {
      const url = new URL(req.url, "http://localhost");
      if (url.pathname === "/") {
        res.writeHead(200, { "content-type": "text/html" }).end(PAGE);
      } else if (url.pathname === "/start") {
        json(res, start);
      } else if (url.pathname === "/output") {
        output(Number(url.searchParams.get("fd")), await body(req));
        json(res, null);
      } else if (url.pathname === "/exit") {
        json(res, null);
        exit(Number(url.searchParams.get("code")));
      } else if (url.pathname === "/fail") {
        const why = (await body(req)).toString();
        json(res, null);
        fail(why);
      } else if (scripts[url.pathname]) {
        const from = scripts[url.pathname];
        res.writeHead(200, { "content-type": TYPES[path.extname(url.pathname)], "cache-control": "no-store" });
        createReadStream(from)
          .on("error", () => res.destroy())
          .pipe(res);
      } else if (url.pathname.startsWith("/file/") && file[url.pathname.slice(6)]) {
        await file[url.pathname.slice(6)](res, url.searchParams.get("name"), req.headers.range);
      } else {
        res.writeHead(404).end();
      }
    } catch (e) {
      if (res.headersSent) res.destroy();
      else json(res, { code: e.code ?? "EIO", message: e.message }, 404);
    }
  });
  return new Promise((resolve, reject) => {
    server.on("error", reject);
    server.listen(0, "127.0.0.1", () =>
      resolve({
        url: `http://127.0.0.1:${server.address().port}/`,
        close: () => (server.close(), server.closeAllConnections()),
      }),
    );
  });
}
