/** Which models to load: chosen in the picker, which is loaded when it is opened, or dropped on the widget. */
import type { LoadOptions } from "../engine.ts";
import type { Picker, PickerOptions } from "./picker.ts";
import type { View } from "./view.ts";

/** What is loaded: models, and what belongs to them. */
export type Models = Pick<LoadOptions, "target" | "draft" | "calibrations" | "eagle3" | "eagle3Config" | "cache">;

export class ModelChoice {
  readonly #view: View;
  readonly #options: () => PickerOptions;
  #picker: Picker | undefined;
  #opening: Promise<Picker> | undefined;
  #blocked = false;

  /** `options` are asked for when the picker is opened; `refuse` says why what was dropped cannot be loaded. */
  constructor(view: View, options: () => PickerOptions, refuse: (message: string) => void) {
    this.#view = view;
    this.#options = options;
    view.models.addEventListener("toggle", () => {
      if (view.models.open) void this.#open();
    });
    const { root } = view;
    const carries = (event: DragEvent): boolean => event.dataTransfer?.types.includes("Files") ?? false;
    root.addEventListener("dragover", (event) => {
      if (!carries(event)) return;
      event.preventDefault();
      root.classList.add("dropping");
    });
    root.addEventListener("dragleave", (event) => {
      if (!root.contains(event.relatedTarget as Node | null)) root.classList.remove("dropping");
    });
    root.addEventListener("drop", (event) => {
      if (!carries(event)) return;
      event.preventDefault();
      root.classList.remove("dropping");
      const dropped = [...event.dataTransfer!.files];
      void import("./files.ts")
        .then(({ sortFiles }) => {
          const { target, draft, calibrations } = sortFiles(dropped);
          options().load({ target, draft: draft.length > 0 ? draft : null, calibrations });
        })
        .catch((cause: unknown) => refuse((cause as Error).message));
    });
  }

  /** Whether models can be loaded now. */
  block(blocked: boolean): void {
    this.#blocked = blocked;
    this.#picker?.block(blocked);
  }

  /** Shows what is going on beside what was chosen, if that is open. */
  say(text: string): void {
    this.#picker?.say(text);
  }

  /** Shows why what was chosen cannot be loaded, if that is open. */
  failed(message: string): void {
    this.#picker?.failed(message);
  }

  /** Shows what is kept as it is after a load, if the list is open. */
  loaded(): void {
    void this.#picker?.refresh();
  }

  /** Opens the list of what is kept: there is no room for more. */
  async showKept(): Promise<void> {
    for (let at: Element | null = this.#view.models; at; at = at.parentElement) if (at instanceof HTMLDetailsElement) at.open = true;
    const picker = await this.#open();
    await picker.refresh();
  }

  #open(): Promise<Picker> {
    this.#opening ??= import("./picker.ts").then(({ Picker }) => {
      this.#picker = new Picker(this.#view.models, this.#options());
      this.#picker.block(this.#blocked);
      return this.#picker;
    });
    return this.#opening;
  }
}
