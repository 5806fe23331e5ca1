import { createSHA256 } from "./checksum.ts";
import { SourceError } from "./errors.ts";
import { type Bytes, bytesOf, type SyncHandle } from "./handles.ts";
import { chunkCount, chunkRange, type Description, type Journal, JournalWriter } from "./journal.ts";
import { sha256, type Store } from "./store.ts";

/** Bytes that the checksum of the file reads at once. */
const PIECE = 1 << 20;

/**
 * The copy of one file in the store: its bytes, its journal, and the lock of its tabs. Several tabs read a complete
 * copy at once; a tab that writes has it alone.
 */
export class Stored {
  /** The journal of the open copy; before, the journal of a file without bytes. */
  journal: Journal = { url: "", name: "", size: 0, chunk: 0, created: 0, hashes: [], done: false, used: 0 };
  #release: (() => void) | undefined;
  #bytes: Bytes | undefined;
  /** Both are open while this tab may write. */
  #data: SyncHandle | undefined;
  #log: JournalWriter | undefined;
  /** Whether this tab created the file, and has not begun its journal. */
  #fresh = false;
  #reopening: Promise<void> | undefined;
  /** The buffer for the chunk that is being hashed, and the end of the last hash. */
  #scratch: Uint8Array | undefined;
  #hashing: Promise<unknown> = Promise.resolve();

  constructor(
    readonly store: Store,
    readonly key: string,
  ) {}

  /** Waits for the lock. */
  async lock(mode: LockMode, signal: AbortSignal): Promise<void> {
    this.#release = await this.store.lock(this.key, mode, signal);
    if (signal.aborted) this.unlock();
    signal.throwIfAborted();
  }

  unlock(): void {
    this.#release?.();
    this.#release = undefined;
  }

  /** Opens a complete copy for reading; false if its bytes are gone, which a browser may evict. */
  async openReadable(found: Journal): Promise<boolean> {
    this.#bytes = await this.store.readable(this.key).catch(() => undefined);
    if (this.#bytes?.size !== found.size) {
      this.#bytes?.close();
      return false;
    }
    this.journal = found;
    return true;
  }

  /** Opens the copy for writing, and creates it if there is none. The caller holds the exclusive lock. */
  async openWritable(): Promise<void> {
    this.#data = await this.store.writable(this.key);
    this.#bytes = bytesOf(this.#data);
    this.#fresh = this.#bytes.size === 0;
    this.#log = new JournalWriter(await this.store.writable(`${this.key}.journal`));
  }

  /** Continues the journal `found`; false if the copy does not hold its bytes, in chunks of `chunk` bytes. */
  resume(found: Journal, chunk: number): boolean {
    if (found.chunk !== chunk || found.size === 0 || found.size !== this.#bytes?.size) return false;
    this.journal = found;
    return true;
  }

  /** Begins a new journal, and reserves all space now, so that a full disk fails at the start. */
  begin(description: Description): void {
    this.journal = { ...description, hashes: [], done: false, used: Date.now() };
    const { data, log } = this.#writable();
    log.begin(description);
    data.truncate(0);
    data.truncate(description.size);
    this.#fresh = false;
  }

  /** Opens a copy for writing that was open for reading, once other tabs have closed it. */
  makeWritable(signal: AbortSignal): Promise<void> {
    return (this.#reopening ??= this.#reopen(signal));
  }

  async #reopen(signal: AbortSignal): Promise<void> {
    if (this.#log) return;
    this.#bytes?.close();
    this.#bytes = undefined;
    this.unlock();
    await this.lock("exclusive", signal);
    await this.openWritable();
    const { name, size } = this.journal;
    if (this.#data!.getSize() !== size)
      throw new SourceError(name, "cache", "the copy in this browser was deleted during the load; load it again");
  }

  /** Reads from offset `at` into `into` and returns the number of bytes read; waits while `makeWritable` reopens. */
  async read(into: Uint8Array, at: number): Promise<number> {
    if (!this.#bytes) await this.#reopening;
    return (this.#bytes ?? closed()).read(into, at);
  }

  #writable(): { data: SyncHandle; log: JournalWriter } {
    return this.#data && this.#log ? { data: this.#data, log: this.#log } : closed();
  }

  write(bytes: Uint8Array, at: number): void {
    if (this.#writable().data.write(bytes, { at }) < bytes.byteLength)
      throw new DOMException("the disk is full", "QuotaExceededError");
  }

  /** Computes the SHA-256 of a chunk on disk, one at a time because the buffer is shared. */
  hash(i: number): Promise<string> {
    const work = this.#hashing.then(async () => {
      const [start, end] = chunkRange(this.journal, i);
      this.#scratch ??= new Uint8Array(this.journal.chunk);
      const part = this.#scratch.subarray(0, end - start);
      return (await this.read(part, start)) < part.byteLength ? "" : sha256(part);
    });
    this.#hashing = work.catch(() => undefined);
    return work;
  }

  /** Records that chunk `i` is complete. */
  complete(i: number, hash: string): void {
    this.#writable().log.chunk(i, hash);
    this.journal.hashes[i] = hash;
  }

  /** Records that chunk `i` must be downloaded again. */
  forget(i: number): void {
    this.#writable().log.forget(i);
    this.journal.hashes[i] = undefined;
  }

  /** Returns the SHA-256 of the file. Calls `ready` before it reads a chunk, and waits for the promise. */
  async checksum(ready: (chunk: number) => Promise<void>): Promise<string> {
    const hasher = await createSHA256();
    const piece = new Uint8Array(Math.min(this.journal.chunk, PIECE));
    for (let i = 0; i < chunkCount(this.journal); i++) {
      await ready(i);
      const [start, end] = chunkRange(this.journal, i);
      for (let at = start; at < end; at += piece.byteLength) {
        const part = piece.subarray(0, Math.min(piece.byteLength, end - at));
        await this.read(part, at);
        hasher.update(part);
      }
      await new Promise((resolve) => setTimeout(resolve)); // yields the thread to Go and the network
    }
    return hasher.digest();
  }

  /** Records that the file is complete, and its checksum if known; a copy open for reading stays as it is. */
  finish(checksum: string | undefined): void {
    if (!this.#data || !this.#log) return;
    this.#data.flush();
    this.#log.done(checksum);
    this.journal.done = true;
    this.journal.verified = checksum;
    this.#log.used();
  }

  /** Closes the files, and keeps the lock. */
  closeFiles(): void {
    this.#bytes?.close();
    this.#log?.close();
    this.#bytes = this.#data = this.#log = undefined;
  }

  /** Closes the files, and releases the lock. */
  async close(): Promise<void> {
    if (!this.#log && this.journal.done) await this.#recordUse().catch(() => undefined);
    this.closeFiles();
    this.unlock();
  }

  /** Records the time of use; if another tab has the journal open, that tab does it. */
  async #recordUse(): Promise<void> {
    const log = new JournalWriter(await this.store.writable(`${this.key}.journal`, 1));
    log.used();
    log.close();
  }

  /** Deletes a copy that this tab created and whose download never began. */
  async discard(): Promise<void> {
    if (!this.#fresh) return;
    this.closeFiles();
    await this.remove();
  }

  /** Deletes the copy. Its journal is emptied first, so that the bytes count for nothing if they cannot be deleted. */
  async remove(): Promise<void> {
    this.#log?.handle.truncate(0);
    this.closeFiles();
    await this.store.remove(this.key).catch(() => false);
  }
}

function closed(): never {
  throw new DOMException("the file was closed", "AbortError");
}
