/**
 * The playground tab: sliders give a draft's shape, and show its tree in recorded rounds, what the target keeps of it,
 * and whether it pays on a device. It decodes nothing; "Measure here" times passes on this device.
 */
import type { CostReport } from "../protocol/measurements.ts";
import controlsStyle from "../styles/controls.css";
import chartStyle from "../styles/line-chart.css";
import panelStyle from "../styles/panel.css";
import playgroundStyle from "../styles/playground.css";
import themeStyle from "../styles/theme.css";
import widgetStyle from "../styles/widget.css";
import { el, setText, sheet } from "../widget/dom.ts";
import type { ForetokenWidget } from "../widget/element.ts";
import { TreeView } from "../widget/tree.ts";
import { reachDrawing, speedDrawing } from "./drawing.ts";
import { best, cut, passTime, roundTime, type Shape, SIZES, speedup, within, yieldOf } from "./model.ts";
import { DEVICES, type Device, MOST, RUNS } from "./recorded.ts";
import { STORIES, type Story } from "./stories.ts";

/** A slider with its label and its value in words. */
class Slider {
  readonly input: HTMLInputElement;
  readonly element: HTMLElement;
  readonly #value = el("output", {});
  readonly #words: (value: number) => string;

  constructor(name: string, label: string, least: number, most: number, words: (value: number) => string) {
    this.#words = words;
    this.input = el("input", { type: "range", id: `play-${name}`, min: least, max: most, step: 1 });
    this.#value.htmlFor.add(this.input.id);
    this.element = el("div", { class: "slider" }, el("label", { for: this.input.id }, label), this.#value, this.input);
  }

  get value(): number {
    return Number(this.input.value);
  }

  set value(value: number) {
    this.input.value = String(value);
    this.tell();
  }

  tell(): void {
    setText(this.#value, this.#words(this.value));
    this.input.setAttribute("aria-valuetext", this.#words(this.value));
  }
}

const counted = (n: number, one: string, more = `${one}s`): string => `${n} ${n === 1 ? one : more}`;

export class ForetokenPlayground extends HTMLElement {
  /** The widget whose engine measures this device. */
  widget: ForetokenWidget | undefined;
  #devices: readonly Device[] = DEVICES;
  readonly #sliders = {
    depth: new Slider("depth", "Depth", 1, MOST.depth, (n) => counted(n, "guess in a row", "guesses in a row")),
    topK: new Slider("top-k", "Top-k", 1, MOST.topK, (n) => (n === 1 ? "a chain" : `${n} candidates a node`)),
    nodes: new Slider("nodes", "Nodes", 2, MOST.nodes, (n) => `at most ${n}`),
    temperature: new Slider("temperature", "Temperature", 0, RUNS.length - 1, (i) => String(RUNS[i]!.temperature)),
  };
  readonly #round = new Slider("round", "Recorded round", 1, 1, (n) => `${n} of ${this.#run.trees.length}`);
  readonly #device = el("select", { id: "play-device" });
  readonly #best = el("button", { type: "button", id: "play-best" }, "Best on this device");
  readonly #measure = el("button", { type: "button", id: "play-measure" }, "Measure here");
  readonly #status = el("p", { class: "muted", role: "status" });
  readonly #story = el("p", { class: "story" });
  readonly #verdict = el("p", { class: "verdict", id: "play-verdict" });
  readonly #figures = el("p", { id: "play-figures" });
  readonly #source = el("p", { class: "muted" });
  readonly #reach = el("div", {});
  readonly #speed = el("div", {});
  readonly #stories: ReadonlyMap<Story, HTMLButtonElement>;
  readonly #tree: TreeView;

  constructor() {
    super();
    const root = this.attachShadow({ mode: "open" });
    root.adoptedStyleSheets = [themeStyle, controlsStyle, widgetStyle, panelStyle, chartStyle, playgroundStyle].map(
      sheet,
    );
    this.#stories = new Map(
      STORIES.map((story) => [
        story,
        el("button", { type: "button", class: "chip", "data-story": story.id, "aria-pressed": "false" }, story.title),
      ]),
    );
    const box = el("div", { class: "treebox" });
    const details = el("p", { class: "tree-details", "aria-live": "off" });
    const text = el("pre", { tabindex: 0, "aria-label": "The tree as text" });
    const sliders = [...Object.values(this.#sliders), this.#round];
    root.append(
      el(
        "div",
        { class: "foretoken", lang: "en" },
        el(
          "div",
          { class: "card" },
          el(
            "p",
            { class: "muted" },
            "When does guessing pay? Shape the draft of a recorded run, and see what the large model would have kept.",
          ),
          el("div", { class: "stories", role: "group", "aria-label": "Examples" }, ...this.#stories.values()),
          this.#story,
          el(
            "div",
            { class: "sliders" },
            ...Object.values(this.#sliders).map(({ element }) => element),
            el("div", { class: "slider" }, el("label", { for: "play-device" }, "Device"), this.#device),
            el("div", { class: "actions" }, this.#best, this.#measure),
          ),
          this.#status,
          this.#verdict,
          this.#figures,
        ),
        el(
          "div",
          { class: "card" },
          this.#round.element,
          box,
          details,
          el("details", { class: "tree-text" }, el("summary", {}, "The tree as text"), text),
        ),
        el(
          "div",
          { class: "card weighed" },
          el("div", {}, el("h2", {}, "Speed, in speeds of plain decoding"), this.#speed),
          el("div", {}, el("h2", {}, "Rounds that keep at least so many guesses"), this.#reach),
          this.#source,
        ),
      ),
    );
    this.#tree = new TreeView(box, details, text, "The tree of the recorded round");
    for (const slider of sliders)
      slider.input.addEventListener("input", () => {
        if (slider !== this.#round) this.#tell(undefined);
        this.#draw();
      });
    this.#device.addEventListener("change", () => this.#draw());
    for (const [story, button] of this.#stories) button.addEventListener("click", () => this.play(story));
    this.#best.addEventListener("click", () => this.#choose());
    this.#measure.addEventListener("click", () => void this.measure().catch(() => undefined)); // the status tells
    this.#offer();
    this.play(STORIES[0]!);
  }

  /** Shows a story. */
  play(story: Story): void {
    this.#sliders.temperature.value = RUNS.findIndex(({ temperature }) => temperature === story.temperature);
    this.#device.value = story.device;
    this.#round.value = 1;
    this.#shape = story.shape;
    this.#tell(story);
    this.#draw();
  }

  /** Times passes on this device, after loading the models if necessary, and adds it to the devices. */
  async measure(): Promise<CostReport> {
    if (!this.widget) throw new Error("foretoken-playground: it has no widget to take an engine from");
    this.#measure.disabled = true;
    setText(this.#status, "Measuring. The models load first, if they are not there yet.");
    try {
      const app = await this.widget.open();
      const rows = SIZES.filter((n) => n <= MOST.nodes);
      const costs = await app.measured((engine) => engine.costs({ rows, tokens: MOST.depth }), "Costs measured");
      if (!costs.chain) throw new Error("The draft was not measured: these models have none.");
      const here = { id: "here", name: `Here (${costs.device})`, costs: { verify: costs.verify, chain: costs.chain } };
      this.#devices = [here, ...DEVICES];
      this.#offer();
      this.#device.value = here.id;
      setText(this.#status, `Measured with ${costs.repeat} passes of each size.`);
      this.#draw();
      return costs;
    } catch (cause) {
      setText(this.#status, cause instanceof Error ? cause.message : String(cause));
      throw cause;
    } finally {
      this.#measure.disabled = false;
    }
  }

  get #run() {
    return RUNS[this.#sliders.temperature.value]!;
  }

  get #shape(): Shape {
    const { depth, topK, nodes } = this.#sliders;
    return { depth: depth.value, topK: topK.value, nodes: nodes.value };
  }

  set #shape({ depth, topK, nodes }: Shape) {
    this.#sliders.depth.value = depth;
    this.#sliders.topK.value = topK;
    this.#sliders.nodes.value = nodes;
  }

  get #chosen(): Device {
    return this.#devices.find(({ id }) => id === this.#device.value) ?? this.#devices[0]!;
  }

  #offer(): void {
    this.#device.replaceChildren(...this.#devices.map(({ id, name }) => el("option", { value: id }, name)));
  }

  #choose(): void {
    const { costs } = this.#chosen;
    const sizes = SIZES.filter((n) => n > 1 && n <= MOST.nodes);
    const choices = sizes.map((nodes) => best(costs, this.#run.trees, { ...MOST, nodes }));
    this.#shape = choices.reduce((one, other) => (other.speedup > one.speedup ? other : one)).shape;
    this.#tell(undefined);
    this.#draw();
  }

  /** Marks the story that is shown, or none. */
  #tell(shown: Story | undefined): void {
    for (const [story, button] of this.#stories) button.setAttribute("aria-pressed", String(story === shown));
    setText(this.#story, shown?.text ?? "Your own draft.");
  }

  #draw(): void {
    const [shape, { costs, name }, { trees, temperature }] = [this.#shape, this.#chosen, this.#run];
    this.#round.input.max = String(trees.length);
    for (const slider of [...Object.values(this.#sliders), this.#round]) slider.tell();
    const tree = trees[this.#round.value - 1]!;
    this.#tree.show(cut(tree, within(tree, shape)));
    const brought = yieldOf(trees, shape);
    const [speed, round, one] = [speedup(costs, shape, brought), roundTime(costs, shape, brought), passTime(costs, 1)];
    const outcome = speed > 1 ? "It pays" : "It does not pay";
    setText(this.#verdict, `${outcome}: ${speed.toFixed(2)} times the speed of plain decoding on ${name}.`);
    this.#verdict.classList.toggle("good", speed > 1);
    setText(
      this.#figures,
      `A round writes ${brought.tokens.toFixed(2)} tokens by a pass of ${brought.rows.toFixed(1)} rows, and takes ` +
        `${(round / one).toFixed(2)} times as long as a pass of one row (${round.toFixed(2)} ms and ` +
        `${one.toFixed(2)} ms).`,
    );
    setText(
      this.#source,
      `Tokens are counted in ${trees.length} recorded rounds of the built-in pair at temperature ${temperature}; ` +
        "times were measured on the device, with the built-in pair or, for 4B parameters, with a larger target. " +
        "Its draft is taken to be as quick and as often right as the built-in one.",
    );
    this.#reach.replaceChildren(reachDrawing(brought.reach));
    this.#speed.replaceChildren(speedDrawing(this.#devices, trees, shape, MOST.nodes));
  }
}

if (!customElements.get("foretoken-playground")) customElements.define("foretoken-playground", ForetokenPlayground);

declare global {
  interface HTMLElementTagNameMap {
    "foretoken-playground": ForetokenPlayground;
  }
}
