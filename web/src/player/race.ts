/**
 * `<foretoken-race>`: plain and speculative decoding next to each other on one axis of time, played from two traces
 * without an engine.
 *
 * ```html
 * <script type="module" src="player.js"></script>
 * <foretoken-race plain="plain.trace" speculative="speculative.trace"></foretoken-race>
 * ```
 *
 * `plain` and `speculative` are the addresses of traces, which {@link ForetokenRace.traces} sets directly. A race of
 * less than two seconds is slowed down, and the element says by how much. Colours and fonts: the custom properties at
 * the top of styles/theme.css.
 */
import { readTrace, type Trace, type TracedRound } from "../protocol/trace.ts";
import controlsStyle from "../styles/controls.css";
import raceStyle from "../styles/race.css";
import themeStyle from "../styles/theme.css";
import tokensStyle from "../styles/tokens.css";
import { el, setText, sheet, svg } from "../widget/dom.ts";
import { endedBy, lengthOf, slowDown } from "./pace.ts";

/** The traces of a race: the same prompt, decoded both ways. */
export interface RaceTraces {
  plain: Trace;
  speculative: Trace;
}

/** The longest step of the clock in milliseconds of the reader's time: a hidden tab stops the race. */
const STEP = 100;
/** Milliseconds between the steps of a reader who prefers reduced motion. */
const REDUCED = 400;
/** The characters of a prompt that are shown. */
const PROMPT = 400;

/** Formats milliseconds, with as many digits as the longest time of its axis needs. */
function time(ms: number, longest: number): string {
  if (longest < SECOND) return `${ms.toFixed(longest < 100 ? 1 : 0)} ms`;
  return `${(ms / SECOND).toFixed(2)} s`;
}
const SECOND = 1000;

/** One of the two runs: a bar on the common axis, its figures and its text. */
class Lane {
  readonly name: HTMLElement;
  readonly bar = el("div", { class: "bar" });
  readonly figures = el("b", { class: "figures" });
  readonly section: HTMLElement;
  readonly #fill = el("i");
  readonly #text: HTMLElement;
  #rounds: readonly TracedRound[] = [];
  /** For each number of ended rounds: the tokens, and the nodes of the text. */
  #tokens: number[] = [0];
  #nodes: number[] = [0];
  #spans: HTMLElement[] = [];
  #shown = 0;
  #longest = 0;

