/** Turns that are taken one after the other, in the order in which they were asked for. */
import { abortable } from "../protocol/errors.ts";

export class Turns {
  #last: Promise<unknown> | undefined;

  /** Whether a turn is taken or waited for. */
  get taken(): boolean {
    return this.#last !== undefined;
  }

  /** Waits for the turns before, or rejects once the signal aborts. The function that it returns ends the turn. */
  async take(signal?: AbortSignal): Promise<() => void> {
    const before = this.#last;
    let leave = (): void => undefined;
    const own = new Promise<void>((resolve) => (leave = resolve));
    // One that left before its turn has those behind it wait still.
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
