/**
 * Reads a file over HTTP by ranges. A dropped connection resumes at the byte where it broke, a change of the file on
 * the server is an error, and every error is one line that names the file, the step and the reason.
 */

import { ForetokenError, type ForetokenErrorCode } from "../protocol/errors.ts";

/** The error code for each field of a message; other fields mean "unreadable". */
const CODES: Readonly<Record<string, ForetokenErrorCode>> = {
  download: "network",
  index: "bad_model",
  "content-type": "bad_model",
};

/** A file could not be opened or read. */
export class SourceError extends ForetokenError {
  constructor(
    readonly file: string,
    readonly field: string,
    readonly reason: string,
    code: ForetokenErrorCode = CODES[field] ?? "unreadable",
  ) {
    super(code, `${file}: ${field}: ${oneLine(reason)}`);
    this.name = "SourceError";
  }
}

/** Refuses a read beyond the end of a source. */
export function checkRange(source: { name: string; size: number }, offset: number, length: number): void {
  const whole = Number.isSafeInteger(offset) && Number.isSafeInteger(length);
  if (whole && offset >= 0 && length >= 0 && offset + length <= source.size) return;
  throw new SourceError(
    source.name,
    "range",
    `bytes ${offset} to ${offset + length} requested of a file of ${source.size} bytes`,
  );
}

/** The file on the server changed since the first read. */
export class ChangedError extends SourceError {
  constructor(name: string) {
    super(name, "download", "the file changed on the server while it was being read; load it again", "changed");
  }
}

export interface SourceOptions {
  /** Receives the progress of a download in bytes; `note` says what is unusual about it. */
  onDownload?: (done: number, total: number, note?: string) => void;
  /** Retries after a dropped connection; default 4. */
  retries?: number;
  /** Milliseconds before the first retry, doubled for each further one; default 250. */
  retryDelay?: number;
  /** Milliseconds without a byte after which a connection counts as dropped; default 30,000. */
  stall?: number;
  fetch?: typeof fetch;
  /** Aborts requests. */
  signal?: AbortSignal;
}

/** Properties that identify a version of a file. */
export interface Identity {
  /** A strong ETag; versions that differ may share a weak one. */
  etag?: string | undefined;
  modified?: string | undefined;
  size?: number | undefined;
  /** SHA-256 of the file, if the server publishes it. */
  sha256?: string | undefined;
}

/** Whether two identities show that the files differ. */
export function differ(a: Identity, b: Identity): boolean {
  const differs = (x: unknown, y: unknown): boolean => x !== undefined && y !== undefined && x !== y;
  if (differs(a.size, b.size) || differs(a.sha256, b.sha256) || differs(a.etag, b.etag)) return true;
  // Mirrors of a file may report different dates: dates count only without an ETag or a checksum.
  return (!a.etag || !b.etag) && (!a.sha256 || !b.sha256) && differs(a.modified, b.modified);
}

/** Reads the identity of a file from a response to GET, with or without a range. */
export function identityOf(response: Response): Identity {
  const tag = response.headers.get("ETag");
  // In the hub's own responses this header is the SHA-256 of the file. The ETag of the storage that the hub redirects
  // to has as many digits, but is not the SHA-256.
  const linked = /^"?([0-9a-f]{64})"?$/.exec(response.headers.get("X-Linked-Etag") ?? "")?.[1];
  return {
    etag: tag && !tag.startsWith("W/") ? tag : undefined,
    modified: response.headers.get("Last-Modified") ?? undefined,
    size: sizeOf(response),
    sha256: linked,
  };
}

/** Returns the size of the file, if the response has it. */
function sizeOf(response: Response): number | undefined {
  if (response.status === 206) {
    const match = /\/(\d+)$/.exec(response.headers.get("Content-Range") ?? "");
    return match ? Number(match[1]) : undefined;
  }
  // The length of a compressed body is not the length of the file.
  const length = response.headers.get("Content-Length");
  return length === null || response.headers.get("Content-Encoding") ? undefined : Number(length);
}

/** A file behind a URL. */
export class Remote {
  /** Once set, every response must match it. */
  identity: Identity | undefined;
  readonly #fetch: typeof fetch;
  readonly #retries: number;
  readonly #delay: number;
  readonly #stall: number;
  /** Whether the server has responded at least once. */
  #reached = false;

  constructor(
    readonly url: string,
    readonly name: string,
    readonly options: SourceOptions,
  ) {
    this.#fetch = options.fetch ?? ((input, init) => fetch(input, init));
    this.#retries = options.retries ?? 4;
    this.#delay = options.retryDelay ?? 250;
    this.#stall = options.stall ?? 30_000;
  }

