/**
 * The widget after the first use: prompt, streamed text, statistics, settings and the engine. The element
 * (element.ts) is small and loads this code on demand.
 */
import type { ChatReply, DeviceChoice, Engine } from "../engine/engine.ts";
import { addressesIn } from "../engine/loading.ts";
import type { Generation } from "../engine/generation.ts";
import { exactnessOf } from "../engine/methods.ts";
import { ForetokenError } from "../protocol/errors.ts";
import type { BenchMatrix, BenchReport, BenchUpdate, EngineInfo, GenerateRequest } from "../protocol/protocol.ts";
import type { Progress, Result, RoundEvent } from "../protocol/protocol.ts";
import controlsStyle from "../styles/controls.css";
import panelStyle from "../styles/panel.css";
import themeStyle from "../styles/theme.css";
import tokensStyle from "../styles/tokens.css";
import style from "../styles/widget.css";
import { FILES } from "./attributes.ts";
import type { ChatRequest, Talk } from "./chat.ts";
import { ModelChoice } from "./choice.ts";
import { Confirm } from "./confirm.ts";
import type { CompareHooks, CompareProgress, Comparison } from "./compare.ts";
import { setText, sheet } from "./dom.ts";
import { modelsOf } from "./host-models.ts";
import { initialPrompt } from "./initial-prompt.ts";
import { attributeOf, FIELDS } from "./fields.ts";
import * as format from "./format.ts";
import type { Models } from "./picker.ts";
import { LastTree } from "./last-tree.ts";
import { LateChat } from "./late-chat.ts";
import { Lease } from "./lease.ts";
import { Notices } from "./notices.ts";
import { ProgressLine } from "./progress.ts";
import { BUILTIN, isExample, offerFor } from "./prompts.ts";
import { type RoundSink, TokenStream } from "./stream.ts";
import { Tally } from "./tally.ts";
import { partsOf, View } from "./view.ts";

export type WidgetState =
  "idle" | "loading" | "ready" | "waiting" | "generating" | "comparing" | "benchmarking" | "failed";

const RUNNING: readonly WidgetState[] = ["waiting", "generating", "comparing", "benchmarking"];

/** The shortest interval between updates of the panels, in ms: drawing must not slow down what it measures. */
const REFRESH = 120;

