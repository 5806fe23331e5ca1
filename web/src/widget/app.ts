/**
 * What `<foretoken-widget>` becomes when it is used: the prompt, the streamed text, the statistics and the
 * settings, and the engine behind them. The element itself (widget.ts) is small and loads this.
 */
import { BUILTIN_HEAD, BUILTIN_PAIR } from "../builtin.ts";
import { type ChatReply, type DeviceChoice, type Engine, ForetokenError, type Generation, type Keep } from "../engine.ts";
import { exactnessOf } from "../methods.ts";
import type { BenchPlan, BenchReport, BenchUpdate, CostReport, EngineInfo, GenerateRequest, ProfileReport, Progress, Result, RoundEvent } from "../protocol.ts";
import controlsStyle from "../styles/controls.css";
import panelStyle from "../styles/panel.css";
import themeStyle from "../styles/theme.css";
import style from "../styles/widget.css";
import type { ForetokenWidget, WidgetState } from "../widget.ts";
import { FILES } from "./attributes.ts";
import type { ChatRequest, ChatView } from "./chat.ts";
import { ModelChoice, type Models } from "./choice.ts";
import { compare, type CompareHooks, type Comparison } from "./compare.ts";
import { el, setText, sheet } from "./dom.ts";
import { beginning, EXAMPLES } from "./examples.ts";
import { attributeOf, FIELDS } from "./fields.ts";
import * as format from "./format.ts";
import { Hold } from "./shared.ts";
import { TokenStream } from "./stream.ts";
import { Tally } from "./tally.ts";
import { View } from "./view.ts";

const RUNNING: readonly WidgetState[] = ["waiting", "generating", "comparing", "benchmarking"];

/** Panels are redrawn at most this often while text streams, in ms: they must not slow what they measure. */
const REFRESH = 120;

