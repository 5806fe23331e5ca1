/** Downloads from servers without ranges: the file arrives in one response, in order. */
import { ChangedError, LengthError } from "./errors.ts";
import { firstMissing, type Journal } from "./journal.ts";
import type { Remote } from "./remote.ts";
import { sha256 } from "./store.ts";

export interface InOrderDownload {
  name: string;
  journal: Journal;
  remote: Remote;
  signal: AbortSignal;
  /** Writes bytes of the file to disk. */
  write(bytes: Uint8Array, at: number): void;
  /** Hashes a chunk on disk and records it in the journal. */
  complete(chunk: number): Promise<void>;
}

/** Stores the file of `response`. Chunks that an earlier attempt stored are compared instead of written. */
export async function downloadInOrder(response: Response, to: InOrderDownload): Promise<void> {
  const { name, journal, remote, signal } = to;
  const { chunk, size } = journal;
  const wrongLength = (sent: string): LengthError =>
    new LengthError(
      name,
      "download",
      `the server's length header is wrong: it announced ${size} bytes and sent ${sent}`,
    );
  // Compares before it writes: Go may have read the stored bytes.
  const buffer = new Uint8Array(chunk);
  const put = async (i: number, filled: number): Promise<void> => {
    const part = buffer.subarray(0, filled);
    const known = journal.hashes[i];
    if (known) {
      if ((await sha256(part)) !== known) throw new ChangedError(name);
      return;
    }
    to.write(part, i * chunk);
    await to.complete(i);
  };
  const sink = async (bytes: Uint8Array, at: number): Promise<void> => {
    if (at + bytes.byteLength > size) throw wrongLength("more");
    for (let from = 0; from < bytes.byteLength;) {
      const within = (at + from) % chunk;
      const take = Math.min(chunk - within, bytes.byteLength - from);
      buffer.set(bytes.subarray(from, from + take), within);
      from += take;
      if (within + take === chunk || at + from === size) await put(Math.floor((at + from - 1) / chunk), within + take);
    }
  };
  const total = await remote.streamAll(response, sink, signal);
  if (total !== size) throw wrongLength(String(total));
  // A stored chunk may turn out damaged after its bytes have passed.
  if (firstMissing(journal, 0) !== undefined) await downloadInOrder(await remote.request(), to);
}
