/**
 * Shows a download where its button is: how much has arrived, the time left and the space it takes. A click pauses it;
 * what has arrived stays in the browser, and another click goes on, also after the page was reloaded.
 */
import { MODELS } from "../engine/known-models.ts";
import type { Progress } from "../protocol/protocol.ts";
import { hostOf } from "../sources/hosts.ts";
import { brief } from "../sources/hub.ts";
import { deleteKept, type KeptModel, keptModels, space } from "../sources/kept-models.ts";
import style from "../styles/download.css";
import { el, setText, sheet } from "./dom.ts";
import * as format from "./format.ts";
import { hostName } from "./offer-text.ts";
import type { Models } from "./picker.ts";
import { addressed, forget, recalled, remember, type Unfinished } from "./unfinished.ts";

export interface DownloadActions {
  /** Ends the load. */
  stop(): void;
  /** Loads the models of the card, whose hosts it shows. */
  load(models: Unfinished): void;
}

/** The addresses of models without checksums. */
const addresses = (models: Unfinished): string[] => Object.values(models).map((of) => of.replace(/#.*$/, ""));

/** Names models, by the catalog's titles if it has them, and their hosts. */
function named(models: Unfinished): string {
  const urls = addresses(models);
  const title = (url: string): string => {
    const { pathname } = new URL(url);
    const known = MODELS.find((model) => pathname.startsWith(`/${model.repository}/`) && pathname.endsWith(model.file));
    return known?.title ?? brief(pathname.replace(/^.*\//, ""));
  };
  const files = urls.map(title);
  const hosts = new Set(urls.map((url) => hostName(hostOf(url))));
  return `${files.join(" and ")} from ${[...hosts].join(" and ")}`;
}

export class DownloadCard {
  readonly #bar = el("progress", { max: 1, "aria-label": "Download" });
  readonly #title = el("b", {});
  readonly #text = el("p", { class: "download-text" });
  readonly #space = el("small", { class: "download-space" });
  readonly #pause = el("button", { type: "button", id: "download-pause" }, "Pause");
  readonly #resume = el("button", { type: "button", id: "download-resume", class: "primary" }, "Resume");
  readonly #discard = el("button", { type: "button", id: "download-discard" }, "Delete what has arrived");
  readonly element = el(
    "section",
    { class: "download", id: "download", "aria-label": "Download", "aria-live": "off" },
    this.#title,
    this.#bar,
    this.#text,
    this.#space,
    el("div", { class: "download-actions" }, this.#pause, this.#resume, this.#discard),
  );
  /** The models of the load, or of the download that can go on. */
  #models: Unfinished | undefined;
  /** Whether a load of these models goes on. */
  #running = false;
  /** Whether files are missing: the device is prepared meanwhile. */
  #downloads = false;
  #total = 0;

  constructor(root: ShadowRoot, actions: DownloadActions) {
    root.adoptedStyleSheets.push(sheet(style));
    this.#pause.addEventListener("click", () => actions.stop());
    this.#resume.addEventListener("click", () => this.#models && actions.load(this.#models));
    this.#discard.addEventListener("click", () => void this.#delete());
    this.#hide();
  }

  /** Shows that a load of models began; its download may follow. Local files have none. */
  begin(given: Models, hub: string | undefined): void {
    const models = addressed(given, hub);
    if (!models) return this.#hide();
    this.#open(models);
    this.#running = true;
    this.#show(given.cache === "off" ? "loading" : "running", "Asking for the files"); // without a store nothing stays
  }

  #open(models: Unfinished): void {
    this.#models = models;
    this.#total = 0;
    this.#downloads = false;
    setText(this.#title, named(models));
    setText(this.#space, "");
    this.#bar.removeAttribute("value");
  }

  /** Shows a step of the load; `line` says it in words. */
  progress({ stage, done, total }: Progress, line: string): void {
    if (!this.#running) return;
    if (stage === "download") this.#downloads = done < total || total === 0;
    else if (this.#downloads) return;
    if (this.#downloads && this.#total !== total) {
      this.#total = total;
      remember(this.#models!);
      void this.#showSpace();
    }
    this.#show(this.#downloads ? "running" : "loading", line);
    if (total > 0) this.#bar.value = done / total;
    else this.#bar.removeAttribute("value");
  }

  /** Shows that the load ended before its download did, and how it can go on. */
  async paused(why = "Paused"): Promise<void> {
    if (!this.#running) return;
    this.#running = false;
    const focused = (this.element.getRootNode() as ShadowRoot).activeElement === this.#pause;
    await this.#showParts(why);
    if (focused) this.#resume.focus({ preventScroll: true });
  }

  /** Offers to go on with the download of an earlier visit, if there is one. */
  async recall(): Promise<void> {
    const models = recalled();
    if (!models || this.#running) return;
    this.#open(models);
    await this.#showParts("Not complete");
  }

  /** Hides the card: the models are loaded. */
  done(): void {
    if (!this.#running) return;
    forget();
    this.#hide();
  }

  #hide(): void {
    this.element.hidden = true;
    this.#models = undefined;
    this.#running = false;
  }

  /** Shows what of the models has arrived; hides the card if no download began. */
  async #showParts(why: string): Promise<void> {
    const parts = await this.#parts();
    const have = parts.reduce((sum, part) => sum + part.have, 0);
    const known = parts.reduce((sum, part) => sum + part.size, 0);
    const size = Math.max(this.#total, known);
    if (size === 0) {
      forget();
      return this.#hide();
    }
    this.#bar.value = have / size;
    const kept = have > 0 ? "have arrived and stay in this browser" : "have arrived";
    this.#show("paused", `${why}: ${format.bytes(have)} of ${format.bytes(size)} ${kept}`);
    this.#discard.hidden = have === 0;
  }

  #show(state: "running" | "loading" | "paused", text: string): void {
    setText(this.#text, text);
    this.#pause.hidden = state !== "running";
    this.#resume.hidden = this.#discard.hidden = state !== "paused";
    // A view around the card may have disabled its buttons during a load.
    for (const button of [this.#pause, this.#resume, this.#discard]) button.disabled = false;
    this.element.hidden = false;
  }

  /** The stored files of the models. */
  async #parts(): Promise<KeptModel[]> {
    const urls = this.#models ? addresses(this.#models) : [];
    const all = (await keptModels().catch(() => undefined)) ?? [];
    return all.filter(({ url }) => urls.includes(url));
  }

  async #showSpace(): Promise<void> {
    const room = await space();
    const free = room?.quota ? room.quota - room.used : undefined;
    const takes = `Takes ${format.bytes(this.#total)} of this browser's storage`;
    setText(this.#space, free === undefined ? takes : `${takes}; ${format.bytes(Math.max(0, free))} are free`);
  }

  async #delete(): Promise<void> {
    for (const { key } of await this.#parts()) await deleteKept(key);
    forget();
    this.#hide();
  }
}
