/**
 * Stores downloaded models in the origin's private file system (OPFS). The file `<key>` holds the bytes, and
 * `<key>.journal` says which of them are complete.
 */
import { type Bytes, bytesOf, type SyncHandle } from "./handles.ts";
import { bytesComplete, type Journal, parseJournal } from "./journal.ts";

/** In Chromium, several tabs can open read-only handles of a file; other browsers ignore the option. */
interface WorkerFile extends FileSystemFileHandle {
  createSyncAccessHandle(options?: { mode: "read-only" }): Promise<SyncHandle>;
}

/** The folder in the origin's private file system. */
export const FOLDER = "foretoken-models";

/** A stored file, for lists. */
export interface StoredFile {
  key: string;
  url: string;
  name: string;
  size: number;
  /** Bytes of its complete chunks. */
  have: number;
  used: number;
  done: boolean;
}

/** The downloaded models of this origin. */
export class Store {
  constructor(readonly folder: FileSystemDirectoryHandle) {}

  /** Opens the store; undefined if the browser has none: on insecure origins and in some private windows. */
  static async open(): Promise<Store | undefined> {
    try {
      const root = await navigator.storage.getDirectory();
      return new Store(await root.getDirectoryHandle(FOLDER, { create: true }));
    } catch {
      return undefined;
    }
  }

  /** Returns the name of a URL's file in the store. */
  static async key(url: string): Promise<string> {
    return (await sha256(new TextEncoder().encode(url.replace(/#.*$/, "")))).slice(0, 32);
  }

  async journal(key: string): Promise<Journal | undefined> {
    for (let attempt = 0; attempt < 5; attempt++) {
      try {
        const handle = await this.folder.getFileHandle(`${key}.journal`);
        return parseJournal(await (await handle.getFile()).text());
      } catch (cause) {
        if (cause instanceof Error && cause.name === "NotFoundError") return undefined;
        // The downloading tab wrote to the file during the read.
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    }
    return undefined;
  }

  /**
   * Waits for the Web Lock of a file and returns a function that releases it. The browser releases it when the tab ends
   * for any reason.
   */
  lock(key: string, mode: LockMode, signal: AbortSignal): Promise<() => void> {
    const locks = globalThis.navigator?.locks;
    if (!locks) return Promise.resolve(() => undefined);
    return new Promise((resolve, reject) => {
      locks
        .request(`${FOLDER}/${key}`, { mode, signal }, () => new Promise<void>((release) => resolve(release)))
        .catch(reject);
    });
  }

  /** Opens or creates a file for writing by this tab alone. Tries `tries` times while another tab has it open. */
  async writable(name: string, tries = 20): Promise<SyncHandle> {
    const handle = (await this.folder.getFileHandle(name, { create: true })) as WorkerFile;
    for (let attempt = 1; ; attempt++) {
      try {
        return await handle.createSyncAccessHandle();
      } catch (cause) {
        // A terminated worker closes its files after a short delay.
        if (attempt >= tries || !(cause instanceof Error) || cause.name !== "NoModificationAllowedError") throw cause;
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
    }
  }

  /** Opens a file for reading; several tabs can read it at once. */
  async readable(name: string): Promise<Bytes> {
    const handle = (await this.folder.getFileHandle(name)) as WorkerFile;
    try {
      return bytesOf(await handle.createSyncAccessHandle({ mode: "read-only" }));
    } catch {
      const file = await handle.getFile();
      return {
        size: file.size,
        async read(into, at) {
          const bytes = new Uint8Array(await file.slice(at, at + into.byteLength).arrayBuffer());
          into.set(bytes);
          return bytes.byteLength;
        },
        close: () => undefined,
      };
    }
  }

  /** Lists the stored files, last used first, including files without a readable journal, which take space too. */
  async list(): Promise<StoredFile[]> {
    const names = new Set<string>();
    for await (const name of this.folder.keys()) names.add(name.replace(/\.journal$/, ""));
    const all: StoredFile[] = [];
    for (const key of names) {
      const journal = await this.journal(key);
      if (journal)
        all.push({
          key,
          url: journal.url,
          name: journal.name,
          size: journal.size,
          have: bytesComplete(journal),
          used: journal.used,
          done: journal.done,
        });
      else {
        const file = await this.folder
          .getFileHandle(key)
          .then((handle) => handle.getFile())
          .catch(() => undefined);
        if (!file?.size) continue; // deleted since its name was read, or a download that just began
        all.push({
          key,
          url: "",
          name: "unknown file",
          size: file.size,
          have: 0,
          used: file.lastModified,
          done: false,
        });
      }
    }
    return all.sort((a, b) => b.used - a.used);
  }

  /** Deletes a file; false if a tab is using it. */
  async remove(key: string): Promise<boolean> {
    // Bytes first: a journal without bytes is harmless, but bytes without a journal have no name.
    for (const name of [key, `${key}.journal`]) {
      try {
        await this.folder.removeEntry(name);
      } catch (cause) {
        if (cause instanceof Error && cause.name === "NotFoundError") continue;
        if (cause instanceof Error && cause.name === "NoModificationAllowedError") return false;
        throw cause;
      }
    }
    return true;
  }
}

/** SHA-256 in lower-case hexadecimal. */
export async function sha256(bytes: Uint8Array): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes as Uint8Array<ArrayBuffer>));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