  constructor(
    title: string,
    readonly kind: "plain" | "speculative",
  ) {
    this.name = el("span", { class: "name" }, title);
    this.#text = el("div", { class: "text", role: "region", "aria-label": `${title}: text`, tabindex: 0 });
    this.section = el("section", { class: `lane ${kind}` }, el("p", { class: "title" }, title), this.#text);
  }

  /** Takes a trace and the length of the axis in milliseconds, and returns to the start. */
  start({ prompt, rounds, rest }: Trace, longest: number): void {
    this.#rounds = rounds;
    this.#longest = longest;
    this.#tokens = [0];
    this.#nodes = [0];
    this.#spans = [];
    for (const { tokens } of rounds) {
      for (const { kind, text } of tokens) if (text) this.#spans.push(el("span", { class: `token ${kind}` }, text));
      this.#tokens.push(this.#tokens.at(-1)! + tokens.length);
      this.#nodes.push(this.#spans.length);
    }
    if (rest) this.#nodes[rounds.length] = this.#spans.push(el("span", {}, rest));
    this.#shown = 0;
    const end = prompt.slice(-PROMPT);
    this.#text.replaceChildren(el("span", { class: "prompt" }, end === prompt ? prompt : `… ${end}`));
    const at = (ms: number): string => ((WIDTH * ms) / longest).toFixed(2);
    this.bar.replaceChildren(
      this.#fill,
      svg(
        "svg",
        { viewBox: `0 0 ${WIDTH} 1`, preserveAspectRatio: "none", "aria-hidden": "true" },
        svg("path", { d: rounds.map(({ elapsed_ms }) => `M${at(elapsed_ms)} 0V1`).join("") }),
      ),
    );
    this.show(0);
  }

  /** Shows what was written after `ms` milliseconds. */
  show(ms: number): void {
    const ended = endedBy(this.#rounds, ms);
    const wanted = this.#nodes[ended]!;
    const box = this.#text;
    if (wanted > this.#shown) box.append(...this.#spans.slice(this.#shown, wanted));
    else for (const span of this.#spans.slice(wanted, this.#shown)) span.remove();
    if (wanted !== this.#shown) box.scrollTop = box.scrollHeight;
    this.#shown = wanted;
    const length = lengthOf(this.#rounds);
    this.#fill.style.width = `${(100 * Math.min(ms, length)) / this.#longest}%`;
    this.section.toggleAttribute("data-done", ended === this.#rounds.length);
    setText(this.figures, this.#describe(Math.min(ms, length), ended));
  }

  #describe(ms: number, ended: number): string {
    const tokens = this.#tokens[ended]!;
    const count = (n: number, what: string, many: string): string => `${n} ${n === 1 ? what : many}`;
    return `${count(tokens, "token", "tokens")}, ${count(ended, "pass", "passes")}, ${time(ms, this.#longest)}`;
  }
}

const WIDTH = 1000;

/** Workers have no elements, but can import this module. */
const Base = globalThis.HTMLElement ?? (class {} as unknown as typeof HTMLElement);

/** The custom element: the bars on their axis, the controls and the two texts. */
export class ForetokenRace extends Base {
  static readonly observedAttributes = ["plain", "speculative"];
  readonly #lanes = { plain: new Lane("Plain decoding", "plain"), speculative: new Lane("Foretoken", "speculative") };
  readonly #play = el("button", { type: "button", class: "play" }, "Play");
  readonly #seek = el("input", { type: "range", min: 0, max: 0, step: "any", value: 0, "aria-label": "Time" });
  readonly #end = el("span", {});
  readonly #pace = el("p", { class: "pace" });
  readonly #said = el("p", { class: "heard", role: "status" });
  readonly #error = el("p", { class: "error", role: "alert", hidden: true });
  readonly #stage = el("div", { class: "race", hidden: true });
  #traces: RaceTraces | undefined;
  #longest = 0;
  #factor = 1;
  #at = 0;
  #frame = 0;
  #loads = 0;

  constructor() {
    super();
    const root = this.attachShadow({ mode: "open" });
    root.adoptedStyleSheets = [themeStyle, controlsStyle, tokensStyle, raceStyle].map(sheet);
    const { plain, speculative } = this.#lanes;
    this.#stage.append(
      el(
        "div",
        { class: "axis" },
        ...[plain, speculative].flatMap((lane) => [lane.name, lane.figures, lane.bar]),
        el("span", { class: "ends", "aria-hidden": "true" }, el("span", {}, "0"), this.#end),
        this.#seek,
      ),
      el("div", { class: "actions" }, this.#play, this.#pace),
      el("div", { class: "lanes" }, plain.section, speculative.section),
    );
    root.append(el("div", { class: "foretoken", lang: "en" }, this.#stage, this.#said, this.#error));
    this.#play.addEventListener("click", () => (this.#frame ? this.pause() : this.play()));
    this.#seek.addEventListener("input", () => {
      this.pause();
      this.seek(Number(this.#seek.value));
    });
  }

  connectedCallback(): void {
    if (!this.#traces) this.#load();
  }

  disconnectedCallback(): void {
    this.pause();
  }

  attributeChangedCallback(): void {
    if (this.isConnected) this.#load();
  }

  /** The two traces; setting them shows the start of the race. */
  get traces(): RaceTraces | undefined {
    return this.#traces;
  }

  set traces(traces: RaceTraces | undefined) {
    this.#loads++; // what the attributes are loading comes too late
    this.pause();
    this.#traces = traces;
    this.#stage.hidden = !traces;
    this.#error.hidden = true;
    setText(this.#said, "");
    if (!traces) return;
    this.#longest = Math.max(lengthOf(traces.plain.rounds), lengthOf(traces.speculative.rounds), 0.01);
    this.#factor = slowDown(this.#longest);
    setText(this.#end, time(this.#longest, this.#longest));
    setText(
      this.#pace,
      this.#factor > 1 ? `Shown ${this.#factor.toLocaleString("en-US")} times slower.` : "Shown at its true speed.",
    );
    this.#seek.max = String(this.#longest);
    for (const kind of ["plain", "speculative"] as const) this.#lanes[kind].start(traces[kind], this.#longest);
    this.seek(0);
  }

  /** The factor by which the race is slowed down; 1 is its true speed. */
  get factor(): number {
    return this.#factor;
  }

  /** Plays from the time that is shown, or from the start if that is the end. */
  play(): void {
    if (!this.#traces || this.#frame) return;
    if (this.#at >= this.#longest) this.seek(0);
    setText(this.#play, "Pause");
    setText(this.#said, "");
    const reduced = matchMedia("(prefers-reduced-motion: reduce)").matches;
    let before = performance.now();
    const tick = (now: number): void => {
      if (now - before >= (reduced ? REDUCED : 0)) {
        const step = Math.min(Math.max(now - before, 0), reduced ? REDUCED : STEP);
        before = now;
        this.seek(this.#at + step / this.#factor);
      }
      if (this.#at < this.#longest) this.#frame = requestAnimationFrame(tick);
      else this.#finish();
    };
    this.#frame = requestAnimationFrame(tick);
  }

  pause(): void {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    setText(this.#play, "Play");
  }

  /** Shows the time `ms` of the race, in milliseconds of the runs. */
  seek(ms: number): void {
    if (!this.#traces) return;
    this.#at = Math.min(Math.max(ms, 0), this.#longest);
    this.#seek.value = String(this.#at);
    for (const lane of Object.values(this.#lanes)) lane.show(this.#at);
    this.#seek.setAttribute("aria-valuetext", this.#account());
  }

  #account(): string {
    return Object.values(this.#lanes)
      .map((lane) => `${lane.name.textContent}: ${lane.figures.textContent}`)
      .join("; ");
  }

  #finish(): void {
    this.pause();
    setText(this.#play, "Play again");
    setText(this.#said, `${this.#account()}.`);
  }

  /** Loads the traces of the attributes, once both are there. */
  #load(): void {
    const [plain, speculative] = [this.getAttribute("plain"), this.getAttribute("speculative")];
    if (!plain || !speculative) return;
    const load = ++this.#loads;
    Promise.all([traceAt(plain), traceAt(speculative)]).then(
      ([plain, speculative]) => {
        if (load === this.#loads) this.traces = { plain, speculative };
      },
      (cause: unknown) => {
        if (load !== this.#loads) return;
        this.#error.hidden = false;
        setText(this.#error, cause instanceof Error ? cause.message : String(cause));
      },
    );
  }
}

async function traceAt(address: string): Promise<Trace> {
  const response = await fetch(address);
  if (!response.ok) throw new Error(`${address}: the server answered ${response.status}`);
  return readTrace(new Uint8Array(await response.arrayBuffer()));
}

if (globalThis.customElements && !customElements.get("foretoken-race"))
  customElements.define("foretoken-race", ForetokenRace);

declare global {
  interface HTMLElementTagNameMap {
    "foretoken-race": ForetokenRace;
  }
}
