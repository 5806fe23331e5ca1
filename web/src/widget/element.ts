/**
 * `<foretoken-widget>`: a prompt, the streamed text and its statistics, as one tag.
 *
 * ```html
 * <script type="module" src="foretoken.js"></script>
 * <foretoken-widget prompt="// Sum adds numbers." max-tokens="48"></foretoken-widget>
 * ```
 *
 * Models: `target` and `draft` (addresses of GGUF files, or names on a hub such as `owner/repo/file.gguf`; default the
 * built-in pair; a target alone decodes without a draft), `hub` (default https://huggingface.co), `calibrations`
 * (addresses of JSON files of `foretoken calibrate` and `foretoken train`, separated by spaces), `eagle3` and
 * `eagle3-config` (the safetensors file of an EAGLE-3 head and its config.json, or `builtin`), `cache` (auto, first,
 * check or off; see {@link Keep}), `device` (a {@link DeviceChoice}). With `confirm`,
 * files of other hosts than the page's wait for a click that shows the host: for pages whose address, or another
 * stranger, sets these attributes. Without it the attributes count as the page's own.
 *
 * Method and sampling: `policy` (a name of {@link METHODS}; `none` is plain decoding) and the settings that the page's
 * form has, as {@link RequestSettings} describes them, with dashes in place of underscores; `shape` takes JSON. The
 * verifiers `mars` and `adasd` are LOSSY, and the widget shows it; `rejection` and `without-replacement` are exact in
 * distribution; all others give the tokens of plain decoding.
 *
 * Others: `prompt`, `theme` (light, dark, or page for the page's color-scheme; default the system's), `mode` (complete
 * or chat; default chat if a target other than the built-in one has a chat template), `autoload`, `full`. Without
 * `autoload`, nothing loads until the first click, {@link ForetokenWidget.load} or {@link ForetokenWidget.generate};
 * until then the element is a prompt and a button of a few kilobytes. It shows the prompt, the text and the gain in a
 * space that it reserves from the start; with `full` also the settings and all statistics.
 *
 * Events, bubbling: `foretoken-ready` ({@link EngineInfo}), `foretoken-start` (the request), `foretoken-round`
 * ({@link RoundEvent}), `foretoken-done` ({@link Result}), `foretoken-compared` ({@link Comparison}), `foretoken-error`
 * ({@link ForetokenError}).
 * Colours and fonts: the custom properties at the top of styles/theme.css.
 */
import type { Engine } from "../engine/engine.ts";
import type {
  BenchMatrix,
  BenchReport,
  BenchUpdate,
  CostReport,
  DoctorReport,
  GenerateRequest,
  ProfileReport,
  Result,
} from "../protocol/protocol.ts";
import controlsStyle from "../styles/controls.css";
import facadeStyle from "../styles/facade.css";
import themeStyle from "../styles/theme.css";
import type { WidgetApp, WidgetState } from "./app.ts";
import { ATTRIBUTES } from "./attributes.ts";
import type { CompareHooks, Comparison } from "./compare.ts";
import { el, setText, sheet } from "./dom.ts";
import { FIRST_PROMPT, initialPrompt } from "./initial-prompt.ts";

export type { WidgetState } from "./app.ts";

/** Workers have no elements, but can import this module for its API. */
const Base = globalThis.HTMLElement ?? (class {} as unknown as typeof HTMLElement);

/** The custom element: a prompt and a button, and after the first use the app, which loads on demand. */
export class ForetokenWidget extends Base {
  static readonly observedAttributes = ATTRIBUTES;

  /** The app's code, if loaded; otherwise the first use of a widget loads it. */
  static app: typeof WidgetApp | undefined;

