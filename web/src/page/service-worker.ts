/**
 * The service worker: caches the files of one build of the site by the hashes of their contents, and serves them. It
 * never caches other files, such as the user's models. Navigations go to the network first. A tab that receives a
 * newer build gets all its files from the network, so no tab mixes files of two builds.
 *
 * A stored file is compared with its hash before each use: disks and browsers lose bytes. A file that differs comes
 * from the network, which also replaces it, as does a request with the cache mode "reload" (program.ts). If the storage
 * itself fails, requests go to the network. Scripts are never served damaged, so a page that reloads can start.
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
  event.respondWith(
    request.mode === "navigate"
      ? page(event, path, hash)
      : file(event, path, hash).catch(() => fetch(request)), // the storage failed
  );
});

/** Caches the missing files. A file with another hash fails the installation, and the browser retries later. */
async function fill(): Promise<void> {
  const queue = [...files];
  const fetchNext = async (): Promise<void> => {
    for (let next = queue.pop(); next; next = queue.pop()) {
      const [path, hash] = next;
      if (!(await cached(path, hash))) await replace(path, hash, "no-cache");
    }
  };
  await Promise.all([fetchNext(), fetchNext(), fetchNext()]);
}

/** Fetches a file, caches it and returns it; throws if it is not the file of this build. */
async function replace(path: string, hash: string, mode: "no-cache" | "reload"): Promise<Response> {
  const response = await fetch(new URL(path, base), { cache: mode });
  if (!response.ok) throw new Error(`${path}: the server answered ${response.status}`);
  const bytes = await response.arrayBuffer();
  if ((await digest(bytes)) !== hash) throw new Error(`${path}: does not match the hash of this build`);
  return store(path, hash, response, bytes);
}

/** Caches the bytes of a response, and returns them as a response. */
async function store(path: string, hash: string, response: Response, bytes: ArrayBuffer): Promise<Response> {
  const headers = new Headers(response.headers);
  // These headers describe the transfer.
  for (const name of ["content-encoding", "transfer-encoding", "content-length", "vary"]) headers.delete(name);
  headers.set("content-length", String(bytes.byteLength));
  await (await caches.open(CACHE)).put(keyOf(path, hash), new Response(bytes, { headers }));
  return new Response(bytes, { headers });
}

async function digest(bytes: ArrayBuffer): Promise<string> {
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return [...hash.subarray(0, 12)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Returns a stored file; undefined if there is none, or if it does not have the hash of its contents. */
async function cached(path: string, hash: string): Promise<Response | undefined> {
  try {
    const stored = await (await caches.open(CACHE)).match(keyOf(path, hash));
    const bytes = await stored?.arrayBuffer();
    return bytes && (await digest(bytes)) === hash ? new Response(bytes, { headers: stored!.headers }) : undefined;
  } catch {
    return undefined; // the storage cannot be read
  }
}

async function page(event: FetchEvent, path: string, hash: string): Promise<Response> {
  const stored = await cached(path, hash);
  const signal = stored ? AbortSignal.timeout(NAVIGATION_TIMEOUT) : undefined;
  try {
    const response = await fetch(event.request.url, { cache: "no-cache", ...(signal ? { signal } : {}) });
    if (!response.ok && stored) return stored;
    const bytes = await response.clone().arrayBuffer();
    if (response.ok && (await digest(bytes)) !== hash) await markNewer(event.resultingClientId);
    else if (response.ok && !stored) await store(path, hash, response, bytes).catch(() => undefined);
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
  const again = event.request.cache === "reload";
  const stored = (again ? undefined : await cached(path, hash)) ?? (await replace(path, hash, "reload"));
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
    .then(async (known) => new Set((await known?.json()) as string[] | undefined))
    .catch(() => new Set<string>()); // damaged, so the tabs that it named get this build's files
  return tabs;
}

async function markNewer(client: string): Promise<void> {
  if (!client) return;
  const all = await newerClients();
  all.add(client);
  const stored = new Response(JSON.stringify([...all].slice(-64)));
  // On a full disk the set lasts as long as this worker.
  const put = async (): Promise<void> => (await caches.open(CACHE)).put(NEWER, stored);
  await put().catch(() => undefined);
}
