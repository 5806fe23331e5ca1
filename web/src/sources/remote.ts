/**
 * Reads a file over HTTP by ranges, or whole where the server has none. A dropped connection resumes at the byte where
 * it broke, and a change of the file on the server is an error.
 */
import { ForetokenError } from "../protocol/errors.ts";
import { ChangedError, ChecksumError, message, SourceError } from "./errors.ts";
import { isLocal } from "./hosts.ts";
import { brief } from "./hub.ts";
import {
  codingOf,
  differ,
  discard,
  identityOf,
  isOneByte,
  keepsRules,
  lengthOf,
  otherBytes,
  piecesOf,
  reasonPhrase,
  sizeOf,
  type Identity,
} from "./responses.ts";

export interface SourceOptions {
  /** Receives the progress of a download in bytes, with the total 0 while it is unknown; `note`: what is unusual. */
  onDownload?: (done: number, total: number, note?: string) => void;
  /** Receives notes for the user: a stale copy, a server that compresses. */
  notice?: (text: string) => void;
  /** Retries after a dropped connection; default 4. */
  retries?: number;
  /** Milliseconds before the first retry, doubled for each further one; default 250. */
  retryDelay?: number;
  /** Milliseconds without a byte after which a connection counts as dropped; default 30,000. */
  stall?: number;
  fetch?: typeof fetch;
  /** Aborts requests. */
  signal?: AbortSignal;
  /** Requests the whole file, because the server sends no parts, or hides the file's size with them. */
  whole?: boolean;
}

/** Statuses of an address that was valid before. */
const EXPIRED = [400, 401, 403, 404, 410];

/** How the owner of a server keeps it from compressing models. */
const UNCOMPRESSED = "turn its compression off for this file (nginx: gzip off; elsewhere: Cache-Control: no-transform)";

/** A file behind a URL. */
export class Remote {
  /** Once set, every response must match it. */
  identity: Identity | undefined;
  readonly #fetch: typeof fetch;
  readonly #retries: number;
  readonly #delay: number;
  readonly #stall: number;
  /** Whether the server has responded at least once, and with a part of the file. */
  #reached = false;
  #parts = false;
  /** Whether the server sends no parts, so that the file is requested whole; its Content-Encoding, if it shows one. */
  #whole: boolean;
  #coding: string | undefined;
  /** "reload" once a cached redirect may have expired. */
  #cache: RequestCache = "default";

  constructor(
    readonly url: string,
    readonly name: string,
    readonly options: SourceOptions,
  ) {
    this.#fetch = options.fetch ?? ((input, init) => fetch(input, init));
    this.#retries = options.retries ?? 4;
    this.#delay = options.retryDelay ?? 250;
    this.#stall = options.stall ?? 30_000;
    this.#whole = options.whole ?? false;
  }

