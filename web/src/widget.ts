/**
 * `<foretoken-widget>`: a prompt, the streamed text and its statistics, as one tag.
 *
 * ```html
 * <script type="module" src="foretoken.js"></script>
 * <foretoken-widget prompt="func main() {" max-tokens="48"></foretoken-widget>
 * ```
 *
 * Models: `target`, `draft` (GGUF URLs; the built-in pair without them; a target
 * alone decodes without a draft), `calibrations` (URLs of JSON files made by
 * `foretoken calibrate` and `foretoken train`, separated by spaces), `eagle3` and
 * `eagle3-config` (an EAGLE-3 head's safetensors file and its config.json, or `builtin`),
 * `device` (auto, webgpu, cpu). A model may be a name on a hub (`owner/repo/file.gguf`; `hub`
 * is where names lead, https://huggingface.co unless told). Downloads are kept in the browser
 * as `cache` says: auto, first, check or off (Keep).
 *
 * Method: `policy` (a name of METHODS; `none` is plain decoding) and
 * what overrides the method's own: `adapt`, `source`, `verifier`, `depth`,
 * `top-k`, `nodes`, `shape` (JSON), `ngram-max`, `ngram-min`, `coupled`
 * ("false" turns it off). Settings that single methods have: `threshold`
 * (assisted, adaedl, c2t, acceptance), `lambda` (adaedl), `schedule` (assisted),
 * `any` (acceptance), `one-pruning` (c2t), `alpha`, `no-extension`,
 * `no-pruning`, `no-adaptation` (hetero), `theta`, `gap`, `mode` (MARS),
 * `variant`, `carry` (AdaSD). The verifiers `mars` and `adasd` are LOSSY, and the
 * widget says so; `rejection` and `without-replacement` are exact in
 * distribution; everything else gives plain decoding's tokens.
 *
 * Sampling: `temperature`, `seed`, `max-tokens`, `top-k-sampling`, `top-p`, `min-p`.
 *
 * Others: `prompt`, `theme` (light, dark, page: the page's own color-scheme; the system's unless told), `mode` (complete or chat, where the target has a chat template; chat unless
 * told), `autoload`, `compact`. Nothing is loaded until
 * the first click, {@link ForetokenWidget.load} or {@link ForetokenWidget.generate}, unless `autoload` is there: until then
 * this element is a prompt and a button of a few kilobytes.
 *
 * Events, bubbling: `foretoken-ready` ({@link EngineInfo}), `foretoken-start` (the request that is run), `foretoken-round`
 * ({@link RoundEvent}), `foretoken-done` ({@link Result}), `foretoken-compared`
 * ({@link Comparison}), `foretoken-error` ({@link ForetokenError}).
 * Colours and fonts: the custom properties at the top of styles/theme.css.
 */
import type { Engine } from "./engine.ts";
import type { BenchPlan, BenchReport, BenchUpdate, CostReport, GenerateRequest, ProfileReport, Result } from "./protocol.ts";
import controlsStyle from "./styles/controls.css";
import facadeStyle from "./styles/facade.css";
import themeStyle from "./styles/theme.css";
import type { WidgetApp } from "./widget/app.ts";
import { ATTRIBUTES } from "./widget/attributes.ts";
import type { CompareHooks, Comparison } from "./widget/compare.ts";
import { el, setText, sheet } from "./widget/dom.ts";
import { beginning, EXAMPLES } from "./widget/examples.ts";

export type WidgetState = "idle" | "loading" | "ready" | "waiting" | "generating" | "comparing" | "benchmarking" | "failed";

/** In a worker there are no elements; the module loads there all the same, for its API. */
const Base = globalThis.HTMLElement ?? (class {} as unknown as typeof HTMLElement);

/** A prompt and a button until it is used, and then the app, which is loaded for it. */
export class ForetokenWidget extends Base {
  static readonly observedAttributes = ATTRIBUTES;

  /** The app's code where a page has it already; else it is loaded when a widget is first used. */
  static app: typeof WidgetApp | undefined;

  readonly #root = this.attachShadow({ mode: "open" });
  readonly #prompt = el("textarea", { id: "prompt", part: "prompt", rows: 3, spellcheck: "false", autocomplete: "off", autocapitalize: "off", dir: "auto" });
  readonly #button = el("button", { type: "button", id: "generate", class: "primary", part: "button generate" }, "Generate");
  readonly #error = el("div", { class: "error", id: "error", part: "error", role: "alert" });
  #app: WidgetApp | undefined;
  #opening: Promise<WidgetApp> | undefined;

