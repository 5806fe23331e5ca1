/** A worker's side of being known to be alive; see "alive" of the protocol. */
import type { Channel, FromWorker, ToWorker } from "./protocol.ts";

/** Holds the lock that a page names for as long as this worker lives, and says so. */
export function hold(channel: Channel<ToWorker, FromWorker>): void {
  channel.addEventListener("message", ({ data }) => {
    if (data?.op !== "open" || typeof data.lock !== "string") return;
    const { lock } = data;
    const held = (): Promise<never> => {
      channel.postMessage({ type: "alive", lock });
      return new Promise(() => undefined);
    };
    navigator.locks?.request(lock, held).catch(() => undefined); // refused in frames without an origin of their own
  });
}
