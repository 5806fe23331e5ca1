/**
 * Ranged byte sources a model is loaded from: a URL or a local file. A URL is
 * read by HTTP ranges, so that Go can hold one tensor chunk at a time; a server
 * without ranges is downloaded whole into a Blob, which the browser may keep on
 * disk. Errors are one line naming the file, the step and the reason.
 */
import type { Source, SourceSpec } from "./protocol.ts";

/** Small reads are answered from aligned blocks: a GGUF header is thousands of them. */
const BLOCK = 256 * 1024;
const KEPT_BLOCKS = 4;

/** Why a source could not be opened or read. */
export class SourceError extends Error {
  readonly code = "source";
  constructor(name: string, field: string, reason: string) {
    super(`${name}: ${field}: ${oneLine(reason)}`);
    this.name = "SourceError";
  }
}

export interface SourceOptions {
  /** Bytes received so far of a download that could not be done by ranges. */
  onDownload?: (done: number, total: number) => void;
  /** Times a dropped connection is taken up again; 4 unless told. */
  retries?: number;
  /** Wait before the first retry in ms, doubled each time; 250 unless told. */
  retryDelay?: number;
  fetch?: typeof fetch;
}

/** Opens what a page named. */
export function openSource(spec: SourceSpec, options: SourceOptions = {}): Promise<Source> {
  return spec.kind === "url" ? openURL(spec.url, options) : Promise.resolve(openBlob(spec.file, spec.name));
}

/** A local file, or a download held by the browser. */
export function openBlob(blob: Blob, name: string): Source {
  return buffered({
    name,
    size: blob.size,
    async read(offset, length) {
      try {
        return new Uint8Array(await blob.slice(offset, offset + length).arrayBuffer());
      } catch (cause) {
        throw new SourceError(name, "file", `cannot be read any more, it may have been moved or changed (${message(cause)})`);
      }
    },
  });
}

/** A model at a URL. The first request asks for the first block and learns the size from the answer. */
export async function openURL(url: string, options: SourceOptions = {}): Promise<Source> {
  const name = nameOf(url);
  const remote = new Remote(url, name, options);
  const first = await remote.request(0, BLOCK);
  try {
    rejectHTML(name, first);
  } catch (error) {
    void first.body?.cancel();
    throw error;
  }
  if (first.status === 206) {
    const size = sizeOf(first) ?? (await remote.sizeByHead());
    if (size !== undefined) {
      remote.etag = strongTag(first);
      const head = new Uint8Array(await first.arrayBuffer().catch(() => new ArrayBuffer(0)));
      return buffered({ name, size, read: (offset, length) => remote.read(offset, length) }, head);
    }
    // A cross-origin server that hides its sizes: take the file whole.
    void first.body?.cancel();
    return openBlob(await remote.download(await remote.request()), name);
  }
  return openBlob(await remote.download(first), name);
}

class Remote {
  etag: string | undefined;
  readonly #fetch: typeof fetch;
  readonly #retries: number;
  readonly #delay: number;

  constructor(
    readonly url: string,
    readonly name: string,
    readonly options: SourceOptions,
  ) {
    this.#fetch = options.fetch ?? ((input, init) => fetch(input, init));
    this.#retries = options.retries ?? 4;
    this.#delay = options.retryDelay ?? 250;
  }

