/**
 * Ranged byte sources a model is loaded from: addresses, kept in the browser
 * ({@link ./cached.ts}) or read by HTTP ranges, and local files, which are never
 * copied. A model is one file, or several that belong together.
 */
import type { CachedSource, CachePolicy } from "./cached.ts";
import { discard, identityOf, message, nameOf, rejectHTML, Remote, SourceError, type SourceOptions } from "./fetching.ts";
import { isWhole, type RemoteFile } from "./hub.ts";
import type { Progress, Source, SourceSpec } from "./protocol.ts";

export { SourceError, type SourceOptions } from "./fetching.ts";

/** Small reads are answered from aligned blocks: a GGUF header is thousands of them. */
const BLOCK = 256 * 1024;
const KEPT_BLOCKS = 4;
/** A file no larger can be read as a whole at once: its bytes are there when the engine has started. */
const SMALL = 8 * 1024 * 1024;

/** A source that may still be on its way; see {@link CachedSource}. */
export type OpenSource = Source & Partial<Pick<CachedSource, "finished" | "close">>;

/** What loading tells while it goes on. */
export interface Told {
  /** One file's download; `note` is what is unusual about it. */
  download?: (file: string, done: number, total: number, note?: string) => void;
  notice?: (text: string) => void;
}

/** Opens the files of a model: several if it is split, or a repository of safetensors. */
export async function openModel(spec: SourceSpec, told: Told = {}, options: SourceOptions = {}): Promise<OpenSource[]> {
  const specs = await expand(spec, options);
  const opening = specs.map((one) => openSource(one, told, options));
  const outcomes = await Promise.allSettled(opening);
  const opened: OpenSource[] = [];
  let failure: unknown;
  outcomes.forEach((outcome, i) => {
    if (outcome.status === "fulfilled") opened.push(outcome.value);
    else if (!(specs[i] as { optional?: boolean }).optional) failure ??= outcome.reason;
  });
  if (failure === undefined) return opened;
  for (const source of opened) source.close?.();
  throw failure;
}

/** A list that a message holds, which may be anything: what has a `map` of its own, as bytes have, would lose the promises put there. */
export function listed<T>(name: string, value: readonly T[]): readonly T[] {
  if (!Array.isArray(value)) throw new SourceError(name, "source", "a list is wanted here", "bad_option");
  return value;
}

async function expand(spec: SourceSpec, options: SourceOptions): Promise<SourceSpec[]> {
  if (spec.kind === "files") return (await Promise.all(listed("files", spec.files).map((file) => (spec.files.length === 1 ? expand(file, options) : [file])))).flat();
  if (spec.kind === "file") return [spec];
  if (isWhole(spec.url)) return [spec];
  const { kind, url, sha256, ...rest } = spec;
  const { filesOf } = await import("./repository.ts");
  return (await filesOf({ url, sha256 }, options)).map((file: RemoteFile) => ({ kind, ...rest, ...(file as RemoteFile & { sha256?: string }) }));
}

/** Opens one file. */
export async function openSource(spec: SourceSpec, told: Told = {}, options: SourceOptions = {}): Promise<OpenSource> {
  if (spec.kind === "files") throw new SourceError("files", "source", "one file is wanted here, not a list", "bad_option");
  if (spec.kind === "file") return openBlob(spec.file, spec.name);
  const { url } = spec;
  const name = nameOf(url);
  const download = (done: number, total: number, note?: string): void => told.download?.(name, done, total, note);
  const keep = spec.cache ?? "auto";
  if (keep !== "off") {
    // Pages that only read the built-in pair do without the code of all this.
    const [{ Store }, { openCached }] = await Promise.all([import("./opfs.ts"), import("./cached.ts")]);
    // Only a page's workers can write such files.
    const store = "createSyncAccessHandle" in (globalThis.FileSystemFileHandle?.prototype ?? {}) ? await Store.open() : undefined;
    const kept =
      store &&
      (await openCached(store, url, name, {
        ...options,
        policy: keep === "auto" ? policyFor(url) : keep,
        expected: spec.sha256,
        published: async () => (await import("./repository.ts")).publishedSHA256(url, options),
        onDownload: download,
        ...(told.notice ? { notice: told.notice } : {}),
      }));
    if (kept) return kept;
    if (!store) told.notice?.(`${name}: this browser keeps no files for this page, so it will be downloaded again the next time`);
  }
  return openURL(url, { ...options, onDownload: download, ahead: keep === "off" });
}

