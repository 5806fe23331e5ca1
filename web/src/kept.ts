/** What the origin keeps of downloaded models, for pages that show or delete it. */
import { abortable, ForetokenError } from "./errors.ts";
import { FOLDER, type Kept, Store } from "./opfs.ts";

/** A model file kept in this browser. */
export interface KeptModel extends Kept {
  /** A tab is downloading or reading it. */
  busy: boolean;
}

/** Space of the origin, in bytes, as the browser estimates it. */
export interface Space {
  used: number;
  quota: number;
  /** The browser does not delete it by itself when the disk is full. */
  persistent: boolean;
}

/** The files kept, last used first; undefined where the browser keeps none for this page. */
export function keptModels({ signal }: { signal?: AbortSignal | undefined } = {}): Promise<KeptModel[] | undefined> {
  return withStore(signal, async (store) => {
    if (!store) return undefined;
    const held = (await navigator.locks?.query())?.held ?? [];
    const busy = new Set(held.map((lock) => lock.name));
    return (await store.list()).map((file) => ({ ...file, busy: busy.has(`${FOLDER}/${file.key}`) }));
  });
}

/** Deletes a kept file; false if a tab is using it. An aborted one may have been deleted already. */
export function deleteKept(key: string, { signal }: { signal?: AbortSignal | undefined } = {}): Promise<boolean> {
  return withStore(signal, async (store) => (store ? store.remove(key) : true));
}

async function withStore<T>(signal: AbortSignal | undefined, work: (store: Store | undefined) => Promise<T>): Promise<T> {
  try {
    return await abortable(Store.open().then((store) => (signal?.aborted ? undefined : store)).then(work), signal);
  } catch (cause) {
    if (cause instanceof ForetokenError) throw cause;
    throw new ForetokenError("unreadable", `kept models: ${(cause as Error).message}`, undefined, { cause });
  }
}

/** How much space there is. */
export async function space(): Promise<Space | undefined> {
  try {
    const { usage = 0, quota = 0 } = await navigator.storage.estimate();
    return { used: usage, quota, persistent: await navigator.storage.persisted() };
  } catch {
    return undefined;
  }
}

/** Asks the browser not to delete the origin's files by itself; it may ask the user, or decide alone. */
export async function persist(): Promise<boolean> {
  return (await navigator.storage?.persist?.().catch(() => false)) ?? false;
}
