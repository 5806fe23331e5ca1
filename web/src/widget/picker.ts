/**
 * Selects models: from the catalog, names or addresses, or local files. Also lists the downloaded models. Loaded
 * when its section of the settings opens, because most visits do not need it.
 */
import { isBuiltIn, type KnownFile, type KnownModel, MODELS, nameOf } from "../engine/known-models.ts";
import type { LoadOptions } from "../engine/engine.ts";
import { roomHere } from "../engine/fit.ts";
import { COMING, downloadOf, filesOf, loadOf, memoryOf, type Offer, OFFERS } from "../engine/offers.ts";
import { hostOf } from "../sources/hosts.ts";
import { HUB, parseName, resolve } from "../sources/hub.ts";
import type { Keep } from "../protocol/protocol.ts";
import style from "../styles/models.css";
import { el, setText, sheet } from "./dom.ts";
import { KeptList } from "./kept-list.ts";
import * as format from "./format.ts";
import { drafted, fitting, hostName, licences, memory, size, unchecked } from "./offer-text.ts";

const WAYS = { catalog: "Catalog", name: "Name or address", files: "Your files" } as const;
type Way = keyof typeof WAYS;

/** A model may be a split GGUF file, or safetensors with configuration files. */
const MODEL_FILES = ".gguf,.safetensors,.json,.jinja";

/** A form field with a label, a hint and an error. */
class Field {
  readonly input: HTMLInputElement;
  readonly element: HTMLElement;
  readonly #error: HTMLElement;

  constructor(id: string, label: string, hint: string, attributes: Record<string, string | boolean>) {
    this.input = el("input", { id, ...attributes, "aria-describedby": `${id}-hint ${id}-error` });
    this.#error = el("p", { class: "field-error", id: `${id}-error` });
    this.element = el(
      "div",
      { class: "field" },
      el("label", { for: id }, label),
      this.input,
      el("small", { id: `${id}-hint` }, hint),
      this.#error,
    );
    for (const event of ["input", "change"]) this.input.addEventListener(event, () => this.refuse(""));
  }

