/**
 * The service worker: keeps the files of one build of the site, by the hashes of their contents, and answers with
 * them. It knows no others, so models of the reader's own and other origins are never kept. A page is asked of
 * the network first: where a newer build is out, the tab that got it is left to the network, so that no tab is ever
 * made of two builds.
 */
/// <reference lib="webworker" />

/** What esbuild puts in: the hash of the build, and each file's. */
declare const BUILD: string;
declare const FILES: Record<string, string>;

const worker = globalThis as unknown as ServiceWorkerGlobalScope;
const files = new Map(Object.entries(FILES));
const base = new URL("./", worker.location.href);
const CACHE = `foretoken-site:${base.pathname}`;
/** How long the network may take to say whether the page is still this build. */
const PATIENCE = 3000;

const keyOf = (path: string, hash: string): string => new URL(`${path}?${hash}`, base).href;
const NEWER = new URL("?newer", base).href;

worker.addEventListener("install", (event) => event.waitUntil(fill()));

worker.addEventListener("activate", (event) =>
  event.waitUntil(
    (async () => {
      const cache = await caches.open(CACHE);
      const wanted = new Set([...files].map(([path, hash]) => keyOf(path, hash)));
      for (const { url } of await cache.keys()) if (!wanted.has(url)) await cache.delete(url);
    })(),
  ),
);

worker.addEventListener("message", (event) => {
  if (event.data === "build") event.ports[0]?.postMessage(BUILD);
  else if (event.data === "activate") event.waitUntil(worker.skipWaiting());
});

worker.addEventListener("fetch", (event) => {
  const { request } = event;
  if (request.method !== "GET") return;
  const { origin, pathname } = new URL(request.url);
  if (origin !== base.origin || !pathname.startsWith(base.pathname)) return;
  const rest = pathname.slice(base.pathname.length);
  const path = rest === "" || rest.endsWith("/") ? `${rest}index.html` : rest;
  const hash = files.get(path);
  if (hash === undefined) return;
  event.respondWith(request.mode === "navigate" ? page(event, path, hash) : file(event, path, hash));
});

/** Takes what is not there yet; a file that is not the build's fails the installation, which the browser tries again. */
async function fill(): Promise<void> {
  const cache = await caches.open(CACHE);
  const queue = [...files];
  const take = async (): Promise<void> => {
    for (let next = queue.pop(); next; next = queue.pop()) {
      const [path, hash] = next;
      if (await cache.match(keyOf(path, hash))) continue;
      const response = await fetch(new URL(path, base), { cache: "no-cache" });
      if (!response.ok) throw new Error(`${path}: the server answered ${response.status}`);
      const bytes = await response.arrayBuffer();
      if ((await digest(bytes)) !== hash) throw new Error(`${path}: it is not the file that this build was made with`);
      const headers = new Headers(response.headers);
      for (const name of ["content-encoding", "transfer-encoding", "content-length", "vary"]) headers.delete(name); // of the transfer
      headers.set("content-length", String(bytes.byteLength));
      await cache.put(keyOf(path, hash), new Response(bytes, { headers }));
    }
  };
  await Promise.all([take(), take(), take()]);
}

async function digest(bytes: ArrayBuffer): Promise<string> {
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return [...hash.subarray(0, 12)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

async function kept(path: string, hash: string): Promise<Response | undefined> {
  return (await caches.open(CACHE)).match(keyOf(path, hash));
}

async function page(event: FetchEvent, path: string, hash: string): Promise<Response> {
  const there = await kept(path, hash);
  const signal = there ? AbortSignal.timeout(PATIENCE) : undefined;
  try {
    const response = await fetch(event.request.url, { cache: "no-cache", ...(signal ? { signal } : {}) });
    if (!response.ok && there) return there;
    const bytes = await response.clone().arrayBuffer();
    if (response.ok && (await digest(bytes)) !== hash) await leave(event.resultingClientId);
    // A navigation takes no answer that was redirected.
    return response.redirected ? new Response(bytes, { status: response.status, headers: response.headers }) : response;
  } catch (cause) {
    if (there) return there;
    throw cause;
  }
}

async function file(event: FetchEvent, path: string, hash: string): Promise<Response> {
  if ((await left()).has(event.clientId)) {
    await leave(event.resultingClientId); // a worker of that tab
    return fetch(event.request);
  }
  const there = await kept(path, hash);
  if (!there) return fetch(event.request);
  const range = /^bytes=(\d+)-(\d*)$/.exec(event.request.headers.get("range") ?? "");
  if (!range) return there;
  const body = await there.blob();
  const from = Number(range[1]);
  const to = Math.min(range[2] ? Number(range[2]) : Infinity, body.size - 1);
  const headers = new Headers(there.headers);
  if (from > to) {
    headers.set("content-range", `bytes */${body.size}`);
    return new Response(null, { status: 416, headers });
  }
  headers.set("content-range", `bytes ${from}-${to}/${body.size}`);
  headers.set("content-length", String(to + 1 - from));
  return new Response(body.slice(from, to + 1), { status: 206, statusText: "Partial Content", headers });
}

let tabs: Promise<Set<string>> | undefined;

/** The tabs, and workers of theirs, that are of a newer build; kept, as the browser ends service workers when it likes. */
function left(): Promise<Set<string>> {
  tabs ??= caches
    .open(CACHE)
    .then((cache) => cache.match(NEWER))
    .then(async (known) => new Set((await known?.json()) as string[] | undefined));
  return tabs;
}

async function leave(client: string): Promise<void> {
  if (!client) return;
  const all = await left();
  all.add(client);
  await (await caches.open(CACHE)).put(NEWER, new Response(JSON.stringify([...all].slice(-64))));
}
