/**
 * `<foretoken-tree>`: plays a trace, round by round, without an engine.
 *
 * ```html
 * <script type="module" src="player.js"></script>
 * <foretoken-tree src="run.trace" autoplay></foretoken-tree>
 * ```
 *
 * A round is shown in steps: the draft grows with the probabilities that the small model gave, one pass checks it, the
 * kept path moves into the text, and the rest fades. Below are the text with the origin of each token, controls, and
 * two lanes that compare the passes of the large model with one token at a time.
 *
 * Attributes: `src` (the address of a trace), `autoplay`, `draft` and `target` (names of the models). Slots: `action`
 * for buttons before the controls, `note` for a line below them. Keys while the tree or the text has the focus: Space
 * plays and pauses, the arrow keys step, Page Up and Page Down go from round to round, Home and End to the first and
 * the last.
 *
 * Event, bubbling: `foretoken-shown`, whose detail has the `round`, from 1, once it begins to show.
 * Without motion (`prefers-reduced-motion`) it does not start by itself, and steps without animation. It stops while
 * its tab is hidden or it is out of view. Colours and fonts: the custom properties at the top of styles/theme.css.
 */
import { errorOf } from "../protocol/errors.ts";
import type { TracedRound, Trace } from "../protocol/trace.ts";
import { readTrace } from "../protocol/trace.ts";
import playerStyle from "../styles/player.css";
import themeStyle from "../styles/theme.css";
import { el, setText, sheet, svg } from "../widget/dom.ts";
import { visible } from "../widget/layout.ts";
import { caption, Order, type Place, type Scene, sentence } from "./order.ts";
import { Lanes } from "./lanes.ts";

/** Workers have no elements, but can import this module. */
const Base = globalThis.HTMLElement ?? (class {} as unknown as typeof HTMLElement);

/** The speeds of the control; at 1 a round takes about three seconds. */
const SPEEDS = [0.5, 1, 2, 4];
/** The size of a node in px, and the least distance of two. */
const NODE = { width: 92, height: 30, least: 40, gap: 22, line: 54 };
/** How long a token moves into the text, in ms at normal speed. */
const FLIGHT = 520;

export class ForetokenTree extends Base {
  static readonly observedAttributes = ["src", "draft", "target"];

