/**
 * Opens the files of a model as byte sources: from URLs, cached in the browser (cached.ts) or read by HTTP ranges, and
 * from local files, which are never copied.
 */
import type { CachedSource } from "./cached.ts";
import type { CachePolicy } from "./current.ts";
import { ChangedError, checkRange, message, SourceError } from "./errors.ts";
import { isLocal } from "./hosts.ts";
import { isSingleFile, nameOf, type RemoteFile } from "./hub.ts";
import { OTHERWISE } from "./quota.ts";
import { rejectHTML, Remote, type SourceOptions } from "./remote.ts";
import { differ, discard, type Identity, identityOf } from "./responses.ts";
import type { Progress, Source, SourceSpec } from "../protocol/protocol.ts";

export { SourceError } from "./errors.ts";
export type { SourceOptions } from "./remote.ts";

/** Size of the aligned blocks that answer small reads: parsing a GGUF header takes thousands of them. */
const BLOCK = 256 * 1024;
const MAX_BLOCKS = 4;
/** A file up to this size is fetched at once, so that it has arrived when the engine has started. */
const SMALL = 8 * 1024 * 1024;

/** A source that may still be downloading; see {@link CachedSource}. */
export type OpenSource = Source & Partial<Pick<CachedSource, "finished" | "close">>;

/** Callbacks for the progress of loading. */
export interface LoadEvents {
  /** Progress of one file's download; `note` says what is unusual about it. */
  download?: (file: string, done: number, total: number, note?: string) => void;
  notice?: (text: string) => void;
}