/** What a page can style with `::part()`, beside the custom properties. */
const partsOf = (view: View): Record<string, Iterable<Element>> => ({
  widget: [view.root],
  bar: [view.root.querySelector(".bar")!],
  status: [view.status],
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

const KEEPS: readonly Keep[] = ["auto", "first", "check", "off"];

export class WidgetApp {
  readonly #host: ForetokenWidget;
  readonly #view = new View();
  readonly #text = new TokenStream(this.#view.output);
  #chat: ChatView | undefined; // once a model was loaded that can be talked to
  #conversing: Promise<void> | undefined; // until it is there
  #stream = this.#text; // where rounds go
  readonly #rate = new format.Rate();
  readonly #choice = new ModelChoice(
    this.#view,
    () => {
      const [target, draft, hub] = ["target", "draft", "hub"].map((name) => this.#host.getAttribute(name));
      return { load: (models) => this.#loadModels(models), target, draft, hub: hub || undefined };
    },
    (message) => this.#showError(message),
  );
  /** What loading told of the files. */
  #notices: string[] = [];
  /** What the status said before the device was lost, until the models are loaded again. */
  #beforeLoss: string | undefined;
  #state: WidgetState = "idle";
  #engine: Engine | undefined;
  #hold: Hold | undefined;
  #loading: Promise<Engine> | undefined;
  #cancelLoad: AbortController | undefined;
  #run: { stop(): void } | undefined;
  #files: Models | undefined;
  #connected: AbortController | undefined;
  #tally = new Tally();
  /** The round that was shown last decoded plainly because drafting was not ready. */
  #warming: boolean | undefined;
  #lastTree: Pick<RoundEvent, "tree" | "bin" | "phi"> | undefined;
  #refreshAt = 0;
  #refreshPending = false;

  /** Puts itself into the host's shadow root, in the place of what was there, with the attributes as they are. */
  constructor(host: ForetokenWidget, root: ShadowRoot) {
    this.#host = host;
    root.adoptedStyleSheets = [themeStyle, controlsStyle, style, panelStyle].map(sheet);
    root.replaceChildren(this.#view.root);
    const view = this.#view;
    view.generate.addEventListener("click", () => void this.generate().catch(ignore));
    view.compare.addEventListener("click", () => void this.compare().catch(ignore));
    view.stop.addEventListener("click", () => this.stop());
    view.settings.device.addEventListener("change", () => {
      if (this.#state !== "idle") void this.load().catch(ignore);
    });
    view.examples.forEach((chip, i) =>
      chip.addEventListener("click", () => {
        view.prompt.value = EXAMPLES[i]!.prompt;
        view.prompt.focus();
      }),
    );
    view.root.lang = "en";
    for (const [part, elements] of Object.entries(partsOf(view))) for (const element of elements) element.part.add(part);
    view.root.addEventListener("keydown", (event) => this.#key(event));
    view.panel.drawTree(undefined);
    this.#stream.invite("The text appears here, every token marked by where it came from.");
    for (const { name, value } of host.attributes) this.attribute(name, value);
    this.#enter("idle");
    if (host.isConnected) this.connected();
  }

  /** The host is in a document. */
  connected(): void {
    this.#connected = new AbortController();
    this.#view.panel.connect(this.#connected.signal);
    // Details are closed where they would push the text off a small screen.
    const { clientWidth } = this.#host;
    if (clientWidth > 0 && clientWidth < 560) this.#view.root.querySelector("details")!.open = false;
  }

  /** The host was taken out of its document. */
  disconnected(): void {
    this.#connected?.abort();
  }

  /** One of the host's attributes is now this. */
  attribute(name: string, value: string | null): void {
    if (name === "prompt") this.#view.prompt.value = beginning(this.#host);
    else if (name === "theme") this.#view.panel.recolour();
    else if (name === "mode" && (!value || value === "chat" || value === "complete")) this.#chat?.setMode(value);
    else if (FILES.includes(name)) this.#files = this.#loading = undefined;
    else this.#view.settings.set(name, value);
  }

  /** The prompt in its field. */
  set prompt(text: string) {
    this.#view.prompt.value = text;
  }

  /** What the widget is doing. */
  get state(): WidgetState {
    return this.#state;
  }

  /** The loaded engine, once there is one. */
  get engine(): Engine | undefined {
    return this.#engine;
  }

  /** Loads the models, anew if some are loaded. Rejects with a {@link ForetokenError}, which the widget shows. */
  load(): Promise<Engine> {
    const previous = this.#hold;
    this.#cancelLoad?.abort();
    this.#run?.stop();
    const cancel = (this.#cancelLoad = new AbortController());
    this.#hold = this.#engine = undefined;
    this.#showError(undefined);
    this.#view.notice.hidden = true;
    this.#notices = [];
    this.#enter("loading", "Starting the engine");
    const loading = (async () => {
      await previous?.release();
      cancel.signal.throwIfAborted();
      const hold = new Hold(
        { ...this.#sources(), hub: this.#host.getAttribute("hub") || undefined, device: this.#view.settings.device.value as DeviceChoice },
        (progress) => this.#cancelLoad === cancel && this.#showProgress(progress),
      );
      this.#hold = hold;
      cancel.signal.addEventListener("abort", () => void hold.release());
      return hold.engine;
    })().catch((cause: unknown) => {
      throw cancel.signal.aborted ? new ForetokenError("aborted", "loading was aborted") : cause;
    });
    this.#loading = loading;
    loading.then(
      (engine) => this.#cancelLoad === cancel && this.#loaded(engine), // else a later load has taken over
      (cause: unknown) => {
        if (this.#cancelLoad !== cancel) return;
        this.#loading = undefined;
        this.#fail(cause);
      },
    );
    return loading;
  }

  /** Does `work` when the engine is free: widgets that share one take turns. */
  async #turn<T>(work: () => Promise<T>): Promise<T> {
    const hold = this.#hold;
    if (!hold) throw new ForetokenError("disposed", "the engine was disposed");
    const cancel = new AbortController();
    this.#run = { stop: () => cancel.abort() };
    return hold.turn(work, cancel.signal, () => this.#enter("waiting", "Waiting: another widget of this page is at work"));
  }

  /**
   * What a click before anything was loaded asks for: the prompt continued, or answered where the widget talks.
   * Failures are shown.
   */
  async start(prompt: string): Promise<void> {
    this.#view.prompt.value = prompt;
    this.#view.output.focus({ preventScroll: true }); // what had the focus is gone
    await this.#ready();
    await this.#conversing;
    if (this.#chat?.mode === "chat") await this.#chat.ask(prompt);
    else await this.generate();
  }

  /** Loads if need be, then continues the prompt with the settings shown. */
  async generate(): Promise<Result> {
    const engine = await this.#ready();
    try {
      const request = this.#view.settings.request(this.#view.prompt.value);
      const result = await this.#turn(() => {
        this.#enter("generating", "Generating");
        this.#begin(request);
        return this.#follow(engine.generate(request.prompt, request));
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

  /** Loads if need be, then has the conversation answered; undefined where that failed, which is shown. */
  async #answer(stream: TokenStream, start: (engine: Engine, request: ChatRequest) => Promise<Generation<ChatReply>>): Promise<ChatReply | undefined> {
    const engine = await this.#ready().catch(() => undefined);
    if (!engine) return undefined;
    try {
      const { prompt, ...request } = this.#view.settings.request("");
      const reply = await this.#turn(async () => {
        this.#enter("generating", "Answering");
        this.#begin({ ...request, prompt }, stream);
        if (!this.#hold!.talk()) this.#chat?.attach(engine); // another widget talked since: the conversation is begun again
        return this.#follow(await start(engine, request));
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

  /** Shows what a run came to, and tells the host. */
  #done(engine: Engine, result: Result): void {
    this.#finish(result);
    this.#rest(engine, summary(result));
    this.#dispatch("foretoken-done", result);
  }

  /** Shows a generation while it runs, and returns what it came to. */
  async #follow<R>(run: Generation<R>): Promise<R> {
    this.#run = run;
    for await (const round of run) this.#round(round);
    return run.result;
  }

  /** Loads if need be, then measures plain against speculative decoding; undefined when stopped. `hooks` look on. */
  async compare(hooks: CompareHooks = {}): Promise<Comparison | undefined> {
    const engine = await this.#ready();
    const { panel } = this.#view;
    try {
      const { request } = this;
      const parts = { "warm-up": "warming up", plain: "decoding plainly", speculative: "decoding speculatively" };
      const outcome = await this.#turn(() => {
        this.#enter("comparing", "Comparing");
        return compare(engine, request, {
          onPart: (part, of) => {
            if (part !== "warm-up") this.#begin(of);
            setText(this.#view.status, `Comparing: ${parts[part]}`);
            panel.showComparison(`Measuring: ${parts[part]} …`);
            hooks.onPart?.(part, of);
          },
          onRound: (round) => {
            this.#round(round);
            hooks.onRound?.(round);
          },
          onRun: (run) => (this.#run = run),
        });
      });
      if (outcome) this.#finish(outcome.speculative);
      else this.#flush();
      panel.showComparison(outcome ?? "Stopped before both were measured.");
      this.#rest(engine, outcome ? "Compared" : "Stopped");
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
   * Loads if need be, then measures methods against plain decoding; the page's benchmark
   * tab is made of it. The report holds what there is when it was stopped.
   */
  async bench(plan: BenchPlan, onUpdate?: (update: BenchUpdate) => void): Promise<BenchReport> {
    return this.#measure((engine) => {
      const run = (this.#run = engine.bench(plan, { onUpdate }));
      return run.result;
    }, (report) => (report.stopped ? "Stopped" : "Benchmark done"));
  }

  /** Loads if need be, then tells where the time of passes and rounds goes, and what passes cost. */
  async profile(onUpdate?: (update: BenchUpdate) => void): Promise<{ profile: ProfileReport; costs: CostReport }> {
    return this.#measure(async (engine) => {
      this.#run = { stop: () => engine.stop() };
      const prompt = this.#view.prompt.value;
      const costs = await engine.costs({ prompts: [{ id: "prompt", prompt }] }, { onUpdate });
      return { profile: await engine.profile({ prompt }, { onUpdate }), costs };
    }, () => "Profile done");
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

  /** The request that the prompt and the settings amount to, speculation on. Throws a {@link ForetokenError} for what cannot be read. */
  get request(): GenerateRequest {
    return this.#view.settings.request(this.#view.prompt.value, true);
  }

  /** The request as it is set, without speculation where that is off. Throws a {@link ForetokenError} for what cannot be read. */
  get chosen(): GenerateRequest {
    return this.#view.settings.request(this.#view.prompt.value);
  }

  /** Puts a prompt and settings in place, by the names of attributes; settings that are not named get their defaults. */
  restore(prompt: string, settings: ReadonlyMap<string, string>): void {
    this.#view.prompt.value = prompt;
    for (const name of ["policy", ...FIELDS.map(attributeOf)]) this.#view.settings.set(name, settings.get(name) ?? null);
  }

  /** Ends the running benchmark, or the running generation or comparison within a round, or a load at once. */
  stop(): void {
    if (this.#state === "loading") this.#cancelLoad?.abort();
    this.#run?.stop();
  }

  /** Lets go of the models, which are freed when no other widget uses them; the next click loads them again. */
  async dispose(): Promise<void> {
    const hold = this.#hold;
    this.#run?.stop();
    this.#cancelLoad?.abort();
    this.#hold = this.#engine = this.#loading = this.#cancelLoad = undefined;
    this.#enter("idle", "Nothing is loaded.");
    await hold?.release();
  }

  async #ready(): Promise<Engine> {
    const free = (): void => {
      if (RUNNING.includes(this.#state)) throw new ForetokenError("busy", "the widget is at work already; stop it first");
    };
    free();
    this.#showError(undefined);
    const engine = await (this.#loading ?? this.load());
    free(); // another call may have waited for the same load
    return engine;
  }

  #sources(): Models {
    if (this.#files) return this.#files;
    const [target, draft, calibrations, eagle3, eagle3Config, cache] = FILES.map((name) => this.#host.getAttribute(name));
    const fitted = calibrations?.split(/\s+/).filter(Boolean);
    const keep = KEEPS.find((one) => one === cache);
    const rest = { ...(eagle3 === "builtin" ? BUILTIN_HEAD : { eagle3, eagle3Config }), ...(keep ? { cache: keep } : {}) };
    if (!target && !draft) return { ...rest, ...BUILTIN_PAIR, ...(fitted ? { calibrations: fitted } : {}) };
    if (!target) throw new ForetokenError("bad_option", "target: attribute: a draft needs a target, and none is given");
    return { target, draft, calibrations: fitted, ...rest };
  }

  #loadModels(models: Models): void {
    this.#files = models;
    void this.load().catch(ignore);
  }

  #loaded(engine: Engine): void {
    this.#engine = engine;
    this.#conversing = this.#converse(engine).catch((cause: unknown) => this.#showError(`chat: ${String(cause)}`));
    engine.onCrash((error) => {
      if (this.#engine !== engine) return;
      this.#hold = this.#engine = this.#loading = undefined;
      this.#fail(error);
    });
    const { info } = engine;
    const view = this.#view;
    view.settings.allow(info);
    setText(view.deviceLine, format.device(info.device));
    setText(view.modelLine, `Target ${format.model(info.target)}${info.draft ? `; draft ${format.model(info.draft)}` : "; no draft"}`);
    setText(view.features, info.device.features.length > 0 ? `Features in use: ${info.device.features.join(", ")}` : "No optional GPU features in use");
    for (const line of [view.deviceLine, view.modelLine, view.features]) line.title = line.textContent;
    const fallback = info.device.backend === "cpu" && view.settings.device.value !== "cpu";
    if (fallback) {
      this.#notify(
        `WebGPU is not available here, so the models run on the CPU: the same method, more slowly. For the GPU, open this page in a current Chrome or Edge with hardware acceleration on.${info.device.note ? ` The reason given: ${info.device.note}.` : ""}`,
      );
    }
    this.#choice.loaded();
    const line = this.#hold?.joined ? "Ready: the model of another widget here is shared" : `Ready, loaded in ${format.milliseconds(info.load_ms)}`;
    this.#choice.say(line);
    this.#enter("ready", line);
    this.#dispatch("foretoken-ready", info satisfies EngineInfo);
  }

  /** The conversation comes with the first model that can hold one; other pages need not load it. */
  async #converse(engine: Engine): Promise<void> {
    if (engine.info.chat.ok && !this.#chat) {
      const { ChatView, chatStyle } = await import("./chat.ts");
      if (!this.#chat) {
        this.#host.shadowRoot!.adoptedStyleSheets.push(sheet(chatStyle));
        this.#chat = new ChatView(this.#view.root, { answer: (stream, start) => this.#answer(stream, start) });
        this.#chat.setMode(this.#host.getAttribute("mode"));
        this.#chat.block(this.#state === "loading" || RUNNING.includes(this.#state));
      }
    }
    if (this.#engine === engine) this.#chat?.attach(engine);
  }

  /** A lost device has the models loaded again, in the middle of whatever goes on. */
  #showLoss(progress: Progress): void {
    if (progress.stage === "lost") this.#beforeLoss ??= this.#view.status.textContent ?? "";
    if (this.#beforeLoss === undefined || progress.stage === "notice") return;
    setText(this.#view.status, progress.stage === "ready" ? this.#beforeLoss : format.progress(progress, 0));
    if (progress.stage === "ready") this.#beforeLoss = undefined;
  }

  #showProgress(progress: Progress): void {
    if (this.#state !== "loading") return this.#showLoss(progress);
    if (progress.stage === "notice") return this.#notify(progress.note ?? "");
    const rate = this.#rate.add(progress.stage, progress.done, performance.now());
    const line = format.progress(progress, rate);
    setText(this.#view.status, line);
    this.#choice.say(line);
    const bar = this.#view.progress;
    if (progress.total > 0) bar.value = progress.done / progress.total;
    else bar.removeAttribute("value");
  }

  /** Shows a note on the load, beside those shown. */
  #notify(note: string): void {
    if (!this.#notices.includes(note)) this.#notices.push(note);
    this.#view.notice.hidden = false;
    this.#view.notice.replaceChildren(...this.#notices.map((text) => el("p", {}, text)));
  }

  #begin(request: GenerateRequest, stream = this.#text): void {
    this.#tally = new Tally();
    this.#lastTree = this.#warming = undefined;
    this.#stream = stream;
    if (stream === this.#text) stream.start(request.prompt);
    this.#view.lossy.hidden = exactnessOf(request) !== "lossy";
    this.#dispatch("foretoken-start", request);
    this.#refresh();
  }

  #round(round: RoundEvent): void {
    if (this.#state === "generating" && round.warming !== this.#warming) {
      // A first text may be written before drafting is ready; it begins amid it.
      this.#warming = round.warming;
      setText(this.#view.status, round.warming ? "Generating plainly while drafting is being prepared" : "Generating");
    }
    this.#tally.add(round);
    if (round.tree.depths.some((depth) => depth > 0)) this.#lastTree = round;
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
    this.#view.panel.drawTree(this.#lastTree?.tree, this.#lastTree?.bin, this.#lastTree?.phi);
  }

  #enter(state: WidgetState, status?: string): void {
    this.#state = state;
    this.#beforeLoss = undefined;
    this.#host.dataset["state"] = state;
    const view = this.#view;
    view.root.dataset["state"] = state;
    if (status !== undefined) setText(view.status, status);
    const running = RUNNING.includes(state);
    // Hidden by visibility, so the line below does not move.
    view.progress.style.visibility = state === "loading" ? "visible" : "hidden";
    if (state === "loading") view.progress.removeAttribute("value");
    view.generate.disabled = view.compare.disabled = running || state === "loading";
    view.stop.disabled = !running && state !== "loading";
    this.#chat?.block(running || state === "loading");
    view.settings.device.disabled = running;
    this.#choice.block(running);
  }

  /** Work on an engine is over; one that was let go of, or failed, has left its state already. */
  #rest(engine: Engine, status: string): void {
    if (this.#engine === engine) this.#enter("ready", status);
  }

  #failed(engine: Engine, cause: unknown): void {
    if (this.#engine === engine) this.#fail(cause);
  }

  #fail(cause: unknown): void {
    const error = cause instanceof ForetokenError ? cause : new ForetokenError("internal", cause instanceof Error ? cause.message : String(cause));
    this.#flush();
    if (error.code === "aborted" || error.code === "disposed") {
      this.#choice.say("");
      this.#enter(this.#engine ? "ready" : "idle", "Stopped");
      return;
    }
    this.#showError(error.message);
    if (!this.#engine) this.#choice.failed(error.message);
    if (error.code === "quota") void this.#choice.showKept();
    else this.#choice.loaded();
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

function summary(result: Result): string {
  const n = result.token_ids.length;
  const why = { eos: "the model ended the text", length: "the token limit", context: "the context is full", stop: "a stop string", aborted: "stopped" }[result.finish];
  const { reused, prompt_tokens, warming, rounds } = result.stats;
  const kept = reused > 0 ? ` · ${reused} of ${prompt_tokens} prompt tokens reused` : "";
  const plain = warming ? ` · drafting was being prepared during ${warming} of ${rounds} rounds` : "";
  return `${n} token${n === 1 ? "" : "s"} in ${format.milliseconds(result.stats.total_ms)} · ended by: ${why}${kept}${plain}`;
}

/** The widget has shown the error already. */
function ignore(): void {}