  readonly #root = this.attachShadow({ mode: "open" });
  readonly #caption = el("p", { class: "caption" });
  readonly #models = el("p", { class: "models" });
  readonly #edges = svg("svg", {});
  readonly #sweep = el("i", { class: "sweep" });
  readonly #nodes = el("div", { class: "nodes" });
  readonly #tree = el("div", { class: "drawing", "aria-hidden": "true" }, this.#edges, this.#nodes, this.#sweep);
  readonly #stage: HTMLElement = el(
    "div",
    { class: "stage", role: "group", tabindex: 0 },
    el("div", { class: "head" }, this.#caption, this.#models),
    this.#tree,
  );
  readonly #text = el("div", { class: "text", role: "region", "aria-label": "Text", tabindex: 0, dir: "auto" });
  readonly #play = el("button", { type: "button", class: "play" }, "Play");
  readonly #step = el("button", { type: "button", class: "step" }, "Step");
  readonly #scrub = el("input", { type: "range", min: 1, max: 1, value: 1, "aria-label": "Round" });
  readonly #speed = el(
    "select",
    { "aria-label": "Speed" },
    ...SPEEDS.map((factor) => el("option", { value: factor, selected: factor === 1 }, `${factor} ×`)),
  );
  readonly #told = el("p", { class: "told", role: "status" });
  readonly #lanes = new Lanes();
  readonly #flights = el("div", { class: "flights", "aria-hidden": "true" });
  readonly #calm = globalThis.matchMedia?.("(prefers-reduced-motion: reduce)");

  #trace: Trace | undefined;
  #changes = 0; // of the trace
  #order: Order | undefined;
  #lines = 0;
  #place: Place = { round: 0, step: 0 };
  #drawn: Scene | undefined;
  #written = 0; // rounds in the text, also those after the one that is shown
  #scroll: number | undefined; // a frame that shows the end of a run's text
  #playing = false;
  #seen = true; // in view
  #timer: ReturnType<typeof setTimeout> | undefined;
  #connected: AbortController | undefined;

  constructor() {
    super();
    this.#root.adoptedStyleSheets = [themeStyle, playerStyle].map(sheet);
    this.#stage.setAttribute("aria-label", "The run, round by round: Space plays and pauses, arrow keys step");
    this.#root.append(
      el(
        "div",
        { class: "foretoken player", lang: "en" },
        el(
          "div",
          { class: "frame" },
          this.#stage,
          this.#text,
          el(
            "div",
            { class: "controls" },
            el("slot", { name: "action" }),
            this.#play,
            this.#step,
            this.#scrub,
            this.#speed,
          ),
        ),
        el("slot", { name: "note" }),
        this.#lanes.element,
        this.#told,
        this.#flights,
      ),
    );
    this.#play.addEventListener("click", () => (this.#playing ? this.pause() : this.play()));
    this.#step.addEventListener("click", () => this.#move("next"));
    this.#scrub.addEventListener("input", () => this.show(Number(this.#scrub.value)));
    this.#text.addEventListener("click", (event) => {
      const round = (event.target as Element).closest<HTMLElement>("[data-round]")?.dataset["round"];
      if (round && this.#order) this.show(Number(round));
    });
    this.#root.addEventListener("keydown", (event) => this.#key(event as KeyboardEvent));
    this.#enable();
  }

  connectedCallback(): void {
    const { signal } = (this.#connected = new AbortController());
    document.addEventListener("visibilitychange", () => this.#schedule(), { signal });
    const sizes = new ResizeObserver(() => this.#resized());
    sizes.observe(this.#tree);
    const view = new IntersectionObserver(([entry]) => {
      this.#seen = entry!.isIntersecting;
      this.#schedule();
    });
    view.observe(this.#stage);
    signal.addEventListener("abort", () => [sizes, view].forEach((observer) => observer.disconnect()));
    if (this.#trace) this.#schedule();
  }

  disconnectedCallback(): void {
    this.#connected?.abort();
    clearTimeout(this.#timer);
  }

  attributeChangedCallback(name: string, _old: string | null, value: string | null): void {
    if (name !== "src") this.#name();
    else if (value !== null) void this.#load(value);
  }

  async #load(address: string): Promise<void> {
    const before = ++this.#changes;
    try {
      const response = await fetch(new URL(address, document.baseURI));
      if (!response.ok) throw new Error(`the server answered ${response.status}`);
      const trace = readTrace(new Uint8Array(await response.arrayBuffer()));
      if (this.#changes !== before) return; // a page has set another trace meanwhile
      this.trace = trace;
      if (this.hasAttribute("autoplay") && !this.#calm?.matches) this.play();
    } catch (cause) {
      setText(this.#caption, `${address} cannot be played: ${errorOf(cause).message}`);
    }
  }

  /** The trace that is shown. Setting one shows its first round. */
  get trace(): Trace | undefined {
    return this.#trace;
  }

  set trace(trace: Trace | undefined) {
    this.#changes++;
    this.#trace = trace;
    this.#restart();
  }

  /** Whether it plays, or would if it were in view. */
  get playing(): boolean {
    return this.#playing;
  }

  /** Plays on from the round that is shown; after the last round, from the first. */
  play(): void {
    const order = this.#ordered();
    if (!order) return;
    this.#playing = true;
    if (!order.next(this.#place)) {
      this.#written = 0;
      this.#show({ round: 0, step: 0 });
    }
    this.#schedule();
  }

  pause(): void {
    this.#playing = false;
    clearTimeout(this.#timer);
    this.#flights.replaceChildren();
    this.#enable();
  }

  /** Pauses, and shows a round, from 1, with its tokens in the text. */
  show(round: number): void {
    const order = this.#ordered();
    if (!order) return;
    this.pause();
    const last = order.trace.rounds.length - 1;
    this.#show(order.end(Math.min(Math.max(Math.trunc(round) - 1, 0), last)), true);
  }

  /** Shows a run while it is under way: the prompt now, the text of its rounds with {@link add}, then a new trace. */
  begin(prompt: string): void {
    this.#changes++;
    this.pause();
    this.#trace = this.#order = this.#drawn = undefined;
    this.#written = 0;
    this.#nodes.replaceChildren();
    this.#edges.replaceChildren();
    this.#text.replaceChildren(el("span", { class: "prompt" }, prompt));
    setText(this.#caption, "Running at full speed");
    this.#lanes.show(undefined, 0);
    this.#enable();
  }

  /** Adds a round of the run that {@link begin} began. */
  add(round: TracedRound): void {
    if (round.tokens.length === 0) return;
    this.#text.append(textOf(round, ++this.#written));
    this.#scroll ??= requestAnimationFrame(() => {
      this.#scroll = undefined;
      if (!this.#trace) this.#text.scrollTop = this.#text.scrollHeight;
    });
  }

  #restart(): void {
    this.pause();
    this.#order = this.#drawn = undefined;
    this.#written = 0;
    this.#place = { round: 0, step: 0 };
    const rounds = this.#trace?.rounds.length ?? 0;
    this.#scrub.max = String(Math.max(rounds, 1));
    this.#text.replaceChildren(el("span", { class: "prompt" }, this.#trace?.prompt ?? ""));
    this.#enable();
    const order = this.#ordered();
    if (order) this.#show(this.#calm?.matches ? order.end(0) : this.#place);
  }

  /** The order of the trace's rounds; undefined if there is nothing to show. */
  #ordered(): Order | undefined {
    if (!this.#trace?.rounds.length) return undefined;
    this.#lines ||= this.#room();
    return (this.#order ??= new Order(this.#trace, this.#lines));
  }

  #room(): number {
    return Math.max(3, Math.floor(this.#tree.clientHeight / NODE.height));
  }

  #resized(): void {
    const lines = this.#room();
    if (lines !== this.#lines) {
      this.#lines = lines;
      this.#order = undefined;
    }
    this.#drawn = undefined;
    const order = this.#ordered();
    if (!order) return;
    const { round, step } = this.#place;
    this.#show({ round, step: Math.min(step, order.end(round).step) });
  }

  #enable(): void {
    const nothing = !this.#trace?.rounds.length;
    for (const control of [this.#play, this.#step, this.#scrub]) control.disabled = nothing;
    const ended = !nothing && !this.#playing && !this.#ordered()!.next(this.#place);
    setText(this.#play, this.#playing ? "Pause" : ended ? "Watch again" : "Play");
    this.#step.disabled ||= ended;
  }

  #name(): void {
    const [draft, target] = [this.getAttribute("draft"), this.getAttribute("target")];
    setText(this.#models, [draft && `small: ${draft}`, target && `large: ${target}`].filter(Boolean).join(" · "));
  }

  #move(to: "next" | "previous"): void {
    const place = this.#ordered()?.[to](this.#place);
    if (!place) return;
    this.pause();
    this.#show(place, true);
  }

  /** Waits for the end of the step that is shown, unless nobody sees it. */
  #schedule(): void {
    clearTimeout(this.#timer);
    this.#enable();
    const order = this.#ordered();
    if (!this.#playing || !order || !this.#seen || document.hidden || !this.isConnected) return;
    this.#timer = setTimeout(() => {
      const next = order.next(this.#place);
      if (!next) return this.pause();
      this.#show(next);
      this.#schedule();
    }, order.step(this.#place).ms / this.#factor);
  }

  get #factor(): number {
    return Number(this.#speed.value);
  }

  /** Whether things may move now. */
  get #moves(): boolean {
    return this.#playing && !this.#calm?.matches && !document.hidden;
  }

  #show(place: Place, told = false): void {
    const order = this.#ordered();
    if (!order) return;
    const { round, step } = place;
    const begins = round !== this.#place.round || step === 0;
    this.#place = place;
    const scene = order.scene(round);
    const { phase, column } = order.step(place);
    if (scene !== this.#drawn) this.#draw(scene);
    const decided = phase === "keep" || phase === "write";
    const elements = [...this.#nodes.children] as HTMLElement[];
    scene.nodes.forEach((node, i) => {
      const hidden = node.kind === "own" ? !decided : node.column > column;
      const state = !decided ? "guess" : node.kind === "rejected" ? "gone" : node.kind;
      elements[i]!.className = `node ${node.kind === "root" ? "root" : state}${hidden ? " off" : ""}`;
      this.#edges.children[i]?.setAttribute("class", `edge ${state}${hidden ? " off" : ""}`);
    });
    const { ms } = order.trace.rounds[round]!;
    const words = caption(scene, phase, ms.draft + ms.verify + ms.host);
    const more = scene.hidden > 0 ? ` (${scene.hidden} of the guesses not drawn)` : "";
    this.#caption.replaceChildren(el("b", {}, `Round ${round + 1}`), ` ${words}${more}`);
    this.#write(order, phase === "write" ? round + 1 : round);
    const written = phase === "write" ? round : round - 1;
    this.#lanes.show(order, written);
    this.#scrub.value = String(round + 1);
    this.#scrub.setAttribute("aria-valuetext", `Round ${round + 1} of ${order.trace.rounds.length}`);
    this.#enable();
    if (this.#moves && phase === "check") this.#sweeps();
    if (this.#moves && phase === "write") this.#fly(scene);
    if (phase === "write" && (told || (this.#playing && this.#factor < 1))) setText(this.#told, sentence(order, round));
    if (begins)
      this.dispatchEvent(
        new CustomEvent("foretoken-shown", { detail: { round: round + 1 }, bubbles: true, composed: true }),
      );
  }

  /** Draws the nodes of a scene, in the places that they keep. */
  #draw(scene: Scene): void {
    this.#drawn = scene;
    const { clientWidth, clientHeight } = this.#tree;
    const pitch = Math.min(
      NODE.width + 74,
      Math.max(NODE.least, (clientWidth - NODE.width) / Math.max(scene.columns - 1, 1)),
    );
    const width = Math.min(NODE.width, pitch - Math.min(NODE.gap, pitch / 5));
    const fit = (clientWidth - width) / Math.max(scene.columns - 1, 1);
    const step = Math.max(NODE.least, Math.min(NODE.width + 74, fit));
    const line = Math.min(NODE.line, clientHeight / Math.max(scene.lines, 1));
    const x = (column: number): number => column * step;
    const y = (at: number): number => at * line;
    this.#edges.setAttribute("width", String(x(scene.columns - 1) + width));
    this.#edges.setAttribute("height", String(clientHeight));
    this.#edges.replaceChildren(
      ...scene.nodes.map(({ parent, column, line: at, probability = 1 }) => {
        const from = scene.nodes[parent];
        if (!from) return svg("path", {});
        const [x1, x2, y1, y2] = [x(from.column) + width, x(column), y(from.line), y(at)];
        const bend = (x2 - x1) * 0.55;
        return svg("path", {
          d: `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`,
          "stroke-width": 1 + 4 * probability,
        });
      }),
    );
    this.#nodes.replaceChildren(
      ...scene.nodes.map(({ text, column, line: at, probability }) => {
        const share = probability === undefined ? "" : `${Math.round(100 * probability)} %`;
        const label = el("span", {}, visible(text) || "end");
        const node = el("span", { title: text }, label, ...(share ? [el("small", {}, share)] : []));
        node.style.width = `${width}px`;
        node.style.left = `${x(column)}px`;
        node.style.top = `${y(at)}px`;
        return node;
      }),
    );
  }

  /** Writes the first `rounds` rounds; later ones that were there stay, dimmed. */
  #write(order: Order, rounds: number): void {
    const { trace } = order;
    for (; this.#written < rounds; this.#written++)
      this.#text.append(textOf(trace.rounds[this.#written]!, this.#written + 1));
    while (this.#text.children.length > this.#written + 1) this.#text.lastElementChild!.remove();
    if (rounds === trace.rounds.length && trace.rest) this.#text.append(el("span", { class: "rest" }, trace.rest));
    for (const group of this.#text.querySelectorAll<HTMLElement>("[data-round]")) {
      const round = Number(group.dataset["round"]);
      group.classList.toggle("later", round > rounds);
      group.classList.toggle("now", round === rounds);
    }
    const now = this.#text.children[rounds] as HTMLElement;
    const below = now.offsetTop + now.offsetHeight - this.#text.clientHeight;
    this.#text.scrollTop = Math.max(0, below + 12);
  }

  #sweeps(): void {
    const end = Math.max(this.#edges.clientWidth, 40);
    this.#sweep.animate(
      [
        { transform: "translateX(0)", opacity: 0.9 },
        { transform: `translateX(${end}px)`, opacity: 0.9 },
      ],
      { duration: 560 / this.#factor, easing: "ease-in-out" },
    );
  }

  /** Moves the kept path from the tree to its place in the text. */
  #fly(scene: Scene): void {
    const origin = this.#flights.getBoundingClientRect();
    const tokens = [...(this.#text.querySelector(".now")?.children ?? [])] as HTMLElement[];
    const path = scene.nodes.flatMap((node, i) => (node.kind === "kept" || node.kind === "relaxed" ? [i] : []));
    path.sort((a, b) => scene.nodes[a]!.column - scene.nodes[b]!.column);
    const own = scene.nodes.findIndex(({ kind }) => kind === "own");
    if (own >= 0) path.push(own);
    const box = this.#text.getBoundingClientRect();
    path.forEach((node, i) => {
      const token = tokens[Math.min(i, tokens.length - 1)];
      const from = this.#nodes.children[node]?.getBoundingClientRect();
      if (!token || !from) return;
      const to = token.getBoundingClientRect();
      const flying = el("span", { class: `flight ${scene.nodes[node]!.kind}` }, visible(scene.nodes[node]!.text));
      flying.style.left = `${from.left - origin.left}px`;
      flying.style.top = `${from.top - origin.top}px`;
      flying.style.width = `${from.width}px`;
      this.#flights.append(flying);
      const y = Math.min(to.top, box.bottom - to.height) - from.top;
      const timing = { duration: FLIGHT / this.#factor, delay: (i * 70) / this.#factor, easing: "ease-in" };
      token.animate([{ opacity: 0 }, { opacity: 0 }], { duration: timing.duration + timing.delay });
      flying
        .animate(
          [
            { transform: "none", opacity: 1 },
            { transform: `translate(${to.left - from.left}px, ${y}px)`, opacity: 0.85 },
          ],
          { ...timing, fill: "backwards" },
        )
        .finished.then(
          () => flying.remove(),
          () => flying.remove(),
        );
    });
  }

  #key(event: KeyboardEvent): void {
    if (!this.#order || event.ctrlKey || event.metaKey || event.altKey) return;
    if ((event.target as Element).closest("button, input, select")) return;
    const { round } = this.#place;
    const act = {
      " ": () => (this.#playing ? this.pause() : this.play()),
      ArrowRight: () => this.#move("next"),
      ArrowLeft: () => this.#move("previous"),
      PageDown: () => this.show(round + 2),
      PageUp: () => this.show(round),
      Home: () => this.show(1),
      End: () => this.show(Infinity),
    }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }
}

/** The tokens of a round, marked by their origin. */
function textOf({ tokens }: TracedRound, round: number): HTMLElement {
  return el(
    "span",
    { "data-round": round },
    ...tokens.map(({ text, kind }) =>
      el("span", { class: kind === "accepted" ? "kept" : kind === "relaxed" ? "relaxed" : "own" }, text),
    ),
  );
}

if (globalThis.customElements && !customElements.get("foretoken-tree"))
  customElements.define("foretoken-tree", ForetokenTree);

declare global {
  interface HTMLElementTagNameMap {
    "foretoken-tree": ForetokenTree;
  }
}
