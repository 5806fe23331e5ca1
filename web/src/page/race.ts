/**
 * The race tab: plain and speculative decoding side by side. Both need the device, so each runs alone: first plain
 * decoding, then speculation, while the tab replays the plain run at its measured speed.
 */
import { EXACTNESS, exactnessOf, METHODS, titleOf } from "../engine/methods.ts";
import type { GenerateRequest, RoundEvent } from "../protocol/protocol.ts";
import controlsStyle from "../styles/controls.css";
import raceStyle from "../styles/race.css";
import themeStyle from "../styles/theme.css";
import widgetStyle from "../styles/widget.css";
import type { ForetokenWidget } from "../widget/element.ts";
import { verdict, type Comparison } from "../widget/compare.ts";
import { el, setText, sheet } from "../widget/dom.ts";
import { milliseconds, short } from "../widget/format.ts";
import { TokenStream } from "../widget/stream.ts";

type LaneName = "plain" | "speculative";

/** A runner: its text, its clock and its rounds. */
class Lane {
  readonly title: HTMLElement;
  readonly badge = el("span", { class: "badge" });
  readonly clock = el("b", { class: "clock" }, "–");
  readonly count = el("span", { class: "count" }, "\u00a0");
  readonly state = el("span", { class: "lane-state" }, "\u00a0");
  readonly bar = el("progress", { max: 1, value: 0 });
  readonly box: HTMLElement;
  readonly element: HTMLElement;
  readonly #stream: TokenStream;
  rounds: RoundEvent[] = [];
  #shown = 0;
  #tokens = 0;
  #most = 1;

  constructor(
    readonly name: LaneName,
    title: string,
  ) {
    this.title = el("h2", {}, title);
    this.box = el("div", { class: "output", role: "region", "aria-label": `${title}: text`, tabindex: 0 });
    this.bar.setAttribute("aria-label", `${title}: tokens`);
    this.#stream = new TokenStream(this.box);
    this.element = el(
      "section",
      { class: "card lane", id: `lane-${name}`, "aria-label": title },
      el("header", {}, this.title, this.badge, this.state),
      el("p", { class: "figures" }, this.clock, this.count),
      this.bar,
      this.box,
    );
  }

  /** Returns to the start; keeps the rounds for a replay if `replay` is set. */
  reset(prompt: string, most: number, replay = false): void {
    if (!replay) this.rounds = [];
    this.#shown = this.#tokens = 0;
    this.#most = most;
    this.#stream.start(prompt);
    setText(this.clock, "0.00 s");
    setText(this.count, "0 tokens");
    this.bar.value = 0;
    delete this.element.dataset["done"];
  }

