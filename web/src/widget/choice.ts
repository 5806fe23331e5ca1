/** Selects the models to load: in the picker, whose code loads when it opens, or by dropping files on the widget. */
import { sheet } from "./dom.ts";
import type { Picker, PickerOptions } from "./picker.ts";
import type { View } from "./view.ts";

export class ModelChoice {
  readonly #view: View;
  readonly #options: () => PickerOptions;

  #picker: Picker | undefined;
  #opening: Promise<Picker> | undefined;
  #inviting: Promise<void> | undefined;
  #blocked = false;

  /** Calls `options` when the picker opens, and `refuse` with the reason if dropped files cannot be loaded. */
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

  /** Offers models that can chat, in place of text and figures, while `wanted`. */
  async invite(wanted: () => boolean): Promise<void> {
    const { root } = this.#view;
    this.#inviting ??= wanted()
      ? import("./invitation.ts").then(({ invitation, invitationStyle }) => {
          (root.getRootNode() as ShadowRoot).adoptedStyleSheets.push(sheet(invitationStyle));
          root.querySelector(".work")!.prepend(invitation(this.#options()));
        })
      : undefined;
    root.toggleAttribute("data-invite", wanted());
    // The next visit to the tab tries again.
    await this.#inviting?.catch(() => (this.#inviting = undefined));
  }

  /** Disables or enables loading. */
  block(blocked: boolean): void {
    this.#blocked = blocked;
    this.#picker?.block(blocked);
  }

  /** Shows the progress in the picker, if open. */
  showStatus(text: string): void {
    this.#picker?.showStatus(text);
  }

  /** Shows an error in the picker, if open. */
  failed(message: string): void {
    this.#picker?.failed(message);
  }

  /** Updates the list of stored models after a load, if open. */
  loaded(): void {
    void this.#picker?.refresh();
  }

  /** Opens the list of stored models, because the disk is full. */
  async showKept(): Promise<void> {
    for (let at: Element | null = this.#view.models; at; at = at.parentElement)
      if (at instanceof HTMLDetailsElement) at.open = true;
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
