/**
 * The service worker: caches the files of one build of the site by the hashes of their contents, and serves them. It
 * never caches other files, such as the user's models. Navigations go to the network first. A tab that receives a
 * newer build gets all its files from the network, so no tab mixes files of two builds.
 */
/// <reference lib="webworker" />

/** offline.mjs defines these: the hash of the build, the hash of each file, and the timeout of navigations. */
declare const BUILD: string;
declare const FILES: Record<string, string>;
/** Milliseconds to wait for the network before serving a cached page. */
declare const NAVIGATION_TIMEOUT: number;

const worker = globalThis as unknown as ServiceWorkerGlobalScope;
const files = new Map(Object.entries(FILES));
const base = new URL("./", worker.location.href);
const CACHE = `foretoken-site:${base.pathname}`;

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

/** Caches the missing files. A file with another hash fails the installation, and the browser retries later. */
async function fill(): Promise<void> {
  const cache = await caches.open(CACHE);
  const queue = [...files];
  const fetchNext = async (): Promise<void> => {
    for (let next = queue.pop(); next; next = queue.pop()) {
      const [path, hash] = next;
      if (await cache.match(keyOf(path, hash))) continue;
      const response = await fetch(new URL(path, base), { cache: "no-cache" });
      if (!response.ok) throw new Error(`${path}: the server answered ${response.status}`);
      const bytes = await response.arrayBuffer();
      if ((await digest(bytes)) !== hash) throw new Error(`${path}: does not match the hash of this build`);
      const headers = new Headers(response.headers);
      // These headers describe the transfer.
      for (const name of ["content-encoding", "transfer-encoding", "content-length", "vary"]) headers.delete(name);
      headers.set("content-length", String(bytes.byteLength));
      await cache.put(keyOf(path, hash), new Response(bytes, { headers }));
    }
  };
  await Promise.all([fetchNext(), fetchNext(), fetchNext()]);
}

async function digest(bytes: ArrayBuffer): Promise<string> {
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return [...hash.subarray(0, 12)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

async function cached(path: string, hash: string): Promise<Response | undefined> {
  return (await caches.open(CACHE)).match(keyOf(path, hash));
}

async function page(event: FetchEvent, path: string, hash: string): Promise<Response> {
  const stored = await cached(path, hash);
  const signal = stored ? AbortSignal.timeout(NAVIGATION_TIMEOUT) : undefined;
  try {
    const response = await fetch(event.request.url, { cache: "no-cache", ...(signal ? { signal } : {}) });
    if (!response.ok && stored) return stored;
    const bytes = await response.clone().arrayBuffer();
    if (response.ok && (await digest(bytes)) !== hash) await markNewer(event.resultingClientId);
    // Browsers reject a redirected response to a navigation.
    return response.redirected ? new Response(bytes, { status: response.status, headers: response.headers }) : response;
  } catch (cause) {
    if (stored) return stored;
    throw cause;
  }
}

async function file(event: FetchEvent, path: string, hash: string): Promise<Response> {
  if ((await newerClients()).has(event.clientId)) {
    await markNewer(event.resultingClientId); // the client is a worker of that tab
    return fetch(event.request);
  }
  const stored = await cached(path, hash);
  if (!stored) return fetch(event.request);
  const range = /^bytes=(\d+)-(\d*)$/.exec(event.request.headers.get("range") ?? "");
  if (!range) return stored;
  const body = await stored.blob();
  const from = Number(range[1]);
  const to = Math.min(range[2] ? Number(range[2]) : Infinity, body.size - 1);
  const headers = new Headers(stored.headers);
  if (from > to) {
    headers.set("content-range", `bytes */${body.size}`);
    return new Response(null, { status: 416, headers });
  }
  headers.set("content-range", `bytes ${from}-${to}/${body.size}`);
  headers.set("content-length", String(to + 1 - from));
  return new Response(body.slice(from, to + 1), { status: 206, statusText: "Partial Content", headers });
}

let tabs: Promise<Set<string>> | undefined;

/** The tabs and workers of a newer build; stored, because the browser may end the service worker at any time. */
function newerClients(): Promise<Set<string>> {
  tabs ??= caches
    .open(CACHE)
    .then((cache) => cache.match(NEWER))
    .then(async (known) => new Set((await known?.json()) as string[] | undefined));
  return tabs;
}

async function markNewer(client: string): Promise<void> {
  if (!client) return;
  const all = await newerClients();
  all.add(client);
  await (await caches.open(CACHE)).put(NEWER, new Response(JSON.stringify([...all].slice(-64))));
}