  readonly #root = this.attachShadow({ mode: "open" });
  readonly #prompt = el("textarea", {
    id: "prompt",
    part: "prompt",
    rows: 3,
    spellcheck: "false",
    autocomplete: "off",
    autocapitalize: "off",
    dir: "auto",
  });
  readonly #button = el(
    "button",
    { type: "button", id: "generate", class: "primary", part: "button generate" },
    "Generate",
  );
  readonly #error = el("div", { class: "error", id: "error", part: "error", role: "alert" });
  #app: WidgetApp | undefined;
  #opening: Promise<WidgetApp> | undefined;

  constructor() {
    super();
    this.#prompt.value = FIRST_PROMPT;
    this.#root.adoptedStyleSheets = [themeStyle, controlsStyle, facadeStyle].map(sheet);
    this.#root.append(
      el(
        "div",
        { class: "foretoken facade", part: "facade", lang: "en" },
        el("div", { class: "field" }, el("label", { for: "prompt", part: "label" }, "Prompt"), this.#prompt),
        el(
          "div",
          { class: "actions" },
          this.#button,
          el(
            "small",
            { part: "note" },
            "The first click downloads the model, which runs in this browser; the prompt is not sent anywhere.",
          ),
        ),
        this.#error,
        el("div", { class: "awaits", "aria-hidden": "true" }, "The text appears here."),
      ),
    );
    // The widget shows errors.
    const start = (): void => void this.#use((app) => app.start(this.#prompt.value)).catch(() => undefined);
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
    // Moving the element disconnects it and connects it again at once.
    queueMicrotask(() => {
      if (!this.isConnected) void this.dispose();
    });
  }

  attributeChangedCallback(name: string, _old: string | null, value: string | null): void {
    if (this.#app) this.#app.attribute(name, value);
    else if (name === "prompt" || (name === "target" && this.#prompt.value === FIRST_PROMPT))
      this.#prompt.value = initialPrompt(this);
  }

  /** The current state of the widget. */
  get state(): WidgetState {
    return this.#app?.state ?? (this.dataset["state"] as WidgetState | undefined) ?? "idle";
  }

  /** The loaded engine, or undefined. */
  get engine(): Engine | undefined {
    return this.#app?.engine;
  }

  /** The request of the prompt and the settings, with speculation on. The widget must be {@link open}. */
  get request(): GenerateRequest {
    if (!this.#app) throw new Error("foretoken-widget: request: the widget is not open; await open() first");
    return this.#app.request;
  }

  /** Shows prompt, text, settings and statistics, without loading models. */
  open(): Promise<WidgetApp> {
    if (this.#app) return Promise.resolve(this.#app);
    if (ForetokenWidget.app) return Promise.resolve(this.#mount(ForetokenWidget.app));
    this.#button.disabled = true;
    this.dataset["state"] = "loading";
    setText(this.#error, "");
    this.#opening ??= import("./app.ts").then(
      (module) => this.#app ?? this.#mount((ForetokenWidget.app = module.WidgetApp)),
      (cause: unknown) => {
        const error = new Error(
          `foretoken-widget: cannot load its code: ${cause instanceof Error ? cause.message : String(cause)}; ` +
            "try again, or reload the page",
        );
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

  /** Runs `work` on the app: synchronously if the widget is open, so that callers see the new state at once. */
  #use<T>(work: (app: WidgetApp) => Promise<T>): Promise<T> {
    if (!this.#app && ForetokenWidget.app) this.#mount(ForetokenWidget.app);
    if (this.#app) return work(this.#app);
    const was = this.isConnected;
    return this.open().then((app) => {
      if (was && !this.isConnected)
        throw new Error("foretoken-widget: removed from the page while its code was loading");
      return work(app);
    });
  }

  /** Loads or reloads the models. Rejects with a `ForetokenError`, which the widget shows. */
  load(): Promise<Engine> {
    return this.#use((app) => app.load());
  }

  /** Loads the models if necessary, then continues the prompt with the current settings. */
  generate(): Promise<Result> {
    return this.#use((app) => app.generate());
  }

  /** Loads the models if necessary, then compares plain and speculative decoding; undefined if stopped. */
  compare(hooks?: CompareHooks): Promise<Comparison | undefined> {
    return this.#use((app) => app.compare(hooks));
  }

  /**
   * Loads the models if necessary, then benchmarks methods against plain decoding. If stopped, the report is partial.
   */
  bench(matrix: BenchMatrix, onUpdate?: (update: BenchUpdate) => void): Promise<BenchReport> {
    return this.#use((app) => app.bench(matrix, onUpdate));
  }

  /** Loads the models if necessary, then profiles passes and rounds and measures the costs of passes. */
  profile(onUpdate?: (update: BenchUpdate) => void): Promise<{ profile: ProfileReport; costs: CostReport }> {
    return this.#use((app) =>
      app.measured(async (engine, prompt) => {
        const costs = await engine.costs({ prompts: [{ id: "prompt", prompt }] }, { onUpdate });
        return { profile: await engine.profile({ prompt }, { onUpdate }), costs };
      }, "Profile done"),
    );
  }

  /** Loads the models if necessary, then checks and measures the device. */
  doctor(onUpdate?: (update: BenchUpdate) => void): Promise<DoctorReport> {
    return this.#use((app) => app.measured((engine) => engine.doctor({}, { onUpdate }), "Device checked"));
  }

  /** Returns the rounds of the last generation with their trees, once it has ended, for `readTrace`. */
  trace(): Promise<Uint8Array> {
    return this.#use((app) => app.trace());
  }

  /** Ends a running benchmark, generation or comparison within a round, or a load at once. */
  stop(): void {
    this.#app?.stop();
  }

  /** Releases the models; the next click reloads them. */
  async dispose(): Promise<void> {
    await this.#app?.dispose();
  }
}

if (globalThis.customElements && !customElements.get("foretoken-widget"))
  customElements.define("foretoken-widget", ForetokenWidget);

declare global {
  interface HTMLElementTagNameMap {
    "foretoken-widget": ForetokenWidget;
  }
}
