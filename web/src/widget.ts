/**
 * `<foretoken-widget>`: a prompt, the streamed text and its statistics, as one tag.
 *
 * ```html
 * <script type="module" src="foretoken.js"></script>
 * <foretoken-widget prompt="func main() {" max-tokens="48"></foretoken-widget>
 * ```
 *
 * Attributes: `target`, `draft` (GGUF URLs; the built-in pair without them; a
 * target alone decodes without a draft), `device` (auto, webgpu, cpu), `policy`
 * (none, chain, eagle2, ngram), `depth`, `top-k`, `nodes`, `temperature`,
 * `seed`, `max-tokens`, `prompt`, `autoload`, `compact`. Nothing is loaded until
 * the first click or {@link ForetokenWidget.load}, unless `autoload` is there.
 * Events, bubbling: `foretoken-ready` ({@link EngineInfo}), `foretoken-round`
 * ({@link RoundEvent}), `foretoken-done` ({@link Result}), `foretoken-compared`
 * ({@link Comparison}), `foretoken-error` ({@link EngineError}).
 * Colours and fonts: the custom properties at the top of styles/widget.css.
 */
import uplotStyle from "uplot/dist/uPlot.min.css";
import { BUILTIN_PAIR } from "./builtin.ts";
import { Engine, EngineError, type Generation, type ModelSource } from "./engine.ts";
import type { EngineInfo, EventTree, GenerateRequest, Progress, Result, RoundEvent } from "./protocol.ts";
import panelStyle from "./styles/panel.css";
import style from "./styles/widget.css";
import { compare, type Comparison } from "./widget/compare.ts";
import { setText } from "./widget/dom.ts";
import * as format from "./widget/format.ts";
import { attributeOf, NUMBER_FIELDS } from "./widget/settings.ts";
import { TokenStream } from "./widget/stream.ts";
import { Tally } from "./widget/tally.ts";
import { EXAMPLES, View } from "./widget/view.ts";

export type WidgetState = "idle" | "loading" | "ready" | "generating" | "comparing" | "failed";

/** Panels are redrawn at most this often while text streams, in ms: they must not slow what they measure. */
const REFRESH = 120;

export class ForetokenWidget extends HTMLElement {
  static readonly observedAttributes = ["target", "draft", "device", "policy", "prompt", ...NUMBER_FIELDS.map(attributeOf)];

  readonly #view = new View();
  readonly #stream = new TokenStream(this.#view.output);
  readonly #rate = new format.Rate();
  #state: WidgetState = "idle";
  #engine: Engine | undefined;
  #loading: Promise<Engine> | undefined;
  #cancelLoad: AbortController | undefined;
  #run: Generation | undefined;
  #files: { target: ModelSource; draft: ModelSource | null } | undefined;
  #connected: AbortController | undefined;
  #tally = new Tally();
  #lastTree: EventTree | undefined;
  #refreshAt = 0;
  #refreshPending = false;