  refuse(reason: string): void {
    setText(this.#error, reason);
    if (reason) this.input.setAttribute("aria-invalid", "true");
    else this.input.removeAttribute("aria-invalid");
  }

  get text(): string {
    return this.input.value.trim();
  }

  get files(): File[] {
    return [...(this.input.files ?? [])];
  }
}

const named = (id: string, label: string, hint: string, placeholder: string): Field =>
  new Field(id, label, hint, {
    type: "text",
    placeholder,
    spellcheck: "false",
    autocapitalize: "off",
    autocomplete: "off",
  });
const picked = (id: string, label: string, hint: string, accept = MODEL_FILES): Field =>
  new Field(id, label, hint, { type: "file", accept, multiple: true });

/** The models to load, with their calibrations and head. */
export type Models = Pick<
  LoadOptions,
  "target" | "draft" | "calibrations" | "eagle3" | "eagle3_config" | "cache"
>;

export interface PickerOptions {
  /**
   * Loads the selected models. `shown`: the button or its line shows their hosts, so that no further question is
   * needed. `place` gets the progress of the download.
   */
  load(models: Models, shown?: boolean, place?: Element): void;
  /** The initial target and draft. */
  target?: string | null | undefined;
  draft?: string | null | undefined;
  /** The hub that resolves names; default Hugging Face. */
  hub?: string | undefined;
}

export class Picker {
  readonly #options: PickerOptions;
  readonly #tabs = new Map<Way, { tab: HTMLButtonElement; panel: HTMLElement }>();
  #way: Way = "catalog";
  readonly #pairs = el(
    "fieldset",
    { class: "pairs", id: "pairs" },
    el("legend", { class: "visually-hidden" }, "Models that are known to work"),
  );
  /** The most GiB of memory that an offer in the list takes. */
  readonly #limit = el(
    "select",
    { id: "memory-limit" },
    el("option", { value: "" }, "any"),
    ...[1, 2, 4, 8].map((gib) => el("option", { value: String(gib) }, `up to ${gib} GB`)),
  );
  readonly #targetName = named(
    "target-name",
    "Target",
    "owner/repo/file.gguf or owner/repo@revision/file.gguf on Hugging Face, or a GGUF or safetensors file's address.",
    "owner/repo/file.gguf or https://…",
  );
  readonly #draftName = named(
    "draft-name",
    "Draft (optional)",
    "A smaller model with the same vocabulary. Without one, only methods that draft from the text are available.",
    "none",
  );
  readonly #targetFile = picked(
    "target-file",
    "Target",
    "A GGUF file, all parts of a split one, or all files of a safetensors checkpoint.",
  );
  readonly #draftFile = picked("draft-file", "Draft (optional)", "A smaller model with the same vocabulary.");
  readonly #calibrations = picked(
    "calibration-files",
    "Calibrations",
    "JSON made by foretoken calibrate or train, for hetero, c2t and acceptance.",
    ".json",
  );
  readonly #eagle3 = picked(
    "eagle3-files",
    "EAGLE-3 head",
    "Its .safetensors file and its config.json.",
    ".safetensors,.json",
  );
  readonly #extras = el(
    "details",
    { class: "extras", id: "model-extras" },
    el("summary", {}, "Calibrations, and an EAGLE-3 head"),
    el("div", { class: "fields" }, this.#calibrations.element, this.#eagle3.element),
  );
  readonly #keep = el("input", { type: "checkbox", id: "keep", checked: true });
  readonly #keeping = el(
    "label",
    { class: "flag", for: "keep", title: "The next visit then needs no download" },
    this.#keep,
    "Keep downloads in this browser",
  );
  readonly #load = el("button", { type: "button", id: "load", class: "primary", part: "button" }, "Load");
  /** What a click on the button does: from where, how much, and the room for it. */
  readonly #facts = el("p", { class: "load-facts", id: "load-facts" });
  readonly #place = el("div", {});
  readonly #status = el("p", { class: "models-said", id: "models-said" });
  readonly #kept = new KeptList();

  constructor(host: HTMLElement, options: PickerOptions) {
    this.#options = options;
    (host.getRootNode() as ShadowRoot).adoptedStyleSheets.push(sheet(style));
    const panels: Record<Way, HTMLElement[]> = {
      catalog: [this.#pairs],
      name: [el("div", { class: "fields" }, this.#targetName.element, this.#draftName.element)],
      files: [
        el(
          "p",
          { class: "drop" },
          el("b", {}, "Drop files anywhere here"),
          " and they load at once: the larger model is the target, the other the draft. Or choose them. " +
            "They are read from your disk; nothing is copied or sent.",
        ),
        el("div", { class: "fields" }, this.#targetFile.element, this.#draftFile.element),
      ],
    };
    for (const [way, label] of Object.entries(WAYS) as [Way, string][]) {
      const tab = el(
        "button",
        { type: "button", role: "tab", id: `models-${way}`, "aria-controls": `models-${way}-panel` },
        label,
      );
      const panel = el(
        "div",
        { role: "tabpanel", id: `models-${way}-panel`, "aria-labelledby": `models-${way}`, class: "way" },
        ...panels[way],
      );
      tab.addEventListener("click", () => this.#show(way));
      tab.addEventListener("keydown", (event) => this.#key(event, way));
      this.#tabs.set(way, { tab, panel });
    }
    const ways = [...this.#tabs.values()];
    host.append(
      el(
        "div",
        { role: "tablist", class: "ways", "aria-label": "Where the models come from" },
        ...ways.map(({ tab }) => tab),
      ),
      ...ways.map(({ panel }) => panel),
      this.#extras,
      el("div", { class: "file-actions" }, this.#load, this.#keeping),
      this.#facts,
      this.#place,
      this.#status,
      this.#kept.element,
    );
    this.#listPairs();
    this.#pairs.addEventListener("change", () => this.#follow());
    this.#load.addEventListener("click", () => this.#take());
    this.#keep.addEventListener("change", () => this.#follow());
    for (const field of this.#named) {
      field.input.addEventListener("keydown", (event) => event.key === "Enter" && this.#take());
      field.input.addEventListener("input", () => this.#follow());
    }
    if (options.target) {
      this.#targetName.input.value = options.target;
      this.#draftName.input.value = options.draft ?? "";
    }
    this.#show(options.target ? "name" : "catalog");
    void this.refresh();
  }

  /** Disables or enables the button that loads. */
  block(blocked: boolean): void {
    this.#load.disabled = blocked;
  }

  /** Shows the progress next to the button; screen readers read the widget's status line instead. */
  showStatus(text: string): void {
    setText(this.#status, text);
    this.#status.classList.remove("field-error");
  }

  /** Shows an error at the field whose file the message names. */
  failed(message: string): void {
    const names = (field: Field): string[] => {
      if (field.files.length > 0) return field.files.map((file) => file.name);
      const { text } = field;
      try {
        return text
          ? [
              text,
              parseName(text)?.repo ?? text,
              decodeURIComponent(resolve(text, document.baseURI, this.#options.hub).url.replace(/^.*\/|\?.*$/g, "")),
            ]
          : [];
      } catch {
        return [text];
      }
    };
    // The message names the faulty file first.
    const place = (field: Field): number =>
      Math.min(
        ...names(field)
          .map((name) => ` ${message}`.indexOf(` ${name}`))
          .filter((at) => at >= 0),
        Infinity,
      );
    const fields =
      this.#way === "name" ? this.#named : this.#way === "files" ? [this.#targetFile, this.#draftFile] : [];
    const field = fields.filter((one) => place(one) < Infinity).sort((a, b) => place(a) - place(b))[0];
    this.showStatus(field ? "" : message);
    if (field) field.refuse(message);
    else this.#status.classList.add("field-error");
  }

  /** Updates the list of stored models and the marks of the catalog. */
  async refresh(): Promise<void> {
    await this.#kept.refresh();
    this.#follow();
    const kept = new Set(this.#kept.files.filter((file) => file.done).map((file) => file.url));
    const has = (file: KnownFile): boolean => kept.has(resolve(nameOf(file), document.baseURI, this.#options.hub).url);
    for (const offer of OFFERS) {
      const note = this.#pairs.querySelector(`[data-pair="${offer.id}"] .known-kept`);
      if (note) setText(note, filesOf(offer).every(has) ? " · downloaded" : "");
    }
  }

  /** Moves to the list of stored models. */
  showKept(): void {
    this.#kept.element.scrollIntoView({ block: "nearest" });
    this.#kept.element.focus();
  }

  get #named(): Field[] {
    return [this.#targetName, this.#draftName];
  }

  #show(way: Way): void {
    this.#way = way;
    for (const [name, { tab, panel }] of this.#tabs) {
      tab.setAttribute("aria-selected", String(name === way));
      tab.tabIndex = name === way ? 0 : -1;
      panel.hidden = name !== way;
    }
    this.showStatus("");
    this.#follow();
  }

  #key(event: KeyboardEvent, way: Way): void {
    const all = [...this.#tabs.keys()];
    const forward = getComputedStyle(event.currentTarget as Element).direction === "rtl" ? "ArrowLeft" : "ArrowRight";
    const step = event.key === forward ? 1 : event.key === "ArrowLeft" || event.key === "ArrowRight" ? -1 : 0;
    const next =
      event.key === "Home"
        ? all[0]!
        : event.key === "End"
          ? all.at(-1)!
          : step
            ? all[(all.indexOf(way) + step + all.length) % all.length]!
            : undefined;
    if (!next) return;
    event.preventDefault();
    this.#show(next);
    this.#tabs.get(next)!.tab.focus();
  }

  /** Shows the fields that apply to the selection. */
  #follow(): void {
    const builtin = this.#way === "catalog" && isBuiltIn(this.#offer.model);
    this.#extras.hidden = builtin;
    this.#keeping.hidden = builtin || this.#way === "files";
    const download = this.#way === "catalog" && !builtin;
    setText(this.#load, download ? `Load ${size(this.#offer)}` : "Load");
    setText(this.#facts, download ? this.#aboutOffer() : this.#way === "name" ? this.#aboutNames() : "");
  }

  #aboutOffer(): string {
    const { bytes } = downloadOf(this.#offer);
    const { free } = this.#kept;
    const keeps = this.#keep.checked ? "the files stay in this browser" : "each visit downloads the files again";
    const room = !this.#keep.checked || free === undefined ? "" : ` There is room for ${format.bytes(free)}.`;
    const short = this.#keep.checked && free !== undefined && bytes > free ? " Delete stored models first." : "";
    const takes = `${unchecked(this.#offer)} Loading takes ${memory(this.#offer)}.`.trimStart();
    return `Downloads from ${hostName(this.#options.hub ?? HUB)}; ${keeps}.${room}${short} ${takes}`;
  }

  /** Says which hosts a click asks for the names in the fields. */
  #aboutNames(): string {
    const hosts = this.#named.map(({ text }) => {
      try {
        return text && hostName(hostOf(resolve(text, document.baseURI, this.#options.hub).url));
      } catch {
        return ""; // the click says why
      }
    });
    const all = [...new Set(hosts.filter(Boolean))].join(" and ");
    if (!all) return "";
    const names = this.#named.every(({ text }) => !text || parseName(text));
    const typed = names ? "the hub of the name you typed" : "the host of the address you typed";
    const keeps = this.#keep.checked ? "; what has arrived stays in this browser" : "";
    return `Asks ${all}, ${typed}. The size is shown once the download begins${keeps}.`;
  }

  get #offer(): Offer {
    const { value } = this.#pairs.querySelector<HTMLInputElement>("input:checked")!;
    return OFFERS.find(({ id }) => id === value)!;
  }

  #listPairs(): void {
    const from = ` · from ${hostName(this.#options.hub ?? HUB)}`;
    this.#pairs.append(el("label", { class: "known-limit" }, "Memory: ", this.#limit));
    for (const offer of OFFERS) {
      const { id, model, head } = offer;
      const builtin = isBuiltIn(model);
      const title = `${builtin ? "Built-in: " : ""}${model.title}${head ? ", with its EAGLE-3 head" : ""}`;
      const kept = builtin ? [] : [from, el("span", { class: "known-kept" })];
      this.#pairs.append(
        el(
          "div",
          { class: "known", "data-pair": id },
          el(
            "label",
            {},
            el("input", {
              type: "radio",
              name: "pair",
              value: id,
              checked: model === MODELS[0] && !head,
              "aria-describedby": `pair-${id}`,
            }),
            el("b", {}, title),
            el("span", { class: "known-size" }, builtin ? "no download" : size(offer)),
          ),
          el(
            "div",
            { class: "known-facts", id: `pair-${id}` },
            el("p", {}, memory(offer), el("span", { class: "known-fit" }), " · ", ...licences(offer), ...kept),
            el("p", { class: "known-about" }, `${filesOf(offer).map(oneOf).join("; ")}. ${drafted(offer)}`),
          ),
        ),
      );
    }
    const coming = COMING.map(({ title, needs }) => `${title} (${needs})`).join(", ");
    if (coming) this.#pairs.append(el("p", { class: "known-coming" }, `Coming, with what they need: ${coming}.`));
    this.#limit.addEventListener("change", () => this.#filter());
    void roomHere().then((room) => {
      for (const offer of OFFERS) {
        const said = fitting(offer, room);
        const place = this.#pairs.querySelector(`[data-pair="${offer.id}"] .known-fit`);
        if (said && place) setText(place, ` · ${said}`);
      }
    });
  }

  /** Hides the offers that take more memory than asked for; the selection moves to the first that is left. */
  #filter(): void {
    const most = Number(this.#limit.value) * 2 ** 30 || Infinity;
    for (const offer of OFFERS) {
      const { gpu, cpu } = memoryOf(offer);
      this.#pairs.querySelector<HTMLElement>(`[data-pair="${offer.id}"]`)!.hidden = Math.max(gpu, cpu) > most;
    }
    const shown = [...this.#pairs.querySelectorAll<HTMLInputElement>(".known:not([hidden]) input")];
    if (!shown.some((input) => input.checked)) shown[0]!.checked = true;
    this.#follow();
  }

  /** Loads the selection, or shows at a field what is missing. */
  #take(): void {
    this.showStatus("");
    for (const field of [...this.#named, this.#targetFile, this.#draftFile]) field.refuse("");
    const cache: Keep = this.#keep.checked ? "auto" : "off";
    const models = { catalog: () => this.#known(cache), name: () => this.#byName(cache), files: () => this.#byFile() }[
      this.#way
    ]();
    const remote = this.#way === "name" || (this.#way === "catalog" && !isBuiltIn(this.#offer.model));
    if (models) this.#options.load(models, remote, remote ? this.#place : undefined);
  }

  #known(cache: Keep): Models {
    const offer = this.#offer;
    return isBuiltIn(offer.model) ? loadOf(offer) : { ...this.#companions(), ...loadOf(offer), cache };
  }

  #byName(cache: Keep): Models | undefined {
    let good = true;
    for (const field of this.#named) {
      try {
        if (field.text) resolve(field.text, document.baseURI, this.#options.hub);
        else if (field === this.#targetName)
          throw new Error("Name a model first: owner/repo/file.gguf, or an address.");
      } catch (cause) {
        field.refuse((cause as Error).message);
        if (good) field.input.focus();
        good = false;
      }
    }
    return good
      ? { target: this.#targetName.text, draft: this.#draftName.text || null, ...this.#companions(), cache }
      : undefined;
  }

  #byFile(): Models | undefined {
    const { files } = this.#targetFile;
    if (files.length > 0)
      return {
        target: files,
        draft: this.#draftFile.files.length > 0 ? this.#draftFile.files : null,
        ...this.#companions(),
      };
    this.#targetFile.refuse("Choose a model file first.");
    this.#targetFile.input.focus();
    return undefined;
  }

  #companions(): Models {
    const head = this.#eagle3.files;
    return {
      calibrations: this.#calibrations.files,
      eagle3: head.find((file) => file.name.endsWith(".safetensors")) ?? null,
      eagle3_config: head.find((file) => file.name.endsWith(".json")) ?? null,
    };
  }
}

function oneOf(of: KnownFile): string {
  const { title = "EAGLE-3 head", quant } = of as Partial<KnownModel>;
  return [title, quant, of.bytes ? format.bytes(of.bytes) : ""].filter(Boolean).join(", ");
}