  constructor() {
    super();
    this.#prompt.value = EXAMPLES[0]!.prompt;
    this.#root.adoptedStyleSheets = [themeStyle, controlsStyle, facadeStyle].map(sheet);
    this.#root.append(
      el(
        "div",
        { class: "foretoken facade", part: "facade", lang: "en" },
        el("div", { class: "field" }, el("label", { for: "prompt", part: "label" }, "Prompt"), this.#prompt),
        el("div", { class: "actions" }, this.#button, el("small", { part: "note" }, "The first click downloads the model, which runs in this browser; the prompt is not sent anywhere.")),
        this.#error,
      ),
    );
    const start = (): void => void this.#use((app) => app.start(this.#prompt.value)).catch(() => undefined); // it is shown
    this.#button.addEventListener("click", start);
    this.#prompt.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || this.#app) return;
      event.preventDefault();
      start();
    });
  }

  connectedCallback(): void {
    if (this.#app) return this.#app.connected();
    this.dataset["state"] ??= "idle";
    if (this.hasAttribute("autoload")) void this.load().catch(() => undefined);
  }

  disconnectedCallback(): void {
    this.#app?.disconnected();
    // A widget that is only being moved is connected again at once.
    queueMicrotask(() => {
      if (!this.isConnected) void this.dispose();
    });
  }

  attributeChangedCallback(name: string, _old: string | null, value: string | null): void {
    if (this.#app) this.#app.attribute(name, value);
    else if (name === "prompt" || (name === "target" && this.#prompt.value === EXAMPLES[0]!.prompt)) this.#prompt.value = beginning(this);
  }

  /** What the widget is doing. */
  get state(): WidgetState {
    return this.#app?.state ?? (this.dataset["state"] as WidgetState | undefined) ?? "idle";
  }

  /** The loaded engine, once there is one. */
  get engine(): Engine | undefined {
    return this.#app?.engine;
  }

  /** The request that the prompt and the settings amount to, speculation on; of a widget that is {@link open}. */
  get request(): GenerateRequest {
    if (!this.#app) throw new Error("foretoken-widget: request: nothing was opened yet; await open() first");
    return this.#app.request;
  }

  /** Shows prompt, text, settings and statistics, without loading models. */
  open(): Promise<WidgetApp> {
    if (this.#app) return Promise.resolve(this.#app);
    if (ForetokenWidget.app) return Promise.resolve(this.#mount(ForetokenWidget.app));
    this.#button.disabled = true;
    this.dataset["state"] = "loading";
    setText(this.#error, "");
    this.#opening ??= import("./widget/app.ts").then(
      (module) => this.#app ?? this.#mount((ForetokenWidget.app = module.WidgetApp)),
      (cause: unknown) => {
        const error = new Error(`foretoken-widget: its code could not be loaded: ${cause instanceof Error ? cause.message : String(cause)}; try again, or reload the page`);
        this.#opening = undefined;
        this.#button.disabled = false;
        this.dataset["state"] = "failed";
        setText(this.#error, error.message);
        this.dispatchEvent(new CustomEvent("foretoken-error", { detail: error, bubbles: true, composed: true }));
        throw error;
      },
    );
    return this.#opening;
  }

  #mount(App: typeof WidgetApp): WidgetApp {
    const prompt = this.#prompt.value;
    const app = (this.#app = new App(this, this.#root));
    app.prompt = prompt;
    return app;
  }

  /** At once where it is open; so callers see the state that they asked for. */
  #use<T>(work: (app: WidgetApp) => Promise<T>): Promise<T> {
    if (!this.#app && ForetokenWidget.app) this.#mount(ForetokenWidget.app);
    if (this.#app) return work(this.#app);
    const was = this.isConnected;
    return this.open().then((app) => {
      if (was && !this.isConnected) throw new Error("foretoken-widget: it was removed from the page while its code was on the way");
      return work(app);
    });
  }

  /** Loads the models, anew if some are loaded. Rejects with a `ForetokenError`, which the widget shows. */
  load(): Promise<Engine> {
    return this.#use((app) => app.load());
  }

  /** Loads if need be, then continues the prompt with the settings shown. */
  generate(): Promise<Result> {
    return this.#use((app) => app.generate());
  }

  /** Loads if need be, then measures plain against speculative decoding; undefined when stopped. */
  compare(hooks?: CompareHooks): Promise<Comparison | undefined> {
    return this.#use((app) => app.compare(hooks));
  }

  /** Loads if need be, then measures methods against plain decoding; what there is when it was stopped. */
  bench(plan: BenchPlan, onUpdate?: (update: BenchUpdate) => void): Promise<BenchReport> {
    return this.#use((app) => app.bench(plan, onUpdate));
  }

  /** Loads if need be, then tells where the time of passes and rounds goes, and what passes cost. */
  profile(onUpdate?: (update: BenchUpdate) => void): Promise<{ profile: ProfileReport; costs: CostReport }> {
    return this.#use((app) => app.profile(onUpdate));
  }

  /** Ends the running benchmark, or the running generation or comparison within a round, or a load at once. */
  stop(): void {
    this.#app?.stop();
  }

  /** Frees the models; the next click loads them again. */
  async dispose(): Promise<void> {
    await this.#app?.dispose();
  }
}

if (globalThis.customElements && !customElements.get("foretoken-widget")) customElements.define("foretoken-widget", ForetokenWidget);

declare global {
  interface HTMLElementTagNameMap {
    "foretoken-widget": ForetokenWidget;
  }
}
