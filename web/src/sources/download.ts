import { bytes as size } from "./bytes.ts";
import type { CachedOptions } from "./current.ts";
import { type Deferred, deferred } from "./deferred.ts";
import { downloadInOrder } from "./in-order.ts";
import { bytesComplete, chunkCount, chunkRange, firstMissing, type Journal } from "./journal.ts";
import type { DownloadProgress } from "./progress.ts";
import { rejectHTML, type Remote } from "./remote.ts";
import { differ, discard, identityOf } from "./responses.ts";
import type { Stored } from "./stored.ts";

/** Bytes of a chunk: large compared to the cost of a request, small compared to what a killed tab may lose. */
const CHUNK = 8 << 20;
/** Chunks in flight at once; a chunk that a reader waits for may exceed the limit by one. */
const CONNECTIONS = 4;

/** A download ends when `signal` aborts. */
export type DownloadOptions = CachedOptions & { signal: AbortSignal };

/**
 * Downloads the missing chunks of a file into its stored copy, several at once. Bytes go to disk as they arrive. For
 * its SHA-256 a chunk is read back from disk, so memory holds one chunk whatever the number of connections.
 */
export class Download {
  /** Of chunks that this session downloads, the byte of the file up to which they have arrived. */
  readonly #arrived = new Map<number, number>();
  readonly #waiting = new Map<number, Deferred>();
  readonly #running = new Set<number>();
  /** Chunks to fetch before others. */
  readonly #urgent: number[] = [];
  /** The chunk from which on the next one to fetch is looked for. */
  #cursor = 0;
  #inOrder: Promise<void> | undefined;

  /** `fail` receives the error of a request or a write. */
  constructor(
    readonly stored: Stored,
    readonly remote: Remote,
    readonly progress: DownloadProgress,
    readonly options: DownloadOptions,
    readonly fail: (cause: unknown) => void,
  ) {}