  /** Shows the rounds of the first `ms` milliseconds; returns whether these are all rounds. */
  showUntil(ms: number): boolean {
    let round: RoundEvent | undefined;
    for (let next = this.rounds[this.#shown]; next && next.elapsed_ms <= ms; next = this.rounds[this.#shown]) {
      this.#stream.push((round = next));
      this.#tokens += next.tokens.length;
      this.#shown++;
    }
    const done = this.#shown === this.rounds.length;
    const at = done ? (this.rounds.at(-1)?.elapsed_ms ?? 0) : Math.min(ms, this.rounds[this.#shown]!.elapsed_ms);
    setText(this.clock, `${(at / 1000).toFixed(2)} s`);
    if (round) {
      setText(this.count, `${this.#tokens} tokens`);
      this.bar.value = this.#tokens / this.#most;
    }
    return done;
  }

  finish(speed: number, first: number): void {
    this.#stream.flush();
    setText(this.count, `${this.#tokens} tokens · ${short(speed)} tok/s · first after ${milliseconds(first)}`);
    this.bar.value = 1;
    this.element.dataset["done"] = "";
  }

  invite(text: string): void {
    this.#stream.invite(text);
  }
}

export class ForetokenRace extends HTMLElement {
  /** The widget that provides models, prompt and settings. */
  widget: ForetokenWidget | undefined;
  /** The result of the last race. */
  comparison: Comparison | undefined;
  readonly #plain = new Lane("plain", "Plain decoding");
  readonly #fast = new Lane("speculative", "Speculative decoding");
  readonly #start = el("button", { type: "button", id: "race-start", class: "primary" }, "Start");
  readonly #stop = el("button", { type: "button", id: "race-stop", disabled: true }, "Stop");
  readonly #again = el("button", { type: "button", id: "race-again", disabled: true }, "Replay");
  readonly #about = el("p", { class: "about", id: "race-about" });
  readonly #verdict = el("p", { class: "race-speed", id: "race-verdict", role: "status" }, "\u00a0");
  readonly #equal = el("p", { class: "race-equal", id: "race-equal" }, "\u00a0");
  #request: GenerateRequest | undefined;
  #frame = 0;

  constructor() {
    super();
    const root = this.attachShadow({ mode: "open" });
    root.adoptedStyleSheets = [themeStyle, controlsStyle, widgetStyle, raceStyle].map(sheet);
    this.#start.addEventListener("click", () => void this.run().catch(() => undefined));
    this.#stop.addEventListener("click", () => this.widget?.stop());
    this.#again.addEventListener("click", () => this.#replay([this.#plain, this.#fast]));
    root.append(
      el(
        "div",
        { class: "foretoken" },
        el(
          "div",
          { class: "card race-head" },
          this.#about,
          el("div", { class: "actions" }, this.#start, this.#stop, this.#again),
          this.#verdict,
          this.#equal,
        ),
        el("div", { class: "lanes" }, this.#plain.element, this.#fast.element),
      ),
    );
    this.#plain.invite("The large model alone, one token per pass.");
    this.#fast.invite("The same model with a draft, with the current settings.");
  }

  /** Shows the method that will race. */
  refresh(): void {
    const { widget } = this;
    if (!widget || this.#start.disabled) return;
    void widget.open().then((app) => {
      const { policy } = app.request;
      const method = METHODS.find((m) => m.name === policy);
      const exactness = exactnessOf(app.request);
      setText(this.#fast.title, method ? titleOf(method) : "Speculative decoding");
      this.#fast.badge.className = `badge ${exactness}`;
      setText(this.#fast.badge, EXACTNESS[exactness].label);
      setText(
        this.#about,
        "Prompt and settings come from Completion. Both share one device, so each runs alone: plain decoding first; " +
          "during the other run, plain decoding is replayed at its measured speed. Each clock counts its own run, " +
          "starting with the prompt.",
      );
    });
  }

  /** Runs both, after loading the models if necessary; undefined if stopped. */
  async run(): Promise<Comparison | undefined> {
    const { widget } = this;
    if (!widget) throw new Error("the race has no widget to take models from");
    this.refresh();
    this.#busy(true);
    cancelAnimationFrame(this.#frame);
    setText(this.#equal, "\u00a0");
    setText(this.#verdict, "Decoding once each way first, which does not count.");
    let lane: Lane | undefined;
    try {
      const outcome = await widget.compare({
        turns: 1,
        onPart: (part, request) => {
          if (part === "warm-up") return;
          lane = part === "plain" ? this.#plain : this.#fast;
          if (part === "plain") {
            this.#request = request;
            for (const one of [this.#plain, this.#fast]) one.reset(request.prompt, request.max_tokens ?? 1);
            setText(this.#plain.state, "running");
            setText(this.#fast.state, "waiting for the device");
            setText(this.#verdict, "Plain decoding is running.");
          } else {
            setText(this.#plain.state, "replay");
            setText(this.#fast.state, "running");
            setText(this.#verdict, "Speculation is running, next to a replay of the plain run.");
            this.#replay([this.#plain]);
          }
        },
        onRound: (round) => {
          lane?.rounds.push(round);
          lane?.showUntil(round.elapsed_ms);
        },
      });
      this.comparison = outcome;
      if (!outcome) {
        setText(this.#verdict, "Stopped before both runs finished.");
        return undefined;
      }
      const { line, tokens, good } = verdict(outcome);
      setText(this.#verdict, line);
      setText(this.#equal, outcome.exact ? (good ? `Both texts are equal. ${tokens}` : tokens) : tokens);
      this.#equal.className = `race-equal ${outcome.exact ? (good ? "good" : "bad") : outcome.exactness}`;
      return outcome;
    } catch (cause) {
      setText(this.#verdict, cause instanceof Error ? cause.message : String(cause));
      throw cause;
    } finally {
      this.#busy(false);
      if (this.comparison) this.#finish();
    }
  }

  #finish(): void {
    const { plain, speculative } = this.comparison!;
    for (const [lane, { stats }] of [
      [this.#plain, plain],
      [this.#fast, speculative],
    ] as const) {
      if (!lane.showUntil(lane === this.#plain && this.#frame !== 0 ? -1 : Infinity)) continue;
      lane.finish(stats.decode_tok_s, stats.ttft_ms);
      setText(lane.state, "done");
    }
  }

  /** Replays runs from their start at their measured speed. */
  #replay(lanes: readonly Lane[]): void {
    cancelAnimationFrame(this.#frame);
    const { prompt = "", max_tokens = 1 } = this.#request ?? {};
    for (const lane of lanes) lane.reset(prompt, max_tokens, true);
    const begin = performance.now();
    const tick = (now: number): void => {
      const done = lanes.map((lane) => lane.showUntil(now - begin)).every(Boolean);
      this.#frame = done ? 0 : requestAnimationFrame(tick);
      if (done && !this.#start.disabled && this.comparison) this.#finish();
    };
    this.#frame = requestAnimationFrame(tick);
  }

  #busy(busy: boolean): void {
    this.#start.disabled = busy;
    this.#stop.disabled = !busy;
    this.#again.disabled = busy || this.#plain.rounds.length === 0 || this.#fast.rounds.length === 0;
    this.dataset["state"] = busy ? "running" : "ready";
  }
}

if (!customElements.get("foretoken-race")) customElements.define("foretoken-race", ForetokenRace);