  /**
   * Sends a GET, for bytes [start, end) if given. Retries while the server is unreachable or overloaded. If the server
   * sends no parts, the response is the whole file.
   */
  async request(start?: number, end = Infinity, signal = this.options.signal): Promise<Response> {
    const last = end === Infinity ? "" : end - 1;
    let refused = 0; // failures of parts while the server sends the whole file
    for (let attempt = 0; ; attempt++) {
      const range = start === undefined || this.#whole ? undefined : `bytes=${start}-${last}`;
      let reason: string;
      let retries = this.#retries;
      signal?.throwIfAborted();
      try {
        const response = await this.#send(range, signal);
        this.#reached = true;
        const odd = range !== undefined && !this.#parts && !keepsRules(response, start!);
        const whole = odd ? await this.#sendWhole(signal) : undefined;
        if (whole) {
          discard(response);
          return this.#takeWhole(whole, false);
        }
        if (response.ok && !odd) {
          this.#parts ||= response.status === 206;
          return response.status === 200 ? this.#measured(response, range === undefined) : response;
        }
        discard(response);
        reason = this.#refusal(response, start);
        // A signed address that a redirect led to expires, and the browser may have kept the redirect.
        if (this.#parts && EXPIRED.includes(response.status) && this.#cache === "default") {
          this.#cache = "reload";
          continue;
        }
        if (response.status < 500 && response.status !== 429)
          throw new SourceError(this.name, "download", `${reason} for ${brief(this.url)}`);
      } catch (cause) {
        if (cause instanceof ForetokenError) throw cause;
        signal?.throwIfAborted();
        const whole = range && !this.#parts ? await this.#sendWhole(signal) : undefined;
        // A single failure may be the network's: then only a compressed response counts.
        if (whole && (++refused > 1 || codingOf(whole))) return this.#takeWhole(whole, true);
        if (whole) discard(whole);
        const failed = await this.#unreachable(cause);
        reason = failed.reason;
        if (failed.final) retries = 0;
        // A server that never responded gets fewer retries: the address is probably wrong.
        else if (!this.#reached) retries = Math.min(retries, 2);
      }
      if (attempt >= retries) throw new SourceError(this.name, "download", `${reason} for ${brief(this.url)}`);
      await pause(this.#delay * 2 ** attempt, signal);
    }
  }

  // If-Range would cost a preflight for another origin; comparing responses does the same.
  #send(range: string | undefined, signal: AbortSignal | undefined): Promise<Response> {
    const headers = range === undefined ? {} : { Range: range };
    return this.#fetch(this.url, { headers, cache: this.#cache, ...(signal ? { signal } : {}) });
  }

  /** Requests the whole file, as servers that compress or break the rules of parts send it; undefined if that fails. */
  async #sendWhole(signal: AbortSignal | undefined): Promise<Response | undefined> {
    const response = await this.#send(undefined, signal).catch(() => undefined);
    signal?.throwIfAborted();
    if (!response) return undefined;
    this.#reached = true;
    return response.status === 200 ? response : void discard(response);
  }

