import { bytesComplete, type Journal } from "./journal.ts";
import type { SourceOptions } from "./remote.ts";
import { FOLDER } from "./store.ts";

/** Milliseconds between two reports. */
const PACE = 100;

interface Message {
  key: string;
  done: number;
  total: number;
}

/** Reports how many bytes of a file are stored, to this tab's listener and to the tabs that wait for the file. */
export class DownloadProgress {
  readonly #channel = globalThis.BroadcastChannel && new BroadcastChannel(FOLDER);
  #done = 0;
  #total = 0;
  #reportedAt = 0;

  constructor(
    readonly key: string,
    readonly listener: SourceOptions["onDownload"],
  ) {}

  /** Stored bytes, including bytes of incomplete chunks. */
  get done(): number {
    return this.#done;
  }

  /** Counts from what a journal has. */
  start(journal: Journal): void {
    this.#done = bytesComplete(journal);
    this.#total = journal.size;
    if (!journal.done) this.#report();
  }

  add(bytes: number): void {
    this.#done += bytes;
    this.#report();
  }

  /** Counts bytes out that turned out damaged. */
  remove(bytes: number): void {
    this.#done -= bytes;
  }

  /** Passes another tab's reports of the file to the listener while `work` waits for that tab. */
  async during<T>(work: Promise<T>): Promise<T> {
    const onMessage = ({ data: { key, done, total } }: MessageEvent<Message>): void => {
      if (key === this.key) this.listener?.(done, total, "another tab is downloading it");
    };
    this.#channel?.addEventListener("message", onMessage);
    try {
      return await work;
    } finally {
      this.#channel?.removeEventListener("message", onMessage);
    }
  }

  close(): void {
    this.#channel?.close();
  }

  #report(): void {
    const total = this.#total;
    const done = Math.min(this.#done, total);
    const now = performance.now();
    if (done < total && now - this.#reportedAt < PACE) return;
    this.#reportedAt = now;
    this.listener?.(done, total);
    this.#channel?.postMessage({ key: this.key, done, total } satisfies Message);
  }
}
