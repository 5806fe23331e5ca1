/** Selects the models to load: in the picker, whose code loads when it opens, or by dropping files on the widget. */
import type { ForetokenError } from "../protocol/errors.ts";
import type { Progress } from "../protocol/protocol.ts";
import { sheet } from "./dom.ts";
import type { DownloadCard } from "./download.ts";
import { forVisitors } from "./format.ts";
import type { Models, Picker, PickerOptions } from "./picker.ts";
import { isUnfinished } from "./unfinished.ts";
import type { View } from "./view.ts";

/** What the widget does with a choice. */
export interface ChoiceOptions extends PickerOptions {
  /** Ends the load. */
  stop(): void;
}

export class ModelChoice {
  readonly #view: View;
  readonly #given: () => ChoiceOptions;

  #picker: Picker | undefined;
  #opening: Promise<Picker> | undefined;
  #inviting: Promise<HTMLElement> | undefined;
  /** The code of offers, once loaded: from then on they come before the next frame. */
  #offering: typeof import("./offer.ts") | undefined;
  #blocked = false;
  /** The models of the present load, the hub of their names, and where its button is. */
  #load: { models: Models; hub: string | undefined; place: Element | undefined } | undefined;
  #place: Element | undefined;
  #card: Promise<DownloadCard> | undefined;

  /** Calls `options` when the picker opens, and `refuse` with the reason if dropped files cannot be loaded. */
  constructor(view: View, options: () => ChoiceOptions, refuse: (message: string) => void) {
    this.#view = view;
    this.#given = options;
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
          this.#options().load({ target, draft: draft.length > 0 ? draft : null, calibrations });
        })
        .catch((cause: unknown) => refuse((cause as Error).message));
    });
  }

  /** Returns the offers of models that can chat; `builtin`: they say why the built-in pair does not. */
  async offers(builtin: boolean): Promise<HTMLElement> {
    const code = this.#offering ?? (await import("./offer.ts"));
    if (!this.#offering) (this.#view.root.getRootNode() as ShadowRoot).adoptedStyleSheets.push(sheet(code.offerStyle));
    this.#offering = code;
    return code.chatOffers(this.#options(), builtin, () => void this.showKept().then((picker) => picker.showKept()));
  }

  /** Shows these offers in place of text and figures, while `wanted`. */
  async invite(wanted: () => boolean): Promise<void> {
    const { root } = this.#view;
    this.#inviting ??= wanted() ? this.offers(false) : undefined;
    root.toggleAttribute("data-invite", wanted());
    const offers = await this.#inviting?.catch(() => undefined);
    if (!offers || !wanted()) {
      offers?.remove();
      this.#inviting = undefined; // the next visit to the tab tries again
    } else if (!offers.isConnected) root.querySelector(".work")!.prepend(offers);
  }

  /** Disables or enables loading. */
  block(blocked: boolean): void {
    this.#blocked = blocked;
    this.#picker?.block(blocked);
  }

  /** The options with the place of the button that loads. */
  #options(): PickerOptions {
    const options = this.#given();
    return {
      ...options,
      load: (models, shown, place) => {
        this.#place = place;
        options.load(models, shown);
      },
    };
  }

  /** Says that a load begins. Its download is shown where its button is, or above the text. */
  begin(models: Models, hub: string | undefined): void {
    this.#load = { models, hub, place: this.#place };
    this.#place = undefined;
    if (this.#load.place) this.#show();
  }

  #show(): void {
    const { models, hub, place } = this.#load!;
    this.#load = undefined;
    void this.#download().then((card) => {
      if (place && place !== card.element.parentElement) place.append(card.element);
      else if (!place) this.#view.error.after(card.element);
      card.begin(models, hub);
    });
  }

  #download(): Promise<DownloadCard> {
    return (this.#card ??= import("./download.ts").then(({ DownloadCard }) => {
      const root = this.#view.root.getRootNode() as ShadowRoot;
      const card: DownloadCard = new DownloadCard(root, {
        load: (models) => this.#options().load(models, true, card.element.parentElement!),
        stop: () => this.#given().stop(),
      });
      return card;
    }));
  }

  /** Offers to go on with the download of an earlier visit, if there is one. */
  recall(): void {
    if (!isUnfinished()) return;
    void this.#download().then((card) => {
      this.#view.error.after(card.element);
      void card.recall();
    });
  }

  /** Shows a step of the load; `line` says it in words. */
  progress(progress: Progress, line: string): void {
    this.#picker?.showStatus(line);
    // The progress bar shows a load that no button began; the card offers to go on with what is kept of it.
    const kept = this.#load && this.#load.models.cache !== "off";
    if (kept && progress.stage === "download" && progress.done < progress.total) this.#show();
    void this.#card?.then((card) => card.progress(progress, line));
  }

  /** Says that the load was stopped. */
  stopped(): void {
    this.#picker?.showStatus("");
    void this.#card?.then((card) => card.paused());
  }

  /** Shows that work failed; `load`: it was the load. A full disk opens the list of stored models. */
  failed(error: ForetokenError, load: boolean): void {
    if (load) {
      this.#picker?.failed(forVisitors(error));
      void this.#card?.then((card) => card.paused("Interrupted"));
    }
    if (error.code === "quota") void this.showKept();
    else this.#refresh();
  }

  /** Says that the models are loaded; `line` says it in words. */
  loaded(line: string): void {
    this.#load = undefined;
    this.#picker?.showStatus(line);
    void this.#card?.then((card) => card.done());
    this.#refresh();
  }

  /** Updates the list of stored models, if open. */
  #refresh(): void {
    void this.#picker?.refresh();
  }

  /** Opens the list of stored models. */
  async showKept(): Promise<Picker> {
    for (let at: Element | null = this.#view.models; at; at = at.parentElement)
      if (at instanceof HTMLDetailsElement) at.open = true;
    const picker = await this.#open();
    await picker.refresh();
    return picker;
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