export class WidgetApp {
  readonly #host: HTMLElement;
  readonly #view = new View();
  readonly #text = new TokenStream(this.#view.output);
  readonly #chat: LateChat;
  #stream: RoundSink = this.#text; // receives rounds
  readonly #progress = new ProgressLine(this.#view);
  readonly #choice = new ModelChoice(
    this.#view,
    () => {
      const [target, draft, hub] = ["target", "draft", "hub"].map((name) => this.#host.getAttribute(name));
      return { load: this.#loadModels.bind(this), stop: this.stop.bind(this), target, draft, hub: hub || undefined };
    },
    (message) => this.#showError(message),
  );
  readonly #confirm: Confirm;
  readonly #notices = new Notices(this.#view);
  #state: WidgetState = "idle";
  #engine: Engine | undefined;
  #lease: Lease | undefined;
  #loading: Promise<Engine> | undefined;
  #cancelLoad: AbortController | undefined;
  #run: { stop(): void } | undefined;
  #files: Models | undefined;
  #connected: AbortController | undefined;
  #tally = new Tally();
  readonly #tree = new LastTree(this.#view.panel);
  #refreshAt = 0;
  #refreshPending = false;

  /** Replaces the contents of the host's shadow root and reads the host's attributes. */
  constructor(host: HTMLElement, root: ShadowRoot) {
    this.#host = host;
    root.adoptedStyleSheets = [themeStyle, controlsStyle, tokensStyle, style, panelStyle].map(sheet);
    const view = this.#view;
    root.replaceChildren(view.root);
    this.#confirm = new Confirm(host, view);
    this.#chat = new LateChat(
      host,
      view.root,
      {
        answer: this.#answer.bind(this),
        offers: () => this.#choice.offers(true),
        stop: () => this.stop(),
        forgot: () => this.#dispatch("foretoken-forgot", undefined),
        keeps: host.hasAttribute("tabs"),
      },
      (message) => this.#showError(message),
    );
    view.generate.addEventListener("click", () => void this.generate().catch(ignore));
    view.compare.addEventListener("click", () => void this.compare().catch(ignore));
    view.stop.addEventListener("click", () => this.stop());
    view.settings.device.addEventListener("change", () => {
      if (this.#state !== "idle") void this.load().catch(ignore);
    });
    view.root.lang = "en";
    for (const [part, elements] of Object.entries(partsOf(view)))
      for (const element of elements) element.part.add(part);
    view.root.addEventListener("keydown", (event) => this.#key(event));
    this.#text.invite("The text appears here; marks show the origin of each token.");
    for (const { name, value } of host.attributes) this.attribute(name, value);
    this.#offer();
    this.#enter("idle");
    if (host.hasAttribute("full")) this.#choice.recall();
    if (host.isConnected) this.connected();
  }

  /** Called when the host enters a document. */
  connected(): void {
    this.#connected = new AbortController();
    this.#view.panel.connect(this.#connected.signal);
  }

  /** Called when the host leaves its document. */
  disconnected(): void {
    this.#connected?.abort();
  }

  /** Called when an attribute of the host changes. */
  attribute(name: string, value: string | null): void {
    if (name === "prompt") this.#view.prompt.value = initialPrompt(this.#host);
    else if (name === "theme") this.#view.panel.recolour();
    else if (name === "mode" && (!value || value === "chat" || value === "complete")) this.#setMode();
    else if (FILES.includes(name)) {
      this.#files = this.#loading = undefined;
      this.#offer();
    }
    else this.#view.settings.set(name, value);
  }

  /** Offers prompts for the models that were named; another target than the built-in one is known when it is loaded. */
  #offer(): void {
    this.#view.offer(this.#host.hasAttribute("target") ? { examples: [] } : BUILTIN);
  }

  #setMode(): void {
    this.#chat.setMode();
    // In the page's chat tab, offer models that can chat unless the loaded one can.
    const host = this.#host;
    void this.#choice.invite(
      () => host.hasAttribute("tabs") && host.getAttribute("mode") === "chat" && !this.#engine?.info.chat.ok,
    );
  }

  /** The conversation. */
  get talk(): Talk {
    return this.#chat.talk;
  }

  set talk(talk: Talk) {
    this.#chat.talk = talk;
  }

  /** The loaded models, if they were chosen instead of the attributes' models, and their confirmed addresses. */
  get models(): { chosen: Models | undefined; confirmed: string[] } {
    const all = this.#files ?? modelsOf(this.#host);
    const hub = this.#host.getAttribute("hub") || undefined;
    // What has arrived of models that are not loaded stays, and the next visit offers to go on.
    if (!this.#engine) return { chosen: undefined, confirmed: [] };
    return { chosen: this.#files, confirmed: addressesIn({ ...all, hub }) };
  }

  set models({ chosen, confirmed }: { chosen: Models | undefined; confirmed: readonly string[] }) {
    this.#files = chosen;
    if (confirmed.length > 0) this.#confirm.confirm(confirmed);
  }

  /** The text of the prompt field. */
  get prompt(): string {
    return this.#view.prompt.value;
  }

  set prompt(text: string) {
    this.#view.prompt.value = text;
  }

  /** The current state of the widget. */
  get state(): WidgetState {
    return this.#state;
  }

  /** The loaded engine, or undefined. */
  get engine(): Engine | undefined {
    return this.#engine;
  }

  /** Loads or reloads the models. Rejects with a {@link ForetokenError}, which the widget shows. */
  load(): Promise<Engine> {
    const previous = this.#lease;
    this.#cancelLoad?.abort();
    this.#run?.stop();
    const cancel = (this.#cancelLoad = new AbortController());
    this.#lease = this.#engine = undefined;
    this.#showError(undefined);
    this.#notices.clear();
    this.#enter("loading", "Starting the engine");
    const loading = (async () => {
      await previous?.release();
      cancel.signal.throwIfAborted();
      const models = { ...(this.#files ?? modelsOf(this.#host)), hub: this.#host.getAttribute("hub") || undefined };
      const hosts = await this.#confirm.given(addressesIn(models), cancel.signal);
      this.#choice.begin(models, models.hub);
      const lease = new Lease(
        { ...models, hosts, device: this.#view.settings.device.value as DeviceChoice },
        (progress) => this.#cancelLoad === cancel && this.#showProgress(progress),
      );
      this.#lease = lease;
      cancel.signal.addEventListener("abort", () => void lease.release());
      const engine = await lease.engine;
      await this.#chat.prepare(engine);
      cancel.signal.throwIfAborted();
      return engine;
    })().catch((cause: unknown) => {
      throw cancel.signal.aborted ? new ForetokenError("aborted", "loading was aborted") : cause;
    });
    this.#loading = loading;
    loading.then(
      (engine) => this.#cancelLoad === cancel && this.#loaded(engine), // otherwise a later load replaced this one
      (cause: unknown) => {
        if (this.#cancelLoad !== cancel) return;
        this.#loading = undefined;
        this.#fail(cause);
      },
    );
    return loading;
  }

  /** Runs `work` when the engine is free: widgets that share an engine take turns. */
  async #turn<T>(work: () => Promise<T>): Promise<T> {
    const lease = this.#lease;
    if (!lease) throw new ForetokenError("disposed", "the engine was disposed");
    const cancel = new AbortController();
    this.#run = { stop: () => cancel.abort() };
    return lease.turn(work, cancel.signal, () => this.#enter("waiting", "Waiting for another widget on this page"));
  }

  /**
   * Handles the first click: loads the models, then continues the prompt, or answers it in chat mode. Shows failures.
   */
  async start(prompt: string): Promise<void> {
    this.#view.prompt.value = prompt;
    this.#view.output.focus({ preventScroll: true }); // the focused element was replaced
    await this.#ready();
    if (this.#chat.mode === "chat") await this.#chat.ask(prompt);
    else await this.generate();
  }

  /** Loads the models if necessary, then continues the prompt with the current settings. */
  async generate(): Promise<Result> {
    const engine = await this.#ready();
    try {
      const request = this.#view.settings.request(this.#view.prompt.value);
      const result = await this.#turn(() => {
        const trace = this.#tree.wanted; // before changes, after which it would take a layout
        this.#enter("generating", "Generating");
        this.#begin(request);
        return this.#follow(engine.generate(request.prompt, { ...request, trace }));
      });
      this.#done(engine, result);
      return result;
    } catch (cause) {
      this.#failed(engine, cause);
      throw cause;
    } finally {
      this.#run = undefined;
    }
  }

  /** Loads the models if necessary, then answers in the conversation. Shows a failure and returns undefined. */
  async #answer(
    stream: RoundSink,
    start: (engine: Engine, request: ChatRequest) => Promise<Generation<ChatReply>>,
  ): Promise<ChatReply | undefined> {
    const engine = await this.#ready().catch(() => undefined);
    if (!engine) return undefined;
    try {
      const { prompt, ...request } = this.#view.settings.request("");
      const reply = await this.#turn(async () => {
        const trace = this.#tree.wanted;
        this.#enter("generating", "Answering");
        this.#begin({ ...request, prompt }, stream);
        // Restart the conversation if another widget used the engine for its own.
        if (!this.#lease!.claimConversation()) this.#chat.attach(engine);
        return this.#follow(await start(engine, { ...request, trace }));
      });
      this.#done(engine, reply.result);
      return reply;
    } catch (cause) {
      this.#failed(engine, cause);
      return undefined;
    } finally {
      this.#run = undefined;
    }
  }

  /** Shows the result of a run and dispatches foretoken-done. */
  #done(engine: Engine, result: Result): void {
    this.#finish(result);
    this.#rest(engine, format.summary(result));
    this.#dispatch("foretoken-done", result);
  }

  /** Shows a generation while it runs and returns its result. */
  async #follow<R>(run: Generation<R>): Promise<R> {
    this.#run = this.#tree.follow(run);
    for await (const round of run) this.#round(round);
    return run.result;
  }

  /** Loads the models if necessary, compares silently, then shows the speculative run; undefined if stopped. */
  async compare(hooks: CompareHooks = {}): Promise<Comparison | undefined> {
    const engine = await this.#ready();
    const { panel } = this.#view;
    try {
      const { request } = this;
      const outcome = await this.#turn(async () => {
        this.#enter("comparing", "Comparing");
        const stop = new AbortController();
        this.#run = { stop: () => stop.abort() };
        const { compare } = await import("./compare.ts");
        const onProgress = (progress: CompareProgress): void => {
          setText(this.#view.status, `Comparing: ${progress.text}`);
          panel.showComparison(`${progress.text} …`);
          hooks.onProgress?.(progress);
        };
        return compare(engine, request, { ...hooks, onProgress }, stop.signal);
      });
      panel.showComparison(outcome ?? "Stopped before all runs finished.");
      if (outcome) {
        this.#tree.follow({ trace: () => Promise.resolve(outcome.traces.speculative) });
        this.#begin(request, this.#text, false);
        for (const round of outcome.rounds) this.#round(round, false);
        this.#finish(outcome.speculative, outcome.verdict.line);
        void this.#tree.recall();
      }
      this.#rest(engine, outcome?.verdict.line ?? "Stopped");
      if (outcome) this.#dispatch("foretoken-compared", outcome);
      return outcome;
    } catch (cause) {
      panel.showComparison("The comparison failed.");
      this.#failed(engine, cause);
      throw cause;
    } finally {
      this.#run = undefined;
    }
  }

  /**
   * Loads the models if necessary, then benchmarks methods against plain decoding, for the page's benchmark tab. The
   * report is partial if the run was stopped.
   */
  async bench(matrix: BenchMatrix, onUpdate?: (update: BenchUpdate) => void): Promise<BenchReport> {
    return this.#measure(
      (engine) => {
        const run = (this.#run = engine.bench(matrix, { onUpdate }));
        return run.result;
      },
      (report) => (report.stopped ? "Stopped" : "Benchmark done"),
    );
  }

  /** Loads the models if necessary, then measures with them and the prompt of the field. */
  measured<R>(work: (engine: Engine, prompt: string) => Promise<R>, done: string): Promise<R> {
    return this.#measure(
      (engine) => {
        this.#run = { stop: () => engine.stop() };
        return work(engine, this.#view.prompt.value);
      },
      () => done,
    );
  }

  async #measure<R>(work: (engine: Engine) => Promise<R>, done: (report: R) => string): Promise<R> {
    const engine = await this.#ready();
    try {
      const report = await this.#turn(() => {
        this.#enter("benchmarking", "Running the benchmark");
        return work(engine);
      });
      this.#rest(engine, done(report));
      return report;
    } catch (cause) {
      if (this.#engine === engine) this.#rest(engine, "Ready");
      throw cause;
    } finally {
      this.#run = undefined;
    }
  }

  /** The request as set, but with speculation on. Throws a {@link ForetokenError} if a setting is invalid. */
  get request(): GenerateRequest {
    return this.#view.settings.request(this.#view.prompt.value, true);
  }

  /** The request as set, with speculation on or off. Throws a {@link ForetokenError} if a setting is invalid. */
  get chosen(): GenerateRequest {
    return this.#view.settings.request(this.#view.prompt.value);
  }

  /** Sets the prompt and the settings, by names of attributes; missing settings get their defaults. */
  restore(prompt: string, settings: ReadonlyMap<string, string>): void {
    this.#view.prompt.value = prompt;
    for (const name of ["policy", ...FIELDS.map(attributeOf)])
      this.#view.settings.set(name, settings.get(name) ?? null);
  }

  /** Ends a running benchmark, generation or comparison within a round, or a load at once. */
  stop(): void {
    if (this.#state === "loading") this.#cancelLoad?.abort();
    this.#run?.stop();
  }

  /** Releases the models. They are freed when no other widget uses them; the next click reloads them. */
  async dispose(): Promise<void> {
    const lease = this.#lease;
    this.#run?.stop();
    this.#cancelLoad?.abort();
    this.#lease = this.#engine = this.#loading = this.#cancelLoad = undefined;
    this.#enter("idle", "Nothing is loaded.");
    await lease?.release();
  }

  async #ready(): Promise<Engine> {
    const free = (): void => {
      if (RUNNING.includes(this.#state)) throw new ForetokenError("busy", "the widget is working; stop it first");
    };
    free();
    this.#showError(undefined);
    const engine = await (this.#loading ?? this.load());
    free(); // another call may have waited for the same load and started
    return engine;
  }

  #loadModels(models: Models, shown = false): void {
    const hub = this.#host.getAttribute("hub") || undefined;
    if (shown) this.#confirm.confirm(addressesIn({ ...models, hub }));
    this.#files = models;
    void this.load().catch(ignore);
  }

  #loaded(engine: Engine): void {
    this.#engine = engine;
    this.#chat.attach(engine);
    this.#setMode();
    engine.onCrash((error) => {
      if (this.#engine !== engine) return;
      this.#lease = this.#engine = this.#loading = undefined;
      this.#fail(error);
    });
    const { info } = engine;
    const view = this.#view;
    view.settings.allow(info);
    view.showFacts(info);
    const offer = offerFor(info);
    view.offer(offer);
    const { value } = view.prompt;
    if (value === "" || (isExample(value) && !offer.examples.some(({ prompt }) => prompt === value)))
      view.prompt.value = offer.examples[0]!.prompt;
    const line = this.#lease?.joined
      ? "Ready, sharing the model of another widget"
      : `Ready, loaded in ${format.milliseconds(info.load_ms)}`;
    this.#choice.loaded(line);
    this.#enter("ready", line);
    this.#dispatch("foretoken-ready", info satisfies EngineInfo);
  }

  #showProgress(progress: Progress): void {
    if (this.#state !== "loading") return this.#progress.reload(progress);
    if (progress.stage === "notice") return this.#notices.add(progress.note ?? "");
    this.#choice.progress(progress, this.#progress.show(progress));
  }

  /** Returns the rounds of the last generation with their trees, once it has ended; see {@link Generation.trace}. */
  trace(): Promise<Uint8Array> {
    return this.#tree.trace();
  }

  #begin(request: GenerateRequest, stream: RoundSink = this.#text, tell = true): void {
    this.#tally = new Tally();
    this.#stream = stream;
    if (stream === this.#text) this.#text.start(request.prompt);
    this.#view.lossy.hidden = exactnessOf(request) !== "lossy";
    setText(this.#view.gain, "\u00a0");
    if (tell) this.#dispatch("foretoken-start", request);
    this.#refresh();
  }

  #round(round: RoundEvent, tell = true): void {
    this.#tally.add(round);
    this.#tree.add(round);
    this.#stream.push(round);
    if (tell) this.#dispatch("foretoken-round", round);
    if (this.#refreshPending) return;
    this.#refreshPending = true;
    const wait = Math.max(0, this.#refreshAt + REFRESH - performance.now());
    setTimeout(() => requestAnimationFrame(() => this.#refreshPending && this.#refresh()), wait);
  }

  #finish(result: Result, gain = format.steps(result)): void {
    this.#tally.finish(result.stats);
    setText(this.#view.gain, gain);
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
    this.#tree.draw();
  }

  #enter(state: WidgetState, status?: string): void {
    this.#state = state;
    this.#progress.reset();
    this.#host.dataset["state"] = state;
    const view = this.#view;
    view.root.dataset["state"] = state;
    if (status !== undefined) setText(view.status, status);
    const running = RUNNING.includes(state);
    // Hide by visibility, so that the line below does not move.
    view.progress.style.visibility = state === "loading" ? "visible" : "hidden";
    if (state === "loading") view.progress.removeAttribute("value");
    view.generate.disabled = view.compare.disabled = running || state === "loading";
    view.stop.disabled = !running && state !== "loading";
    this.#chat.block(running || state === "loading");
    view.settings.device.disabled = running;
    this.#choice.block(running);
  }

  /** Returns to the ready state after work on an engine; a released or failed engine has set its own state. */
  #rest(engine: Engine, status: string): void {
    if (this.#engine === engine) this.#enter("ready", status);
  }

  #failed(engine: Engine, cause: unknown): void {
    if (this.#engine === engine) this.#fail(cause);
  }

  #fail(cause: unknown): void {
    const error =
      cause instanceof ForetokenError
        ? cause
        : new ForetokenError("internal", cause instanceof Error ? cause.message : String(cause));
    this.#flush();
    if (error.code === "aborted" || error.code === "disposed") {
      this.#choice.stopped();
      this.#enter(this.#engine ? "ready" : "idle", "Stopped");
      return;
    }
    this.#showError(format.forVisitors(error));
    this.#choice.failed(error, this.#engine === undefined);
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
    this.#host.dispatchEvent(new CustomEvent(name, { detail, bubbles: true, composed: true }));
  }
}

/** For promises whose error the widget has shown. */
function ignore(): void {}