  /** Returns the response with the whole file; the file's next requests ask for no parts. */
  #takeWhole(response: Response, doubt: boolean): Response {
    this.#whole = true;
    return this.#measured(response, doubt);
  }

  /** Drops the length of a whole body that is compressed, or may be: with `doubt`, of another site. */
  #measured(response: Response, doubt: boolean): Response {
    this.#coding = codingOf(response);
    this.#whole ||= this.#coding !== undefined;
    if (!this.#coding && !(doubt && response.type === "cors")) return response;
    const headers = new Headers(response.headers);
    for (const name of ["Content-Length", "Content-Encoding"]) headers.delete(name);
    return new Response(response.body, { status: response.status, headers });
  }

  /** Returns the reason of an error response. */
  #refusal({ status, statusText, headers }: Response, start: number | undefined): string {
    if (status === 206) return otherBytes(headers, start);
    if (status === 416)
      return (
        `the server has no bytes from ${start} on, although its length header announced them: ` +
        "the header is wrong, or the file became shorter; load it again"
      );
    const reason = `the server answered ${status} ${statusText || reasonPhrase(status)}`.trimEnd();
    if (this.#parts && EXPIRED.includes(status))
      return `${reason} in the middle of the file (a signed address expires: load it again with a new one)`;
    return status === 401 || status === 403
      ? `${reason} (the file may need a sign-in, or consent to a licence: download it and open it from disk)`
      : reason;
  }

  /**
   * Explains why fetch failed. Browsers do not distinguish a CORS refusal from an unreachable server; a second request
   * with an opaque response does.
   */
  async #unreachable(cause: unknown): Promise<{ reason: string; final: boolean }> {
    const here = globalThis.location;
    const { origin, protocol, hostname } = new URL(this.url);
    const why = message(cause);
    if (globalThis.navigator?.onLine === false) return { reason: `this machine is offline (${why})`, final: false };
    if (here?.origin.startsWith("https:") && protocol === "http:" && !isLocal(hostname))
      return { reason: `a page of https cannot read addresses of plain http (${why})`, final: true };
    const packed =
      globalThis.isSecureContext === false
        ? `, or compresses it by br or zstd, which browsers take over https only; ${UNCOMPRESSED}`
        : "";
    if (!here || origin === here.origin || this.#reached)
      return { reason: `the server cannot be reached (${why})${packed}`, final: false };
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

  /** Returns why a response is not the part from `start` on, if it is not; throws if it is of another version. */
  check(response: Response, start: number): string | undefined {
    const changed = this.identity && differ(this.identity, identityOf(response));
    if (!changed && response.status === 206 && keepsRules(response, start)) return undefined;
    discard(response);
    if (changed) throw new ChangedError(this.name);
    return response.status === 206
      ? otherBytes(response.headers, start)
      : `the server sent the whole file, where it had sent parts and bytes from ${start} on were requested`;
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
      const wrong = this.check(response, at);
      if (wrong) {
        // One of several servers behind the address may be at fault.
        if (++attempt > this.#retries) throw new SourceError(this.name, "download", `${wrong} for ${brief(this.url)}`);
        response = undefined;
        await pause(this.#delay * 2 ** (attempt - 1), signal);
        continue;
      }
      const length = Number(response.headers.get("Content-Length") ?? 0);
      if (length > end - at) {
        discard(response);
        throw new SourceError(
          this.name,
          "download",
          `the server's length header is wrong: it announces ${length} bytes for a range of ${end - at}`,
        );
      }
      const before = at;
      const pieces = piecesOf(response, this.#stall, signal);
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

  /**
   * Returns the size of a file whose server sends parts but hides Content-Range from other sites. The length of the
   * part from byte 0 on is the size, if the file has its last byte and no byte after it. Otherwise the length may count
   * an encoded form, as HEAD's may, or the server limits the length of parts.
   */
  async sizeByLength(): Promise<number | undefined> {
    const all = await this.request(0);
    discard(all);
    const size = all.status === 206 ? lengthOf(all) : undefined;
    if (!size) return undefined;
    try {
      const last = await this.request(size - 1, size);
      const rest = last.status === 206 && (await isOneByte(last)) ? await this.request(size - 1) : undefined;
      if (rest?.status === 206 && (await isOneByte(rest))) return size;
    } catch (cause) {
      if (!(cause instanceof ForetokenError || cause instanceof TypeError)) throw cause;
    }
    this.#whole = true;
    return undefined;
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
      const pieces = piecesOf(response, this.#stall, signal);
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
      // The browser itself compares lengths. Only other sites, which hide Content-Encoding, may announce another one.
      if (complete && (promised === undefined || at === promised || response.type === "cors")) return at;
      if (attempt >= this.#retries) {
        throw new SourceError(
          this.name,
          "download",
          `the connection dropped at byte ${at}${promised === undefined ? "" : ` of ${promised}`} and ` +
            `${this.#retries} retries failed: the network is down, or the server's ` +
            (this.#whole ? `Content-Encoding is wrong; ${UNCOMPRESSED}` : "length header is wrong"),
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

  /**
   * Downloads the file whose first or only response is `first` into a Blob, which the browser may store on disk, and
   * compares it with its SHA-256, if given.
   */
  async download(first: Response, sha256?: string): Promise<Blob> {
    const hasher = sha256 ? await (await import("./checksum.ts")).createSHA256() : undefined;
    let parts: Blob[] = [];
    const size = first.status === 206 ? (sizeOf(first) ?? lengthOf(first)) : undefined;
    const promised = size ?? sizeOf(first) ?? 0;
    if (this.#whole) this.options.notice?.(`${this.name}: ${this.#oneBody()}`);
    const sink = (bytes: Uint8Array, at: number): void => {
      if (at === 0) {
        parts = [];
        hasher?.init();
      }
      hasher?.update(bytes);
      parts.push(new Blob([bytes as Uint8Array<ArrayBuffer>]));
      const done = at + bytes.byteLength;
      this.options.onDownload?.(done, done > promised ? 0 : promised);
    };
    if (size === undefined) await this.streamAll(first, sink);
    else {
      this.identity = { ...identityOf(first), size };
      await this.stream(0, size, sink, this.options.signal, first);
    }
    const got = hasher?.digest();
    if (got !== sha256) throw new ChecksumError(this.name, got, sha256);
    const blob = new Blob(parts);
    this.options.onDownload?.(blob.size, blob.size);
    return blob;
  }

  /** Says why the file arrives in one body, and what the owner of the server can do. */
  #oneBody(): string {
    const why = this.#coding
      ? `the server compresses it (Content-Encoding: ${this.#coding})`
      : "the server sends no parts of it, or hides its size, as one does that compresses";
    return `${why}, so it arrives in one piece and is not kept for the next visit; ${UNCOMPRESSED}`;
  }
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
