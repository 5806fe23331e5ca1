/** Open files of the origin's private file system. */

/** FileSystemSyncAccessHandle, which TypeScript declares only for workers. */
export interface SyncHandle {
  read(into: Uint8Array, options: { at: number }): number;
  write(bytes: Uint8Array, options: { at: number }): number;
  truncate(size: number): void;
  getSize(): number;
  flush(): void;
  close(): void;
}

/** A stored file for reading: through a handle, or as a File if the browser gives a handle to one tab only. */
export interface Bytes {
  readonly size: number;
  /** Reads from offset `at` into `into` and returns the number of bytes read. */
  read(into: Uint8Array, at: number): number | Promise<number>;
  close(): void;
}

export function bytesOf(handle: SyncHandle): Bytes {
  return { size: handle.getSize(), read: (into, at) => handle.read(into, { at }), close: () => handle.close() };
}