  /** Sends a GET, for bytes [start, end) if given. Retries while the server is unreachable or overloaded. */
  async request(start?: number, end?: number, signal = this.options.signal): Promise<Response> {
    // If-Range would cost a preflight for another origin; comparing responses does the same.
    const headers: Record<string, string> =
      start === undefined || end === undefined ? {} : { Range: `bytes=${start}-${end - 1}` };
    for (let attempt = 0; ; attempt++) {
      let reason: string;
      let last = this.#retries;
      signal?.throwIfAborted();
      try {
        const response = await this.#fetch(this.url, { headers, ...(signal ? { signal } : {}) });
        this.#reached = true;
        if (response.ok) return response;
        discard(response);
        // An empty file responds 416 to any range; the reader reports that it has no bytes.
        if (response.status === 416 && start === 0) return new Response(new Uint8Array(0));
        reason =
          `the server answered ${response.status} ${response.statusText || reasonPhrase(response.status)}`.trimEnd();
        if (response.status === 416)
          throw new SourceError(
            this.name,
            "download",
            `the server has no bytes from ${start} on, although its length header announced them: ` +
              "the header is wrong, or the file became shorter; load it again",
          );
        if (response.status === 401 || response.status === 403)
          reason += " (the file may need a sign-in, or consent to a licence: download it and open it from disk)";
        if (response.status < 500 && response.status !== 429)
          throw new SourceError(this.name, "download", `${reason} for ${this.url}`);
      } catch (cause) {
        if (cause instanceof ForetokenError) throw cause;
        signal?.throwIfAborted();
        const failed = await this.#unreachable(cause);
        reason = failed.reason;
        if (failed.final) last = 0;
        // A server that never responded gets fewer retries: the address is probably wrong.
        else if (!this.#reached) last = Math.min(last, 2);
      }
      if (attempt >= last) throw new SourceError(this.name, "download", `${reason} for ${this.url}`);
      await pause(this.#delay * 2 ** attempt, signal);
    }
  }

  /**
   * Explains why fetch failed. Browsers do not distinguish a CORS refusal from an unreachable server; a second request
   * with an opaque response does.
   */
  async #unreachable(cause: unknown): Promise<{ reason: string; final: boolean }> {
    const here = globalThis.location;
    const why = message(cause);
    if (globalThis.navigator?.onLine === false) return { reason: `this machine is offline (${why})`, final: false };
    if (!here || new URL(this.url).origin === here.origin || this.#reached)
      return { reason: `the server cannot be reached (${why})`, final: false };
    const refusal =
      "does not let other sites read its files (CORS: no Access-Control-Allow-Origin header); " +
      "download the file and open it from disk, or use a server that allows it";
    try {
      await this.#fetch(this.url, { method: "HEAD", mode: "no-cors" });
      return { reason: `the server ${refusal}`, final: true };
    } catch {
      return { reason: `the server cannot be reached, or ${refusal} (${why})`, final: false };
    }
  }

  /** Throws if a response has other bytes than requested, or another version of the file. */
  check(response: Response, start: number): void {
    const from = /^bytes (\d+)-/.exec(response.headers.get("Content-Range") ?? "")?.[1];
    const elsewhere = from !== undefined && Number(from) !== start;
    if (response.status !== 206 || elsewhere || (this.identity && differ(this.identity, identityOf(response)))) {
      discard(response);
      throw new ChangedError(this.name);
    }
  }

  /**
   * Passes bytes [start, end) to `sink` as they arrive. `first` may be the response to a request for these bytes. An
   * error of `sink` ends the stream.
   */
  async stream(
    start: number,
    end: number,
    sink: (bytes: Uint8Array, at: number) => void,
    signal = this.options.signal,
    first?: Response,
  ): Promise<void> {
    let at = start;
    let response = first;
    for (let attempt = 0; ;) {
      response ??= await this.request(at, end, signal);
      this.check(response, at);
      const length = Number(response.headers.get("Content-Length") ?? 0);
      if (length > end - at && !response.headers.get("Content-Encoding")) {
        discard(response);
        throw new SourceError(
          this.name,
          "download",
          `the server's length header is wrong: it announces ${length} bytes for a range of ${end - at}`,
        );
      }
      const before = at;
      const pieces = this.#pieces(response, signal);
      try {
        for (let next = await pieces.next(); !next.done && at < end; next = await pieces.next()) {
          signal?.throwIfAborted();
          const piece = next.value.subarray(0, end - at);
          sink(piece, at);
          at += piece.byteLength;
        }
      } finally {
        void pieces.return(false);
      }
      if (at === end) return;
      signal?.throwIfAborted();
      response = undefined;
      // Progress resets the retries: a slow connection may drop many times during a large tensor.
      attempt = at > before ? 1 : attempt + 1;
      if (attempt > this.#retries) throw this.dropped(at);
      await pause(this.#delay * 2 ** (attempt - 1), signal);
    }
  }

  /** Returns the error for a connection that all retries failed to resume. */
  dropped(at: number): SourceError {
    return new SourceError(
      this.name,
      "download",
      `the connection dropped at byte ${at} and ${this.#retries} retries failed: ` +
        "the network is down, or the server's length header is wrong",
    );
  }

  /** Reads a range into memory. */
  async read(offset: number, length: number): Promise<Uint8Array> {
    const out = new Uint8Array(length);
    await this.stream(offset, offset + length, (bytes, at) => out.set(bytes, at - offset));
    return out;
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

  /**
   * Passes a complete body to `sink`, in order. Without ranges a dropped connection starts over from byte 0, so `sink`
   * may receive bytes again.
   */
  async streamAll(
    first: Response,
    sink: (bytes: Uint8Array, at: number) => void | Promise<void>,
    signal = this.options.signal,
  ): Promise<number> {
    let response = first;
    for (let attempt = 0; ; attempt++) {
      const promised = sizeOf(response);
      let at = 0;
      let complete = false;
      const pieces = this.#pieces(response, signal);
      try {
        for (;;) {
          const next = await pieces.next();
          if (next.done) {
            complete = next.value;
            break;
          }
          signal?.throwIfAborted();
          await sink(next.value, at);
          at += next.value.byteLength;
        }
      } finally {
        void pieces.return(false);
      }
      signal?.throwIfAborted();
      if (complete && (promised === undefined || at === promised)) return at;
      if (attempt >= this.#retries) {
        throw new SourceError(
          this.name,
          "download",
          `the connection dropped at byte ${at}${promised === undefined ? "" : ` of ${promised}`} and ` +
            `${this.#retries} retries failed: the network is down, or the server's length header is wrong`,
        );
      }
      await pause(this.#delay * 2 ** attempt, signal);
      response = await this.request(undefined, undefined, signal);
      if (this.identity && differ(this.identity, identityOf(response))) {
        discard(response);
        throw new ChangedError(this.name);
      }
    }
  }

  /** Downloads a complete body into a Blob, which the browser may store on disk. */
  async download(first: Response): Promise<Blob> {
    let parts: Blob[] = [];
    const promised = sizeOf(first) ?? 0;
    await this.streamAll(first, (bytes, at) => {
      if (at === 0) parts = [];
      parts.push(new Blob([bytes as Uint8Array<ArrayBuffer>]));
      const done = at + bytes.byteLength;
      this.options.onDownload?.(done, Math.max(promised, done));
    });
    return new Blob(parts);
  }

  /** Yields the pieces of a body; returns whether it reached its end. */
  async *#pieces(response: Response, signal?: AbortSignal): AsyncGenerator<Uint8Array, boolean> {
    if (!response.body) return true;
    const reader = response.body.getReader();
    const abort = (): void => void reader.cancel().catch(() => undefined);
    signal?.addEventListener("abort", abort);
    if (signal?.aborted) abort();
    try {
      for (;;) {
        let next: ReadableStreamReadResult<Uint8Array>;
        try {
          next = await this.#withinTime(reader.read());
        } catch {
          return false;
        }
        if (next.done) return true;
        yield next.value;
      }
    } finally {
      signal?.removeEventListener("abort", abort);
      abort();
    }
  }

  async #withinTime<T>(work: Promise<T>): Promise<T> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new Error("stalled")), this.#stall);
    });
    try {
      return await Promise.race([work, late]);
    } finally {
      clearTimeout(timer);
    }
  }
}

/** Cancels an unused response; a response that has failed already needs no cancelling. */
export function discard(response: Response): void {
  response.body?.cancel().catch(() => undefined);
}

/** Throws if the server sent an HTML page instead of a model. */
export function rejectHTML(name: string, response: Response): void {
  const type = response.headers.get("Content-Type") ?? "";
  if (/^text\/html\b/i.test(type)) {
    discard(response);
    throw new SourceError(
      name,
      "content-type",
      "the server sent an HTML page instead of a model; the address may need a sign-in or a direct download link",
    );
  }
}

/** Returns the last part of a URL's path, for display. */
export function nameOf(url: string): string {
  const path = url.replace(/[?#].*$/, "");
  const last = path.slice(path.lastIndexOf("/") + 1);
  try {
    return decodeURIComponent(last) || url;
  } catch {
    return last || url;
  }
}

export function message(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause);
}

function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const end = (): void => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", end);
      resolve();
    }, ms);
    signal?.addEventListener("abort", end, { once: true });
  });
}

/** Returns the common reason phrases, because HTTP/2 sends none. */
function reasonPhrase(status: number): string {
  return (
    {
      401: "Unauthorized",
      403: "Forbidden",
      404: "Not Found",
      410: "Gone",
      416: "Range Not Satisfiable",
      429: "Too Many Requests",
    }[status] ?? ""
  );
}

function oneLine(text: string): string {
  return text.replace(/\s+/g, " ").trim();
}
