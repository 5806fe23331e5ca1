/** Lists and deletes the downloaded models in the origin's private file system. */
import { abortable, ForetokenError } from "../protocol/errors.ts";
import { FOLDER, Store, type StoredFile } from "./store.ts";

/** A downloaded file in the origin's private file system. */
export interface KeptModel extends StoredFile {
  /** Whether a tab is downloading or reading it. */
  busy: boolean;
}

/** The browser's estimate of the origin's storage, in bytes. */
export interface Space {
  used: number;
  quota: number;
  /** Whether the browser never deletes the origin's data on its own when the disk is full. */
  persistent: boolean;
}

/** Lists the downloaded files, last used first; undefined if the browser gives this page no private file system. */
export function keptModels({ signal }: { signal?: AbortSignal | undefined } = {}): Promise<KeptModel[] | undefined> {
  return withStore(signal, async (store) => {
    if (!store) return undefined;
    const held = (await navigator.locks?.query())?.held ?? [];
    const busy = new Set(held.map((lock) => lock.name));
    return (await store.list()).map((file) => ({ ...file, busy: busy.has(`${FOLDER}/${file.key}`) }));
  });
}

/** Deletes a downloaded file; false if a tab is using it. After an abort the file may or may not be deleted. */
export function deleteKept(key: string, { signal }: { signal?: AbortSignal | undefined } = {}): Promise<boolean> {
  return withStore(signal, async (store) => (store ? store.remove(key) : true));
}

async function withStore<T>(
  signal: AbortSignal | undefined,
  work: (store: Store | undefined) => Promise<T>,
): Promise<T> {
  try {
    return await abortable(
      Store.open()
        .then((store) => (signal?.aborted ? undefined : store))
        .then(work),
      signal,
    );
  } catch (cause) {
    if (cause instanceof ForetokenError) throw cause;
    throw new ForetokenError("unreadable", `kept models: ${(cause as Error).message}`, undefined, { cause });
  }
}

/** Returns the browser's estimate of used and available storage. */
export async function space(): Promise<Space | undefined> {
  try {
    const { usage = 0, quota = 0 } = await navigator.storage.estimate();
    return { used: usage, quota, persistent: await navigator.storage.persisted() };
  } catch {
    return undefined;
  }
}

/** Asks the browser never to delete the origin's files on its own; it may ask the user. */
export async function persist(): Promise<boolean> {
  return (await navigator.storage?.persist?.().catch(() => false)) ?? false;
}
