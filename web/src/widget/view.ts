/** The widget's elements and their layout, without behaviour. */
import type { EngineInfo, TokenKind } from "../protocol/protocol.ts";
import { el, setText } from "./dom.ts";
import type { Field } from "./fields.ts";
import * as format from "./format.ts";
import { FIRST_PROMPT } from "./initial-prompt.ts";
import { Panel } from "./panel.ts";
import type { Offer } from "./prompts.ts";
import { SettingsForm } from "./settings.ts";
import { DESCRIPTION } from "./stream.ts";

const KINDS: readonly { kind: TokenKind; label: string }[] = [
  { kind: "accepted", label: "guessed right" },
  { kind: "relaxed", label: "guess kept, lossy" },
  { kind: "corrected", label: "guess corrected" },
  { kind: "bonus", label: "extra token" },
  { kind: "plain", label: "no guess" },
];

export class View {
  readonly settings = new SettingsForm();
  readonly panel = new Panel();
  readonly prompt = el("textarea", {
    id: "prompt",
    rows: 3,
    spellcheck: "false",
    autocomplete: "off",
    autocapitalize: "off",
  });
  readonly generate = button("generate", "Generate", "primary big");
  readonly stop = button("stop", "Stop");
  readonly compare = button("compare", "Compare");
  readonly output = el("div", {
    class: "output",
    id: "output",
    role: "region",
    "aria-label": "Generated text",
    tabindex: 0,
  });
  readonly status = el("span", { id: "status", role: "status" }, "Nothing is loaded yet.");
  /** Where the models run, in a few words; the line below it has the details. */
  readonly runsOn = el("span", { id: "runs-on" }, "\u00a0");
  readonly deviceLine = el("span", { id: "device-line" }, "\u00a0");
  readonly modelLine = el("span", { id: "model-line" }, "\u00a0");
  readonly progress = el("progress", { id: "progress", max: 1, value: 0, "aria-label": "Loading" });
  readonly notice = el("div", { class: "notice", id: "notice", role: "status", tabindex: 0, hidden: true });
  readonly error = el("div", { class: "error", id: "error", role: "alert", tabindex: 0, hidden: true });
  readonly lossy = el(
    "p",
    { class: "lossy-note", id: "lossy", role: "note", tabindex: 0, hidden: true },
    el("span", { class: "badge lossy" }, "lossy"),
    "This text may differ from plain decoding's: the method accepts tokens that the target did not choose " +
      "(marked as kept, lossy).",
  );
  /** What the last run gained, in a sentence. */
  readonly gain = el("p", { class: "gain", id: "gain" }, "\u00a0");
  readonly counts = new Map(KINDS.map(({ kind }) => [kind, el("b", { id: `count-${kind}` }, "0")]));
  /** The section of the settings for models; the picker fills it when it opens. */
  readonly models = el("details", { class: "more", id: "own-models" }, el("summary", {}, "Models"));
  readonly #chips = el("div", { class: "chips", role: "group", "aria-label": "Example prompts" });
  readonly root: HTMLElement;

  constructor() {
    this.stop.disabled = true;
    this.prompt.value = FIRST_PROMPT;
    this.root = el(
      "div",
      { class: "foretoken" },
      el(
        "header",
        { class: "bar" },
        el("div", { class: "state" }, el("i", { class: "lamp", "aria-hidden": "true" }), this.status),
        el("div", { class: "facts" }, this.runsOn, this.deviceLine, this.modelLine),
        this.progress,
      ),
      this.notice,
      this.error,
      el("div", { class: "columns" }, this.#work(), this.panel.element, this.#settings()),
    );
  }

  /** Offers prompts; a click puts one into the prompt's field. */
  offer({ examples, chosen }: Offer): void {
    const chips = examples.map(({ title, prompt }) => {
      const chip = button("", title, "chip");
      chip.addEventListener("click", () => {
        this.prompt.value = prompt;
        this.prompt.focus();
      });
      return chip;
    });
    this.#chips.replaceChildren(...chips);
    if (chosen)
      this.#chips.append(
        el("details", { class: "chosen" }, el("summary", {}, "How these were chosen"), el("p", {}, chosen)),
      );
  }