  constructor() {
    super();
    const root = this.attachShadow({ mode: "open" });
    root.adoptedStyleSheets = [uplotStyle, style, panelStyle].map(sheet);
    root.append(this.#view.root);
    const view = this.#view;
    view.generate.addEventListener("click", () => void this.generate().catch(ignore));
    view.compare.addEventListener("click", () => void this.compare().catch(ignore));
    view.stop.addEventListener("click", () => this.stop());
    view.load.addEventListener("click", () => this.#loadFiles());
    view.builtin.addEventListener("click", () => this.#loadBuiltin());
    view.settings.device.addEventListener("change", () => {
      if (this.#state !== "idle") void this.load().catch(ignore);
    });
    view.examples.forEach((chip, i) =>
      chip.addEventListener("click", () => {
        view.prompt.value = EXAMPLES[i]!.prompt;
        view.prompt.focus();
      }),
    );
    root.addEventListener("keydown", (event) => this.#key(event as KeyboardEvent));
    view.panel.drawTree(undefined);
    this.#stream.invite("The text appears here, every token marked by where it came from.");
    this.#enter("idle");
  }

  connectedCallback(): void {
    this.dataset["state"] = this.#state;
    this.#connected = new AbortController();
    this.#view.panel.chart.connect(this.#connected.signal);
    // Details are closed where they would push the text off a small screen.
    if (this.clientWidth > 0 && this.clientWidth < 560) this.#view.root.querySelector("details")!.open = false;
    if (this.hasAttribute("autoload") && this.#state === "idle") void this.load().catch(ignore);
  }

  disconnectedCallback(): void {
    this.#connected?.abort();
    // A widget that is only being moved is connected again at once.
    queueMicrotask(() => {
      if (!this.isConnected) void this.dispose();
    });
  }

  attributeChangedCallback(name: string, _old: string | null, value: string | null): void {
    if (name === "prompt") this.#view.prompt.value = value ?? EXAMPLES[0]!.prompt;
    else if (name === "target" || name === "draft") this.#files = this.#loading = undefined;
    else this.#view.settings.set(name, value);
  }

  /** What the widget is doing. */
  get state(): WidgetState {
    return this.#state;
  }

  /** The loaded engine, once there is one. */
  get engine(): Engine | undefined {
    return this.#engine;
  }

  /** Loads the models, anew if some are loaded. Rejects with an {@link EngineError}, which the widget shows. */
  load(): Promise<Engine> {
    const cancelled = this.#cancelLoad;
    const previous = this.#engine;
    this.#engine = undefined;
    const cancel = (this.#cancelLoad = new AbortController());
    cancelled?.abort();
    this.#run?.stop();
    this.#showError(undefined);
    this.#view.notice.hidden = true;
    this.#enter("loading", "Starting the engine");
    const loading = (async () => {
      await previous?.dispose();
      const { target, draft } = this.#sources();
      return Engine.load({
        target,
        draft,
        device: this.#view.settings.device.value as "auto" | "webgpu" | "cpu",
        signal: cancel.signal,
        onProgress: (progress) => this.#cancelLoad === cancel && this.#showProgress(progress),
      });
    })();
    this.#loading = loading;
    loading.then(
      (engine) => {
        // A later load has taken over while this one was under way.
        if (this.#cancelLoad !== cancel) void engine.dispose();
        else this.#loaded(engine);
      },
      (cause: unknown) => {
        if (this.#cancelLoad !== cancel) return;
        this.#loading = undefined;
        this.#fail(cause);
      },
    );
    return loading;
  }

  /** Loads if need be, then continues the prompt with the settings shown. */
  async generate(): Promise<Result> {
    const engine = await this.#ready();
    const request = this.#view.settings.request(this.#view.prompt.value);
    this.#enter("generating", "Generating");
    try {
      this.#begin(request);
      const run = (this.#run = engine.generate(request));
      for await (const round of run) this.#round(round);
      const result = await run.result;
      this.#finish(result);
      this.#enter("ready", summary(result));
      this.#dispatch("foretoken-done", result);
      return result;
    } catch (cause) {
      this.#fail(cause);
      throw cause;
    } finally {
      this.#run = undefined;
    }
  }

  /** Loads if need be, then measures plain against speculative decoding; undefined when stopped. */
  async compare(): Promise<Comparison | undefined> {
    const engine = await this.#ready();
    const { panel, settings, prompt } = this.#view;
    const request: GenerateRequest = { ...settings.request(prompt.value), policy: settings.speculative };
    this.#enter("comparing", "Comparing");
    try {
      const parts = { "warm-up": "warming up", plain: "decoding plainly", speculative: "decoding speculatively" };
      const outcome = await compare(engine, request, {
        onPart: (part, of) => {
          if (part !== "warm-up") this.#begin(of);
          setText(this.#view.status, `Comparing: ${parts[part]}`);
          panel.showComparison(`Measuring: ${parts[part]} …`);
        },
        onRound: (round) => this.#round(round),
        onRun: (run) => (this.#run = run),
      });
      if (outcome) this.#finish(outcome.speculative);
      else this.#flush();
      panel.showComparison(outcome ?? "Stopped before both were measured.");
      this.#enter("ready", outcome ? "Compared" : "Stopped");
      if (outcome) this.#dispatch("foretoken-compared", outcome);
      return outcome;
    } catch (cause) {
      panel.showComparison("The comparison failed.");
      this.#fail(cause);
      throw cause;
    } finally {
      this.#run = undefined;
    }
  }

  /** Ends the running generation or comparison within a round, or a load at once. */
  stop(): void {
    if (this.#state === "loading") this.#cancelLoad?.abort();
    this.#run?.stop();
  }

  /** Frees the models; the next click loads them again. */
  async dispose(): Promise<void> {
    const engine = this.#engine;
    this.#engine = undefined;
    this.#loading = undefined;
    this.#cancelLoad?.abort();
    this.#cancelLoad = undefined;
    this.#enter("idle", "Nothing is loaded.");
    await engine?.dispose();
  }

  async #ready(): Promise<Engine> {
    const free = (): void => {
      if (this.#state === "generating" || this.#state === "comparing") throw new EngineError("busy", "the widget is generating already; stop it first");
    };
    free();
    this.#showError(undefined);
    const engine = await (this.#loading ?? this.load());
    free(); // another call may have waited for the same load
    return engine;
  }

  #sources(): { target: ModelSource; draft: ModelSource | null } {
    if (this.#files) return this.#files;
    const target = this.getAttribute("target");
    const draft = this.getAttribute("draft");
    if (!target && !draft) return BUILTIN_PAIR;
    if (!target) throw new EngineError("load", "target: attribute: a draft needs a target, and none is given");
    return { target, draft };
  }

  #loadFiles(): void {
    const { target, draft } = this.#view.settings;
    const file = target.files?.[0];
    if (!file) {
      this.#showError("target: file: choose a target model (.gguf) first");
      target.focus();
      return;
    }
    this.#files = { target: file, draft: draft.files?.[0] ?? null };
    void this.load().catch(ignore);
  }

  #loadBuiltin(): void {
    const { target, draft } = this.#view.settings;
    target.value = draft.value = "";
    this.#files = BUILTIN_PAIR;
    void this.load().catch(ignore);
  }

  #loaded(engine: Engine): void {
    this.#engine = engine;
    engine.onCrash((error) => {
      if (this.#engine !== engine) return;
      this.#engine = undefined;
      this.#loading = undefined;
      this.#fail(error);
    });
    const { info } = engine;
    const view = this.#view;
    view.settings.allowDraft(info.draft !== null);
    setText(view.deviceLine, format.device(info.device));
    setText(view.modelLine, `Target ${format.model(info.target)}${info.draft ? `; draft ${format.model(info.draft)}` : "; no draft"}`);
    setText(view.features, info.device.features.length > 0 ? `Features in use: ${info.device.features.join(", ")}` : "No optional GPU features in use");
    for (const line of [view.deviceLine, view.modelLine, view.features]) line.title = line.textContent;
    const fallback = info.device.backend === "cpu" && view.settings.device.value !== "cpu";
    view.notice.hidden = !fallback;
    if (fallback) {
      setText(
        view.notice,
        `WebGPU is not available here, so the models run on the CPU: the same method, more slowly. For the GPU, open this page in a current Chrome or Edge with hardware acceleration on.${info.device.note ? ` The reason given: ${info.device.note}.` : ""}`,
      );
    }
    this.#enter("ready", `Ready, loaded in ${format.milliseconds(info.load_ms)}`);
    this.#dispatch("foretoken-ready", info satisfies EngineInfo);
  }

  #showProgress(progress: Progress): void {
    if (this.#state !== "loading") return;
    const rate = this.#rate.add(progress.stage, progress.done, performance.now());
    setText(this.#view.status, format.progress(progress, rate));
    const bar = this.#view.progress;
    if (progress.total > 0) bar.value = progress.done / progress.total;
    else bar.removeAttribute("value");
  }

  #begin(request: GenerateRequest): void {
    this.#tally = new Tally();
    this.#lastTree = undefined;
    this.#stream.start(request.prompt);
    this.#refresh();
  }

  #round(round: RoundEvent): void {
    this.#tally.add(round);
    if (round.tree.depths.some((depth) => depth > 0)) this.#lastTree = round.tree;
    this.#stream.push(round);
    this.#dispatch("foretoken-round", round);
    if (this.#refreshPending) return;
    this.#refreshPending = true;
    const wait = Math.max(0, this.#refreshAt + REFRESH - performance.now());
    setTimeout(() => requestAnimationFrame(() => this.#refreshPending && this.#refresh()), wait);
  }

  #finish(result: Result): void {
    this.#tally.finish(result.stats);
    this.#flush();
  }

  #flush(): void {
    this.#stream.flush();
    this.#refresh();
  }

  #refresh(): void {
    this.#refreshPending = false;
    this.#refreshAt = performance.now();
    this.#view.panel.update(this.#tally);
    for (const [kind, element] of this.#view.counts) setText(element, String(this.#tally.kinds[kind]));
    this.#view.panel.drawTree(this.#lastTree);
  }

  #enter(state: WidgetState, status?: string): void {
    this.#state = state;
    // A constructor may not set attributes on its own element.
    if (this.isConnected) this.dataset["state"] = state;
    const view = this.#view;
    view.root.dataset["state"] = state;
    if (status !== undefined) setText(view.status, status);
    const running = state === "generating" || state === "comparing";
    // Hidden by visibility, so the line below does not move.
    view.progress.style.visibility = state === "loading" ? "visible" : "hidden";
    if (state === "loading") view.progress.removeAttribute("value");
    view.generate.disabled = view.compare.disabled = running || state === "loading";
    view.stop.disabled = !running && state !== "loading";
    view.load.disabled = view.builtin.disabled = view.settings.device.disabled = running;
  }

  #fail(cause: unknown): void {
    const error = cause instanceof EngineError ? cause : new EngineError("generate", cause instanceof Error ? cause.message : String(cause));
    this.#flush();
    if (error.code === "aborted" || error.code === "disposed") {
      this.#enter(this.#engine ? "ready" : "idle", "Stopped");
      return;
    }
    this.#showError(error.message);
    this.#enter(this.#engine ? "ready" : "failed", this.#engine ? "Ready" : "Not loaded");
    this.#dispatch("foretoken-error", error);
  }

  #showError(message: string | undefined): void {
    this.#view.error.hidden = message === undefined;
    setText(this.#view.error, message ?? "");
  }

  #key(event: KeyboardEvent): void {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && event.target === this.#view.prompt) {
      event.preventDefault();
      if (!this.#view.generate.disabled) void this.generate().catch(ignore);
    } else if (event.key === "Escape" && !this.#view.stop.disabled) {
      this.stop();
    }
  }

  #dispatch(name: string, detail: unknown): void {
    this.dispatchEvent(new CustomEvent(name, { detail, bubbles: true, composed: true }));
  }
}

function summary(result: Result): string {
  const n = result.token_ids.length;
  const why = { eos: "the model ended the text", length: "the token limit", context: "the context is full", stop: "a stop string", aborted: "stopped" }[result.finish];
  return `${n} token${n === 1 ? "" : "s"} in ${format.milliseconds(result.stats.total_ms)} · ended by: ${why}`;
}

function sheet(css: string): CSSStyleSheet {
  const made = new CSSStyleSheet();
  made.replaceSync(css);
  return made;
}

/** The widget has shown the error already. */
function ignore(): void {}

if (!customElements.get("foretoken-widget")) customElements.define("foretoken-widget", ForetokenWidget);

declare global {
  interface HTMLElementTagNameMap {
    "foretoken-widget": ForetokenWidget;
  }
}