  /**
   * Starts the download, or continues the one that `part` describes, into the copy, which is open for writing. Returns
   * what the server says of the file's size: other sites hide Content-Encoding, so the length of a body may count an
   * encoded form.
   */
  async start(part: Journal | undefined): Promise<"no size" | "doubtful size" | "size"> {
    const { stored, remote, options } = this;
    const chunk = options.chunk ?? CHUNK;
    if (part && !stored.resume(part, chunk)) part = undefined;
    const published = options.expected ?? (await options.published?.());
    if (part?.sha256 && published && part.sha256 !== published) part = this.#drop(part);
    let first = 0;
    if (part) {
      // A tab may have ended before it learned that the announced length was wrong: load the last chunk again.
      first = firstMissing(part, 0) ?? chunkCount(part) - 1;
      if (part.hashes[first]) stored.forget(first);
    }
    const request = (): Promise<Response> =>
      remote.request(first * chunk, Math.min(part?.size ?? Infinity, (first + 1) * chunk));
    let response = await request();
    rejectHTML(remote.name, response);
    let identity = identityOf(response);
    if (part && (differ(part, identity) || (identity.size === undefined && response.status !== 206))) {
      discard(response);
      part = this.#drop(part);
      first = 0;
      response = await request();
      identity = identityOf(response);
    }
    // A cross-origin server may hide Content-Range.
    if (response.status === 206) identity.size ??= part?.size ?? (await remote.sizeByLength());
    const { size, etag, modified } = identity;
    if (size === undefined) {
      discard(response);
      return "no size";
    }
    const sha256 = published ?? part?.sha256 ?? identity.sha256;
    if (part) part.sha256 = sha256;
    else
      try {
        const { url, name } = remote;
        stored.begin({ url, name, size, chunk, etag, modified, sha256, created: Date.now() });
      } catch (cause) {
        discard(response);
        throw cause;
      }
    remote.identity = identity;
    this.progress.start(stored.journal);
    if (response.status !== 200) {
      this.#cursor = first + 1;
      this.#run(first, response);
      this.#pump();
      return "size";
    }
    this.#notice(
      "this server does not send parts of a file: it arrives over one connection, and restarts if that drops",
    );
    this.#inOrder = this.#downloadInOrder(response);
    this.#inOrder.catch(this.fail);
    return response.type === "cors" ? "doubtful size" : "size";
  }

  /** Says that the part is of another version of the file. */
  #drop(part: Journal): undefined {
    const stored = size(bytesComplete(part));
    this.#notice(`the file changed on the server since its download began; discarding the ${stored} stored`);
  }

  /** Resolves when one response to the end has the announced length; other downloads end with their last chunk. */
  async ended(): Promise<void> {
    await this.#inOrder;
  }

  /** The byte of the file up to which chunk `i` has arrived in this session, or 0. */
  arrived(i: number): number {
    return this.#arrived.get(i) ?? 0;
  }

  /** Resolves when more of chunk `i` has arrived, or the chunk is complete. `urgent` fetches it before others. */
  async more(i: number, urgent: boolean): Promise<void> {
    let waiting = this.#waiting.get(i);
    if (!waiting) {
      this.#waiting.set(i, (waiting = deferred()));
      waiting.promise.catch(() => undefined);
    }
    if (urgent && !this.#running.has(i) && !this.#urgent.includes(i)) {
      this.#urgent.push(i);
      this.#cursor = i + 1;
    }
    this.#pump();
    await waiting.promise;
  }

  /** Forgets a damaged chunk; `more` downloads it again, of the version of the file that is stored. */
  again(i: number): void {
    const { journal } = this.stored;
    this.remote.identity ??= { etag: journal.etag, modified: journal.modified, size: journal.size };
    const [start, end] = chunkRange(journal, i);
    this.progress.remove(end - start);
    this.#arrived.delete(i);
    this.stored.forget(i);
  }

  /** Ends the waiting of readers with an error. */
  reject(cause: unknown): void {
    for (const waiting of this.#waiting.values()) waiting.reject(cause);
  }

  /** Starts requests up to the limit: urgent chunks first, then the chunks that follow the last urgent one. */
  #pump(): void {
    while (!this.options.signal.aborted && !this.#inOrder) {
      const urgent = this.#urgent.length > 0;
      if (this.#running.size >= CONNECTIONS + (urgent ? 1 : 0)) return;
      const i = urgent ? this.#urgent.shift()! : (this.#next(this.#cursor) ?? this.#next(0));
      if (i === undefined) return;
      if (this.stored.journal.hashes[i] || this.#running.has(i)) continue;
      if (!urgent) this.#cursor = i + 1;
      this.#run(i);
    }
  }

  #next(from: number): number | undefined {
    const { journal } = this.stored;
    for (let i = firstMissing(journal, from); i !== undefined; i = firstMissing(journal, i + 1))
      if (!this.#running.has(i)) return i;
    return undefined;
  }

  /** Fetches a chunk. `first` may be the response to a request for it. */
  #run(i: number, first?: Response): void {
    this.#running.add(i);
    this.#fetch(i, first).then(() => {
      this.#running.delete(i);
      this.#pump();
    }, this.fail);
  }

  async #fetch(i: number, first?: Response): Promise<void> {
    const [start, end] = chunkRange(this.stored.journal, i);
    await this.remote.stream(start, end, (bytes, at) => this.#write(bytes, at), this.options.signal, first);
    await this.#complete(i);
  }

  #write(bytes: Uint8Array, at: number): void {
    this.options.signal.throwIfAborted();
    this.stored.write(bytes, at);
    const chunk = Math.floor(at / this.stored.journal.chunk);
    this.#arrived.set(chunk, Math.max(at + bytes.byteLength, this.arrived(chunk)));
    this.#wake(chunk);
    this.progress.add(bytes.byteLength);
  }

  /** Has the readers that wait for a chunk look again. */
  #wake(chunk: number): void {
    this.#waiting.get(chunk)?.resolve();
    this.#waiting.delete(chunk);
  }

  async #complete(i: number): Promise<void> {
    const hash = await this.stored.hash(i);
    this.options.signal.throwIfAborted();
    this.stored.complete(i, hash);
    this.#wake(i);
  }

  async #downloadInOrder(response: Response): Promise<void> {
    await downloadInOrder(response, {
      name: this.remote.name,
      journal: this.stored.journal,
      remote: this.remote,
      signal: this.options.signal,
      write: (bytes, at) => this.#write(bytes, at),
      complete: (chunk) => this.#complete(chunk),
    });
  }

  #notice(text: string): void {
    this.options.notice?.(`${this.remote.name}: ${text}`);
  }
}
