/** The widget's elements and how they are put together; no behaviour. */
import type { TokenKind } from "../protocol.ts";
import { el } from "./dom.ts";
import { Panel } from "./panel.ts";
import { NUMBER_FIELDS, SettingsForm } from "./settings.ts";

/** Beginnings the built-in pair, which has learned Go, continues well. */
export const EXAMPLES: readonly { label: string; prompt: string }[] = [
  { label: "Table test", prompt: "func TestString(t *testing.T) {\n\tfor _, tt := range tests {\n" },
  { label: "Close", prompt: "// Close closes the file.\nfunc (f *File) Close() error {\n" },
  { label: "Server", prompt: "func (s *Server) Serve(l net.Listener) error {\n\tdefer l.Close()\n\tfor {\n" },
  { label: "Benchmark", prompt: "func BenchmarkEncode(b *testing.B) {\n" },
  { label: "Maximum", prompt: "func max(a, b int) int {\n\tif a" },
];

const KINDS: readonly { kind: TokenKind; label: string }[] = [
  { kind: "accepted", label: "accepted" },
  { kind: "corrected", label: "corrected" },
  { kind: "bonus", label: "bonus" },
  { kind: "plain", label: "plain" },
];

export class View {
  readonly settings = new SettingsForm();
  readonly panel = new Panel();
  readonly prompt = el("textarea", { id: "prompt", rows: 5, spellcheck: "false", autocomplete: "off", autocapitalize: "off" });
  readonly generate = button("generate", "Generate", "primary");
  readonly stop = button("stop", "Stop");
  readonly compare = button("compare", "Compare");
  readonly load = button("load", "Load models");
  readonly builtin = button("builtin", "Use the built-in pair", "quiet");
  readonly output = el("div", { class: "output", id: "output", role: "region", "aria-label": "Generated text", tabindex: 0 });
  readonly status = el("span", { id: "status", role: "status" }, "Nothing is loaded yet.");
  readonly deviceLine = el("span", { id: "device-line" }, "\u00a0");
  readonly modelLine = el("span", { id: "model-line" }, "\u00a0");
  readonly features = el("span", { id: "features" }, "\u00a0");
  readonly progress = el("progress", { id: "progress", max: 1, value: 0, "aria-label": "Loading" });
  readonly notice = el("div", { class: "notice", id: "notice", role: "status", hidden: true });
  readonly error = el("div", { class: "error", id: "error", role: "alert", hidden: true });
  readonly counts = new Map(KINDS.map(({ kind }) => [kind, el("b", { id: `count-${kind}` }, "0")]));
  readonly examples = EXAMPLES.map((example) => button("", example.label, "chip"));
  readonly root: HTMLElement;

  constructor() {
    this.stop.disabled = true;
    this.prompt.value = EXAMPLES[0]!.prompt;
    this.root = el(
      "div",
      { class: "foretoken" },
      el(
        "header",
        { class: "bar" },
        el("div", { class: "state" }, el("i", { class: "lamp", "aria-hidden": "true" }), this.status),
        el("div", { class: "facts" }, this.deviceLine, this.modelLine, this.features),
        this.progress,
      ),
      this.notice,
      this.error,
      el("div", { class: "columns" }, this.#work(), this.panel.element),
    );
  }

  #work(): HTMLElement {
    return el(
      "section",
      { class: "work", "aria-label": "Generation" },
      el("div", { class: "field prompt-field" }, el("label", { for: "prompt" }, "Prompt"), this.prompt),
      el("div", { class: "chips", role: "group", "aria-label": "Example prompts" }, ...this.examples),
      el(
        "div",
        { class: "actions" },
        this.generate,
        this.stop,
        this.compare,
        el("label", { class: "switch", for: "speculation" }, this.settings.speculation, el("span", {}, "Speculation")),
      ),
      el(
        "div",
        { class: "card text" },
        this.output,
        el(
          "p",
          { class: "legend", "aria-label": "What the marks mean, and how many tokens of each kind" },
          ...KINDS.map(({ kind, label }) => el("span", {}, el("span", { class: `token ${kind}` }, label), this.counts.get(kind)!)),
        ),
      ),
      this.#settings(),
    );
  }

  #settings(): HTMLElement {
    const { settings } = this;
    const numbers = NUMBER_FIELDS.map((field) => labelled(field.key, field.label, settings.numbers.get(field.key)!));
    return el(
      "details",
      { class: "card settings", open: true },
      el("summary", {}, "Settings"),
      el("div", { class: "grid" }, labelled("policy", "Draft policy", settings.policy), ...numbers.slice(0, 3)),
      el("div", { class: "grid" }, ...numbers.slice(3), labelled("device", "Device", settings.device)),
      el(
        "div",
        { class: "files" },
        labelled("target-file", "Target model (GGUF)", settings.target),
        labelled("draft-file", "Draft model (GGUF, optional)", settings.draft),
        el("div", { class: "file-actions" }, this.load, this.builtin),
      ),
    );
  }
}

function labelled(id: string, label: string, input: HTMLElement): HTMLElement {
  return el("div", { class: "field" }, el("label", { for: id }, label), input);
}

function button(id: string, label: string, look = ""): HTMLButtonElement {
  return el("button", { type: "button", ...(id ? { id } : {}), ...(look ? { class: look } : {}) }, label);
}
