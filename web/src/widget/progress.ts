/** Shows the progress of loading in the status line and its bar. */
import type { Progress } from "../protocol/protocol.ts";
import { setText } from "./dom.ts";
import * as format from "./format.ts";
import type { View } from "./view.ts";

export class ProgressLine {
  readonly #view: View;
  readonly #rate = new format.Rate();
  /** The status line before the device was lost, while the models reload. */
  #before: string | undefined;

  constructor(view: View) {
    this.#view = view;
  }

  /** Shows the progress of a load and returns its line. */
  show(progress: Progress): string {
    const { status, progress: bar } = this.#view;
    const line = format.progress(progress, this.#rate.add(progress.stage, progress.done, performance.now()));
    setText(status, line);
    if (progress.total > 0) bar.value = progress.done / progress.total;
    else bar.removeAttribute("value");
    return line;
  }

  /** Shows the progress after a lost device: the models reload during other work. */
  reload(progress: Progress): void {
    const { status } = this.#view;
    if (progress.stage === "lost") this.#before ??= status.textContent ?? "";
    if (this.#before === undefined || progress.stage === "notice") return;
    setText(status, progress.stage === "ready" ? this.#before : format.progress(progress, 0));
    if (progress.stage === "ready") this.#before = undefined;
  }

  /** Forgets a lost device. */
  reset(): void {
    this.#before = undefined;
  }
}
