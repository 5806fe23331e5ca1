/**
 * The journal of a stored file: lines of JSON, of which the first describes the file, and each later one records an
 * event. A tab may be killed at any moment. Therefore a chunk counts only once its SHA-256 is in the journal, and
 * readers ignore a torn last line.
 */
import type { SyncHandle } from "./handles.ts";

/** The identity of a file when its download began. */
export interface Description {
  url: string;
  name: string;
  /** Bytes of the file, and of a chunk. */
  size: number;
  chunk: number;
  etag?: string | undefined;
  modified?: string | undefined;
  /** SHA-256 of the file, as the server publishes it or the caller expects it. */
  sha256?: string | undefined;
  /** Milliseconds since 1970. */
  created: number;
}

/** A parsed journal. */
export interface Journal extends Description {
  /** SHA-256 of each complete chunk. */
  hashes: (string | undefined)[];
  /** Whether the file is complete and matches the published SHA-256, if there is one. */
  done: boolean;
  /** The computed SHA-256 of the file, if known. */
  verified?: string | undefined;
  used: number;
}

type Line = Description | [chunk: number, hash: string] | { done: number; sha256?: string } | { used: number };

/** Returns the byte range of chunk `i`. */
export function chunkRange(of: { size: number; chunk: number }, i: number): [start: number, end: number] {
  return [i * of.chunk, Math.min(of.size, (i + 1) * of.chunk)];
}

export function chunkCount(of: { size: number; chunk: number }): number {
  return Math.ceil(of.size / of.chunk);
}

/** Parses a journal; undefined if its first line is damaged or has another version. */
export function parseJournal(text: string): Journal | undefined {
  const lines = text.split("\n");
  lines.pop(); // torn, or empty after the last newline
  let journal: Journal | undefined;
  for (const text of lines) {
    let line: Line & { v?: number };
    try {
      line = JSON.parse(text) as Line & { v?: number };
    } catch {
      continue;
    }
    if (!journal) {
      const d = line as Description & { v?: number };
      if (
        d.v !== 1 ||
        typeof d.url !== "string" ||
        typeof d.name !== "string" ||
        !Number.isSafeInteger(d.size) ||
        d.size < 0 ||
        !Number.isSafeInteger(d.chunk) ||
        d.chunk <= 0
      )
        return undefined;
      journal = { ...d, hashes: [], done: false, used: d.created };
    } else if (Array.isArray(line)) {
      const [i, hash] = line;
      if (!Number.isSafeInteger(i) || i < 0 || i >= chunkCount(journal)) continue;
      journal.hashes[i] = hash || undefined;
      if (!hash) journal.done = false;
    } else if ("done" in line) {
      journal.done = Array.from({ length: chunkCount(journal) }, (_, i) => journal!.hashes[i]).every(Boolean);
      journal.verified = line.sha256;
    } else if ("used" in line) {
      journal.used = line.used;
    }
  }
  return journal;
}

/** Returns the number of bytes in complete chunks. */
export function bytesComplete(journal: Journal): number {
  let have = 0;
  journal.hashes.forEach((hash, i) => {
    const [start, end] = chunkRange(journal, i);
    if (hash) have += end - start;
  });
  return have;
}

/** Returns the first chunk from `from` on that is not complete, or undefined. */
export function firstMissing(journal: Journal, from: number): number | undefined {
  for (let i = from; i < chunkCount(journal); i++) if (!journal.hashes[i]) return i;
  return undefined;
}

/** Appends to a journal; only the downloading tab has one. */
export class JournalWriter {
  #at: number;
  constructor(readonly handle: SyncHandle) {
    this.#at = handle.getSize();
  }

  /** Truncates the journal and writes its first line. */
  begin(description: Description): void {
    this.handle.truncate(0);
    this.#at = 0;
    this.#append({ v: 1, ...description });
  }

  chunk(i: number, hash: string): void {
    this.#append([i, hash]);
  }

  /** Records that chunk `i` must be downloaded again. */
  forget(i: number): void {
    this.#append([i, ""]);
  }

  done(sha256: string | undefined): void {
    this.#append({ done: Date.now(), ...(sha256 ? { sha256 } : {}) });
    this.handle.flush();
  }

  used(): void {
    this.#append({ used: Date.now() });
  }

  close(): void {
    this.handle.close();
  }

  #append(line: unknown): void {
    const text = JSON.stringify(line) + "\n";
    const bytes = new TextEncoder().encode(text);
    // After the torn line of a killed tab, start on a new line.
    const torn = this.#at > 0 && !endsLine(this.handle, this.#at);
    const all = torn ? new Uint8Array([10, ...bytes]) : bytes;
    if (this.handle.write(all, { at: this.#at }) < all.byteLength)
      throw new DOMException("the disk is full", "QuotaExceededError");
    this.#at += all.byteLength;
  }
}

function endsLine(handle: SyncHandle, size: number): boolean {
  const last = new Uint8Array(1);
  handle.read(last, { at: size - 1 });
  return last[0] === 10;
}