  /** One GET, with a range when given; retried while the server cannot be reached or is overloaded. */
  async request(offset?: number, length?: number): Promise<Response> {
    const headers: Record<string, string> = {};
    // No If-Range: it would cost a preflight at another origin; ETags are compared in read().
    if (offset !== undefined && length !== undefined) headers["Range"] = `bytes=${offset}-${offset + length - 1}`;
    for (let attempt = 0; ; attempt++) {
      let reason: string;
      try {
        const response = await this.#fetch(this.url, { headers });
        if (response.ok) return response;
        void response.body?.cancel();
        reason = `the server answered ${response.status} ${response.statusText || reasonPhrase(response.status)}`.trimEnd();
        // An empty file answers 416 to any range; its absence of bytes is for the reader to report.
        if (response.status === 416 && offset === 0) return new Response(new Uint8Array(0));
        if (response.status < 500 && response.status !== 429) throw new SourceError(this.name, "download", `${reason} for ${this.url}`);
      } catch (cause) {
        if (cause instanceof SourceError) throw cause;
        reason = `the server cannot be reached (${message(cause)})`;
      }
      if (attempt >= this.#retries) throw new SourceError(this.name, "download", `${reason} for ${this.url}`);
      await this.#pause(attempt);
    }
  }

  /** Reads a range, continuing where a dropped connection left off. */
  async read(offset: number, length: number): Promise<Uint8Array> {
    const out = new Uint8Array(length);
    let filled = 0;
    for (let attempt = 0; ; ) {
      const response = await this.request(offset + filled, length - filled);
      const tag = strongTag(response);
      const start = /^bytes (\d+)-/.exec(response.headers.get("Content-Range") ?? "")?.[1];
      const elsewhere = start !== undefined && Number(start) !== offset + filled;
      if (response.status !== 206 || elsewhere || (this.etag && tag && tag !== this.etag)) {
        void response.body?.cancel();
        throw new SourceError(this.name, "download", "the file changed on the server while it was being read; load it again");
      }
      const before = filled;
      try {
        filled = await fill(response, out, filled);
        if (filled === length) return out;
      } catch (cause) {
        if (cause instanceof Dropped) filled = cause.filled;
      }
      // Progress earns fresh retries: a slow line may drop many times on the way through a large tensor.
      attempt = filled > before ? 1 : attempt + 1;
      if (attempt > this.#retries) {
        throw new SourceError(this.name, "download", `the connection dropped at byte ${offset + filled} and ${this.#retries} retries did not bring it back`);
      }
      await this.#pause(attempt - 1);
    }
  }

  async sizeByHead(): Promise<number | undefined> {
    try {
      const response = await this.#fetch(this.url, { method: "HEAD" });
      const length = response.headers.get("Content-Length");
      return response.ok && length !== null ? Number(length) : undefined;
    } catch {
      return undefined;
    }
  }

  /** Takes a whole body; without ranges a dropped connection has to start over. */
  async download(first: Response): Promise<Blob> {
    let response = first;
    for (let attempt = 0; ; attempt++) {
      const total = Number(response.headers.get("Content-Encoding") ? 0 : (response.headers.get("Content-Length") ?? 0));
      try {
        const chunks: Blob[] = [];
        let done = 0;
        for await (const chunk of chunksOf(response)) {
          chunks.push(new Blob([chunk as Uint8Array<ArrayBuffer>]));
          done += chunk.byteLength;
          this.options.onDownload?.(done, Math.max(total, done));
        }
        if (total === 0 || done === total) return new Blob(chunks);
      } catch {
        // Counted below like a body that ended early.
      }
      if (attempt >= this.#retries) throw new SourceError(this.name, "download", `the connection dropped and ${this.#retries} retries did not bring it back`);
      await this.#pause(attempt);
      response = await this.request();
    }
  }

  #pause(attempt: number): Promise<void> {
    return new Promise((resolve) => setTimeout(resolve, this.#delay * 2 ** attempt));
  }
}

/** A body that ended before its range was complete; keeps how far it came. */
class Dropped extends Error {
  constructor(readonly filled: number) {
    super("dropped");
  }
}

async function fill(response: Response, out: Uint8Array, from: number): Promise<number> {
  let filled = from;
  try {
    for await (const chunk of chunksOf(response)) {
      const take = Math.min(chunk.byteLength, out.byteLength - filled);
      out.set(chunk.subarray(0, take), filled);
      filled += take;
    }
  } catch {
    throw new Dropped(filled);
  }
  return filled;
}

async function* chunksOf(response: Response): AsyncGenerator<Uint8Array> {
  if (!response.body) return;
  const reader = response.body.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    yield value;
  }
}

/** Answers small reads from blocks kept in memory and checks every range. `head` is the first block, if it is there. */
function buffered(inner: Source, head?: Uint8Array): Source {
  const blocks = new Map<number, Promise<Uint8Array>>();
  if (head && head.byteLength === Math.min(BLOCK, inner.size)) blocks.set(0, Promise.resolve(head));
  const block = (index: number): Promise<Uint8Array> => {
    let wanted = blocks.get(index);
    if (!wanted) {
      const start = index * BLOCK;
      wanted = inner.read(start, Math.min(BLOCK, inner.size - start));
      wanted.catch(() => blocks.delete(index));
      blocks.set(index, wanted);
      if (blocks.size > KEPT_BLOCKS) blocks.delete(blocks.keys().next().value!);
    }
    return wanted;
  };
  return {
    name: inner.name,
    size: inner.size,
    async read(offset, length) {
      if (!Number.isSafeInteger(offset) || !Number.isSafeInteger(length) || offset < 0 || length < 0 || offset + length > inner.size) {
        throw new SourceError(inner.name, "range", `bytes ${offset} to ${offset + length} asked of a file of ${inner.size} bytes`);
      }
      if (length === 0) return new Uint8Array(0);
      if (length >= BLOCK) return inner.read(offset, length);
      const out = new Uint8Array(length);
      for (let at = offset; at < offset + length; ) {
        const index = Math.floor(at / BLOCK);
        const bytes = await block(index);
        const from = at - index * BLOCK;
        const take = Math.min(bytes.byteLength - from, offset + length - at);
        if (take <= 0) throw new SourceError(inner.name, "range", `ended at byte ${index * BLOCK + bytes.byteLength} of ${inner.size}`);
        out.set(bytes.subarray(from, from + take), at - offset);
        at += take;
      }
      return out;
    },
  };
}

function rejectHTML(name: string, response: Response): void {
  const type = response.headers.get("Content-Type") ?? "";
  if (/^text\/html\b/i.test(type)) {
    throw new SourceError(name, "content-type", "the server sent an HTML page instead of a model; the address may need a sign-in or a direct download link");
  }
}

function sizeOf(response: Response): number | undefined {
  const match = /\/(\d+)$/.exec(response.headers.get("Content-Range") ?? "");
  return match ? Number(match[1]) : undefined;
}

/** Only a strong ETag proves that two ranges belong to the same bytes. */
function strongTag(response: Response): string | undefined {
  const tag = response.headers.get("ETag");
  return tag && !tag.startsWith("W/") ? tag : undefined;
}

function nameOf(url: string): string {
  const path = url.replace(/[?#].*$/, "");
  const last = path.slice(path.lastIndexOf("/") + 1);
  try {
    return decodeURIComponent(last) || url;
  } catch {
    return last || url;
  }
}

/** HTTP/2 carries no reason phrase, so the common ones are spelled here. */
function reasonPhrase(status: number): string {
  return { 401: "Unauthorized", 403: "Forbidden", 404: "Not Found", 410: "Gone", 429: "Too Many Requests" }[status] ?? "";
}

function message(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause);
}

function oneLine(text: string): string {
  return text.replace(/\s+/g, " ").trim();
}
