/** Lets the page notice that a worker has ended; see "alive" in protocol.ts. */
import type { Channel, FromWorker, ToWorker } from "../protocol/protocol.ts";

/** Takes the Web Lock that the page names and keeps it until the worker ends; then the page gets the lock. */
export function proveAlive(channel: Channel<ToWorker, FromWorker>): void {
  channel.addEventListener("message", ({ data }) => {
    if (data?.op !== "open" || typeof data.lock !== "string") return;
    const { lock } = data;
    const acquired = (): Promise<never> => {
      channel.postMessage({ type: "alive", lock });
      return new Promise(() => undefined);
    };
    navigator.locks?.request(lock, acquired).catch(() => undefined); // refused in frames with an opaque origin
  });
}
