/** Turns, taken one after the other in the order of the calls. */
import { abortable } from "../protocol/errors.ts";

export class Turns {
  #last: Promise<unknown> | undefined;

  /** Whether a turn is taken or waited for. */
  get taken(): boolean {
    return this.#last !== undefined;
  }

  /** Waits for earlier turns, and returns a function that ends this one. Rejects once the signal aborts. */
  async take(signal?: AbortSignal): Promise<() => void> {
    const before = this.#last;
    let leave = (): void => undefined;
    const own = new Promise<void>((resolve) => (leave = resolve));
    // A call that leaves before its turn leaves later calls waiting for the earlier turns.
    const all = Promise.all([before, own]).then(() => {
      if (this.#last === all) this.#last = undefined;
    });
    this.#last = all;
    try {
      if (before) await abortable(before, signal);
    } catch (cause) {
      leave();
      throw cause;
    }
    return leave;
  }
}