/** A file on this machine or beside the page may change under its name at any time, and asking costs nothing. */
function policyFor(url: string): CachePolicy {
  const { origin, hostname } = new URL(url);
  return origin === globalThis.location?.origin || /^(localhost|127(\.\d+){3}|\[::1\])$/.test(hostname) ? "check" : "first";
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

/**
 * A model at a URL, without keeping it: by HTTP ranges, so that Go can hold one
 * tensor chunk at a time; from a server without ranges whole, into a Blob. The
 * first request asks for the first block and learns the size from the answer. With `ahead` the rest of a
 * small file follows at once.
 */
export async function openURL(url: string, options: SourceOptions & { ahead?: boolean } = {}): Promise<Source> {
  const name = nameOf(url);
  const remote = new Remote(url, name, options);
  // What an extension packs, or a page holds in memory, comes without a word on the size of the whole.
  if (!/^https?:/.test(url)) return openBlob(await remote.download(await remote.request()), name);
  const first = await remote.request(0, BLOCK);
  rejectHTML(name, first);
  if (first.status === 206) {
    const identity = identityOf(first);
    const size = identity.size ?? (await remote.sizeByHead());
    if (size !== undefined) {
      remote.identity = { ...identity, size };
      const head = new Uint8Array(await first.arrayBuffer().catch(() => new ArrayBuffer(0)));
      if (options.ahead && head.byteLength === BLOCK && size > BLOCK && size <= SMALL) return buffered(small(name, size, head, remote.read(BLOCK, size - BLOCK)), head);
      return buffered({ name, size, read: (offset, length) => remote.read(offset, length) }, head);
    }
    // A cross-origin server that hides its sizes: take the file whole.
    discard(first);
    return openBlob(await remote.download(await remote.request()), name);
  }
  return openBlob(await remote.download(first), name);
}

/** A file whose first block is there and whose rest is on its way. */
function small(name: string, size: number, head: Uint8Array, rest: Promise<Uint8Array>): Source {
  rest.catch(() => undefined); // told to whoever reads it
  return {
    name,
    size,
    async read(offset, length) {
      const out = new Uint8Array(length);
      const fromHead = head.subarray(offset, offset + length);
      out.set(fromHead);
      if (fromHead.byteLength < length) {
        const from = offset + fromHead.byteLength - head.byteLength;
        out.set((await rest).subarray(from, from + length - fromHead.byteLength), fromHead.byteLength);
      }
      return out;
    },
  };
}

/** Sums the downloads of a load up for one progress line. */
export class Downloads {
  readonly #files = new Map<string, { done: number; total: number; note: string }>();

  constructor(readonly update: (progress: Progress) => void) {}

  /** Whether bytes are still to come. */
  get active(): boolean {
    return [...this.#files.values()].some(({ done, total }) => done < total);
  }

  readonly tell = (file: string, done: number, total: number, note = ""): void => {
    this.#files.set(file, { done, total, note });
    const all = [...this.#files.values()];
    const notes = new Set(all.map((one) => one.note).filter(Boolean));
    this.update({
      stage: "download",
      done: all.reduce((sum, one) => sum + one.done, 0),
      total: all.reduce((sum, one) => sum + one.total, 0),
      ...(notes.size > 0 ? { note: [...notes].join("; ") } : {}),
    });
  };
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
