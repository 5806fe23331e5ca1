/**
 * The compare tab: one button measures plain and speculative decoding in turn, without drawing them; then both runs are
 * replayed next to each other, with the verdict and what explains it.
 */
import { EXACTNESS, exactnessOf, METHODS, titleOf } from "../engine/methods.ts";
import { ForetokenRace } from "../player/race.ts";
import { readTrace } from "../protocol/trace.ts";
import compareStyle from "../styles/compare.css";
import controlsStyle from "../styles/controls.css";
import chartStyle from "../styles/line-chart.css";
import themeStyle from "../styles/theme.css";
import widgetStyle from "../styles/widget.css";
import type { Comparison } from "../widget/compare.ts";
import { el, setText, sheet } from "../widget/dom.ts";
import type { ForetokenWidget } from "../widget/element.ts";
import { costChart } from "./cost-chart.ts";

/** The lines of a prompt that are shown, from its end. */
const LINES = 4;

export class ForetokenCompare extends HTMLElement {
  /** The widget that provides models, prompt and settings. */
  widget: ForetokenWidget | undefined;
  /** The result of the last comparison. */
  comparison: Comparison | undefined;
  readonly #button = el("button", { type: "button", id: "compare-start", class: "primary big" }, "Compare");
  readonly #prompt = el("pre", { class: "of", id: "compare-prompt", tabindex: 0, "aria-label": "The prompt" });
  readonly #method = el("span", {});
  readonly #badge = el("span", { class: "badge" });
  readonly #progress = el("progress", { max: 1, value: 0, "aria-label": "Comparing", hidden: true });
  readonly #line = el("p", { class: "verdict", id: "compare-verdict", role: "status" });
  readonly #why = el("p", { class: "muted", id: "compare-why" });
  readonly #tokens = el("p", { class: "tokens", id: "compare-tokens" });
  readonly #race = new ForetokenRace();
  readonly #costs = el("div", { id: "compare-costs" });
  readonly #result = el("div", { class: "result", hidden: true });

  constructor() {
    super();
    const root = this.attachShadow({ mode: "open" });
    root.adoptedStyleSheets = [themeStyle, controlsStyle, widgetStyle, chartStyle, compareStyle].map(sheet);
    this.#button.addEventListener("click", () => {
      if (this.dataset["state"] === "running") this.widget?.stop();
      else void this.run().catch(() => undefined); // the line shows the error
    });
    this.#result.append(this.#race, this.#costs);
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
            "Writes this prompt both ways, in turn, until the difference is clear, and then replays both. Prompt and " +
              "settings are those of ",
            el("a", { href: "#run" }, "your own text"),
            ".",
          ),
          this.#prompt,
          el("div", { class: "actions" }, this.#button, el("span", {}, this.#method, " ", this.#badge)),
          this.#progress,
          this.#line,
          this.#why,
          this.#tokens,
        ),
        this.#result,
      ),
    );
    setText(this.#line, "Not measured yet.");
    this.dataset["state"] = "ready";
  }

  /** Shows the prompt and the method that will be compared. */
  refresh(): void {
    void this.widget?.open().then(({ request }) => {
      const lines = request.prompt.split("\n");
      setText(this.#prompt, (lines.length > LINES ? "…\n" : "") + lines.slice(-LINES).join("\n"));
      const method = METHODS.find(({ name }) => name === request.policy);
      setText(this.#method, method ? titleOf(method) : "");
      const exactness = exactnessOf(request);
      this.#badge.className = `badge ${exactness}`;
      setText(this.#badge, EXACTNESS[exactness].label);
    });
  }

  /** Compares, after loading the models if necessary; undefined if stopped. */
  async run(): Promise<Comparison | undefined> {
    const { widget } = this;
    if (!widget) throw new Error("foretoken-compare: it has no widget to take models from");
    this.refresh();
    this.#race.pause();
    this.#busy(true);
    this.scrollIntoView({ block: "start" }); // so that the replay is in view once it begins
    setText(this.#why, "");
    setText(this.#tokens, "");
    setText(this.#line, "The models are loading …");
    try {
      const outcome = await widget.compare({
        onProgress: ({ text, done }) => {
          this.#progress.value = done;
          setText(this.#line, `${text} …`);
        },
      });
      if (outcome) this.#show(outcome);
      else setText(this.#line, "Stopped before the end: nothing was measured.");
      return outcome;
    } catch (cause) {
      setText(this.#line, cause instanceof Error ? cause.message : String(cause));
      throw cause;
    } finally {
      this.#busy(false);
    }
  }

  #show(outcome: Comparison): void {
    const { verdict, traces, costs } = outcome;
    this.comparison = outcome;
    setText(this.#line, `${verdict.line}.`);
    setText(this.#why, verdict.why);
    setText(this.#tokens, verdict.tokens);
    this.#tokens.className = `tokens ${outcome.exact ? (verdict.good ? "good" : "bad") : outcome.exactness}`;
    this.#result.hidden = false;
    this.#race.traces = { plain: readTrace(traces.plain), speculative: readTrace(traces.speculative) };
    this.#costs.replaceChildren(...(costs ? [costChart(costs)] : []));
    this.#race.play();
  }

  #busy(busy: boolean): void {
    this.#progress.hidden = !busy;
    this.#progress.removeAttribute("value");
    setText(this.#button, busy ? "Stop" : "Compare");
    this.#button.classList.toggle("primary", !busy);
    this.dataset["state"] = busy ? "running" : "ready";
  }
}

if (!customElements.get("foretoken-compare")) customElements.define("foretoken-compare", ForetokenCompare);

declare global {
  interface HTMLElementTagNameMap {
    "foretoken-compare": ForetokenCompare;
  }
}