  /** Shows where the loaded models run and which they are. */
  showFacts({ device, target, draft, eagle3 }: EngineInfo): void {
    setText(this.runsOn, format.runsOn(device));
    setText(this.deviceLine, format.device(device));
    setText(
      this.modelLine,
      `Target ${format.model(target)}${draft ? `; draft ${format.model(draft)}` : "; no draft"}` +
        (eagle3 ? "; EAGLE-3 head" : ""),
    );
    for (const line of [this.runsOn, this.deviceLine, this.modelLine]) line.title = line.textContent;
    if (device.note) this.runsOn.title = device.note;
    this.panel.showFeatures(device.features);
  }

  #work(): HTMLElement {
    return el(
      "section",
      { class: "work", "aria-label": "Generation" },
      el("div", { class: "field prompt-field" }, el("label", { for: "prompt" }, "Prompt"), this.prompt),
      this.#chips,
      el(
        "div",
        { class: "actions" },
        this.generate,
        this.stop,
        this.compare,
        this.settings.badge,
        el("label", { class: "switch", for: "speculation" }, this.settings.speculation, el("span", {}, "Speculation")),
      ),
      el(
        "div",
        { class: "card text" },
        this.output,
        this.gain,
        this.lossy,
        el(
          "p",
          { class: "legend", "aria-label": "Meaning of the marks, and number of tokens of each kind" },
          ...KINDS.map(({ kind, label }) =>
            el(
              "span",
              { class: `kind-${kind}` },
              el("span", { class: `token ${kind}`, title: DESCRIPTION[kind] }, label),
              this.counts.get(kind)!,
            ),
          ),
        ),
      ),
    );
  }

  #settings(): HTMLElement {
    const { settings } = this;
    const group = (...names: Field["group"][]): HTMLElement[] =>
      [...settings.fields].filter(([field]) => names.includes(field.group)).map(([, { box }]) => box);
    return el(
      "details",
      { class: "card settings" },
      el("summary", {}, "Settings"),
      settings.presets,
      el(
        "div",
        { class: "grid" },
        labelled("policy", "Method", settings.policy, "wide"),
        settings.about,
        ...group("method"),
      ),
      el("div", { class: "grid" }, ...group("sampling"), labelled("device", "Device", settings.device)),
      el(
        "details",
        { class: "more" },
        el("summary", {}, "Combine and sample"),
        el("div", { class: "grid" }, ...group("parts", "filters")),
      ),
      el("div", { class: "actions" }, settings.reset),
      this.models,
    );
  }
}

function labelled(id: string, label: string, input: HTMLElement, className = ""): HTMLElement {
  return el("div", { class: `field ${className}`.trimEnd() }, el("label", { for: id }, label), input);
}

function button(id: string, label: string, className = ""): HTMLButtonElement {
  return el("button", { type: "button", ...(id ? { id } : {}), ...(className ? { class: className } : {}) }, label);
}

/** The elements that pages can style with `::part()`. */
export const partsOf = (view: View): Record<string, Iterable<Element>> => ({
  widget: [view.root],
  bar: [view.root.querySelector(".bar")!],
  status: [view.status],
  gain: [view.gain],
  prompt: [view.prompt],
  button: [view.generate, view.stop, view.compare],
  generate: [view.generate],
  stop: [view.stop],
  compare: [view.compare],
  output: [view.output],
  legend: view.root.querySelectorAll(".legend"),
  settings: view.root.querySelectorAll(".settings"),
  panel: [view.panel.element],
  card: view.root.querySelectorAll(".card"),
  notice: [view.notice],
  error: [view.error],
});