/** Opens the files of a model: several if the model is split, or a repository of safetensors. */
export async function openModel(
  spec: SourceSpec,
  events: LoadEvents = {},
  options: SourceOptions = {},
): Promise<OpenSource[]> {
  const specs = await expand(spec, events, options);
  const opening = specs.map((one) => openSource(one, events, options));
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

/**
 * Returns `value` if it is an array, and throws otherwise. Values come from messages and may have any type: a typed
 * array also has `map`, but cannot hold promises.
 */
export function requireArray<T>(name: string, value: readonly T[]): readonly T[] {
  if (!Array.isArray(value)) throw new SourceError(name, "source", "expected a list", "bad_option");
  return value;
}

async function expand(spec: SourceSpec, events: LoadEvents, options: SourceOptions): Promise<SourceSpec[]> {
  if (spec.kind === "files") {
    const files = requireArray("files", spec.files);
    return files.length === 1 ? expand(files[0]!, events, options) : [...files];
  }
  if (spec.kind === "file") return [spec];
  if (isSingleFile(spec.url)) return [spec];
  const { kind, url, sha256, ...rest } = spec;
  const { filesOf } = await import("./repository.ts");
  const files = await filesOf({ url, sha256 }, options);
  const pinned = files.find((file) => file.sha256);
  if (sha256 && !pinned)
    throw new SourceError(nameOf(url), "sha256", "the file is not one of the model's own files", "bad_option");
  if (pinned && files.length > 1)
    events.notice?.(
      `${nameOf(pinned.url)}: the checksum is compared with this file alone, and with none of the model's ` +
        `${files.length - 1} others; a list of all files can have a checksum for each`,
    );
  return files.map((file: RemoteFile) => ({ kind, ...rest, ...(file as RemoteFile & { sha256?: string }) }));
}

/** Opens one file. */
export async function openSource(
  spec: SourceSpec,
  events: LoadEvents = {},
  options: SourceOptions = {},
): Promise<OpenSource> {
  if (spec.kind === "files") throw new SourceError("files", "source", "expected one file, not a list", "bad_option");
  if (spec.kind === "file") return openBlob(spec.file, spec.name);
  const { url, sha256 } = spec;
  const name = nameOf(url);
  const common = {
    ...options,
    onDownload: (done: number, total: number, note?: string): void => events.download?.(name, done, total, note),
    ...(events.notice ? { notice: events.notice } : {}),
  };
  const keep = spec.cache ?? "auto";
  let whole = false;
  if (keep !== "off") {
    // Pages that load only the built-in pair do not fetch this code.
    const [{ Store }, { openCached }] = await Promise.all([import("./store.ts"), import("./cached.ts")]);
    // Only workers of pages can write to the private file system.
    const store =
      "createSyncAccessHandle" in (globalThis.FileSystemFileHandle?.prototype ?? {}) ? await Store.open() : undefined;
    const cached =
      store &&
      openCached(store, url, name, {
        ...common,
        policy: keep === "auto" ? policyFor(url) : keep,
        expected: sha256,
        published: async () => (await import("./repository.ts")).publishedSHA256(url, options),
      });
    // With "auto", storing is a convenience: the load does not depend on it.
    const file = await (cached && keep === "auto"
      ? orUncached(cached, name, sha256, (identity, why) => {
          events.notice?.(`${name}: not kept for the next visit: ${why}`);
          return openURL(url, { ...common, ahead: true, identity, sha256 });
        })
      : cached);
    if (file) return file;
    if (!store)
      events.notice?.(`${name}: this browser gives the page no file storage, so the next visit downloads it again`);
    whole = !!store;
  }
  return openURL(url, { ...common, ahead: keep === "off", whole, sha256 });
}

/**
 * Returns a source that reads a cached file, and the server once the store fails, as on a full disk. `uncached` gets
 * the version of the file that the cache had and the reason. A file that must have a checksum cannot change over once
 * bytes may have been read, because nothing would check them.
 */
async function orUncached(
  opening: Promise<CachedSource | undefined>,
  name: string,
  sha256: string | undefined,
  uncached: (identity: Identity | undefined, why: string) => Promise<OpenSource>,
): Promise<OpenSource | undefined> {
  /** Returns why the store failed; throws other errors. */
  const reasonOf = (cause: unknown): string => {
    if (cause instanceof SourceError && cause.code === "quota") return cause.reason.replace(OTHERWISE, "");
    if (cause instanceof DOMException && cause.name !== "AbortError") return `${cause.name}: ${cause.message}`;
    throw cause;
  };
  let cached: CachedSource | undefined;
  try {
    cached = await opening;
  } catch (cause) {
    return uncached(undefined, reasonOf(cause));
  }
  if (!cached) return undefined;
  const file = cached;
  let other: Promise<OpenSource> | undefined;
  const instead = (cause: unknown): Promise<OpenSource> => {
    const why = reasonOf(cause);
    if (sha256)
      throw new SourceError(name, "storage", `${why}, so its checksum cannot be compared${OTHERWISE}`, "quota");
    return (other ??= uncached(file.identity, why));
  };
  return {
    name,
    size: file.size,
    async read(offset, length) {
      if (!other) {
        try {
          return await file.read(offset, length);
        } catch (cause) {
          void instead(cause);
        }
      }
      return (await other!).read(offset, length);
    },
    release: (bytes) => file.release?.(bytes),
    finished: () => file.finished().catch(async (cause: unknown) => void (await instead(cause))),
    close() {
      file.close();
      other?.then((source) => source.close?.()).catch(() => undefined);
    },
  };
}

/** Files of this machine or of the page's own origin may change at any time, and checking them is cheap. */
function policyFor(url: string): CachePolicy {
  const { origin, hostname } = new URL(url);
  return origin === globalThis.location?.origin || isLocal(hostname) ? "check" : "first";
}

/** Opens a local file, or a download that the browser holds as a Blob. */
export function openBlob(blob: Blob, name: string): Source {
  return buffered({
    name,
    size: blob.size,
    async read(offset, length) {
      try {
        return new Uint8Array(await blob.slice(offset, offset + length).arrayBuffer());
      } catch (cause) {
        throw new SourceError(
          name,
          "file",
          `can no longer be read; it may have been moved or changed (${message(cause)})`,
        );
      }
    },
  });
}

interface URLOptions extends SourceOptions {
  /** Fetches the rest of a small file at once. */
  ahead?: boolean;
  /** The version of the file; another one is an error. */
  identity?: Identity | undefined;
  /** The checksum that the file must have. */
  sha256?: string | undefined;
}

/**
 * Opens a URL without caching it: by HTTP ranges, so that memory holds one chunk of a tensor at a time. The first
 * request asks for the first block, and its response gives the size. A file is downloaded into a Blob if the server
 * has no ranges, or if it must have a checksum, which is compared before any byte is read.
 */
export async function openURL(url: string, options: URLOptions = {}): Promise<Source> {
  const { sha256 } = options;
  const name = nameOf(url);
  const remote = new Remote(url, name, options);
  // Extension and blob URLs do not report the size of the file in a response to a range.
  if (!/^https?:/.test(url)) return openBlob(await remote.download(await remote.request(), sha256), name);
  const first = await remote.request(0, sha256 ? Infinity : BLOCK);
  rejectHTML(name, first);
  if (options.identity && differ(options.identity, identityOf(first))) {
    discard(first);
    throw new ChangedError(name);
  }
  if (first.status === 206 && !sha256) {
    const identity = identityOf(first);
    const size = identity.size ?? (await remote.sizeByLength());
    if (size !== undefined) {
      remote.identity = { ...identity, size };
      const head = new Uint8Array(await first.arrayBuffer().catch(() => new ArrayBuffer(0)));
      if (options.ahead && head.byteLength === BLOCK && size > BLOCK && size <= SMALL)
        return buffered(small(name, size, head, remote.read(BLOCK, size - BLOCK)), head);
      return buffered({ name, size, read: (offset, length) => remote.read(offset, length) }, head);
    }
    // The cross-origin server hides the file's size: download it at once.
    discard(first);
    return openBlob(await remote.download(await remote.request(0)), name);
  }
  return openBlob(await remote.download(first, sha256), name);
}

/** Returns a source for a file whose first block has arrived and whose rest is being fetched. */
function small(name: string, size: number, head: Uint8Array, rest: Promise<Uint8Array>): Source {
  rest.catch(() => undefined); // reported to the reader
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

/** Adds up the downloads of a load for one progress message. */
export class Downloads {
  readonly #files = new Map<string, { done: number; total: number; note: string }>();

  constructor(readonly update: (progress: Progress) => void) {}

  /** Whether any download is incomplete; the total of one is 0 while unknown. */
  get active(): boolean {
    return [...this.#files.values()].some(({ done, total }) => done < total || total === 0);
  }

  readonly report = (file: string, done: number, total: number, note = ""): void => {
    this.#files.set(file, { done, total, note });
    const all = [...this.#files.values()];
    const notes = new Set(all.map((one) => one.note).filter(Boolean));
    this.update({
      stage: "download",
      done: all.reduce((sum, one) => sum + one.done, 0),
      total: all.every((one) => one.total > 0) ? all.reduce((sum, one) => sum + one.total, 0) : 0,
      ...(notes.size > 0 ? { note: [...notes].join("; ") } : {}),
    });
  };
}

/** Answers small reads from blocks in memory and checks every range. `head` is the first block, if known. */
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
      if (blocks.size > MAX_BLOCKS) blocks.delete(blocks.keys().next().value!);
    }
    return wanted;
  };
  return {
    name: inner.name,
    size: inner.size,
    async read(offset, length) {
      checkRange(inner, offset, length);
      if (length === 0) return new Uint8Array(0);
      if (length >= BLOCK) return inner.read(offset, length);
      const out = new Uint8Array(length);
      for (let at = offset; at < offset + length;) {
        const index = Math.floor(at / BLOCK);
        const bytes = await block(index);
        const from = at - index * BLOCK;
        const take = Math.min(bytes.byteLength - from, offset + length - at);
        if (take <= 0)
          throw new SourceError(
            inner.name,
            "range",
            `ended at byte ${index * BLOCK + bytes.byteLength} of ${inner.size}`,
          );
        out.set(bytes.subarray(from, from + take), at - offset);
        at += take;
      }
      return out;
    },
  };
}
