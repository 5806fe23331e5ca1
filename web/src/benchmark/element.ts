/**
 * `<foretoken-benchmark>`, the page's benchmark tab: compares methods on prompts with the models of a widget. Loaded
 * when the tab opens.
 */
import { DEFAULT_METHOD, DEFAULTS, EXACTNESS, exactnessOf, METHODS, problemOf, titleOf } from "../engine/methods.ts";
import type { BenchPrompt, BenchReport, BenchRow, BenchUpdate } from "../protocol/protocol.ts";
import { bars, categoriesOf, COLUMNS, lostNotes, methodRow, METRICS, parsePrompts, rowsOf, toCSV } from "./table.ts";
import { profileCards } from "./profile.ts";
import style from "../styles/benchmark.css";
import controlsStyle from "../styles/controls.css";
import themeStyle from "../styles/theme.css";
import widgetStyle from "../styles/widget.css";
import type { ForetokenWidget } from "../widget/element.ts";
import { el, setText } from "../widget/dom.ts";
import { EXAMPLES } from "../widget/examples.ts";

/** The methods selected at first: the default and three simple ones to compare it with. */
const CHOSEN = new Set([DEFAULT_METHOD, "auto", "chain", "ngram"]);

export class ForetokenBenchmark extends HTMLElement {
  /** The widget that provides the models. */
  widget: ForetokenWidget | undefined;
  /** The last report. */
  report: BenchReport | undefined;

  readonly #methods = new Map(
    METHODS.filter((m) => m.name !== "none").map((m) => [
      m.name,
      el("input", { type: "checkbox", id: `bench-${m.name}`, checked: CHOSEN.has(m.name) }),
    ]),
  );
  readonly #extra = el("textarea", {
    id: "bench-extra",
    rows: 2,
    spellcheck: "false",
    placeholder: "eagle2:depth=4,top-k=4,nodes=16,mars:theta=0.84",
  });
  readonly #fromWidget = button("bench-add", "Add the settings of Generate", "chip");
  readonly #examples = EXAMPLES.map(({ title }, i) =>
    el("input", { type: "checkbox", id: `bench-example-${i}`, checked: true, "aria-label": title }),
  );
  readonly #jsonl = el("textarea", {
    id: "bench-prompts",
    rows: 2,
    spellcheck: "false",
    placeholder: '{"id": "mine-1", "prompt": "func onlyDigits(s string) bool {"}',
  });
  readonly #file = el("input", { type: "file", id: "bench-file", accept: ".jsonl,.json,.txt" });
  readonly #repeat = numberInput("bench-repeat", 1, 20, 3);
  readonly #tokens = numberInput("bench-tokens", 1, 4096, Math.min(32, DEFAULTS.max_tokens));
  readonly #temperature = numberInput("bench-temperature", 0, 2, DEFAULTS.temperature, 0.1);
  readonly #seed = numberInput("bench-seed", 0, 2 ** 31 - 1, DEFAULTS.seed);
  readonly #run = button("bench-run", "Run", "primary");
  readonly #profile = button("bench-profile", "Profile");
  readonly #doctor = button("bench-doctor", "Check the device");
  readonly #stop = button("bench-stop", "Stop");
  readonly #status = el(
    "span",
    { id: "bench-status", role: "status" },
    "Every prompt also runs with plain decoding; the order alternates, and a gain counts if repetitions agree on it.",
  );
  readonly #progress = el("progress", { id: "bench-progress", max: 1, value: 0, "aria-label": "Cells measured" });
  readonly #error = el("div", { class: "error", id: "bench-error", role: "alert", hidden: true });
  readonly #charts = el("div", { class: "charts" });
  readonly #category = el("select", { id: "bench-category", "aria-label": "Prompts" });
  readonly #table = el("table", { id: "bench-table" });
  readonly #missing = el("ul", { class: "missing", id: "bench-missing" });
  readonly #json = button("bench-json", "JSON");
  readonly #csv = button("bench-csv", "CSV");
  readonly #profiled = el("div", { class: "results", id: "bench-profiled", hidden: true });
  readonly #results: HTMLElement;
  #rows: readonly BenchRow[] = [];

  constructor() {
    super();
    const root = this.attachShadow({ mode: "open" });
    root.adoptedStyleSheets = [themeStyle, controlsStyle, widgetStyle, style].map((css) => {
      const sheet = new CSSStyleSheet();
      sheet.replaceSync(css);
      return sheet;
    });
    this.#stop.disabled = this.#json.disabled = this.#csv.disabled = true;
    this.#run.addEventListener("click", () => void this.run().catch(() => undefined));
    this.#profile.addEventListener("click", () => void this.profile().catch(() => undefined));
    this.#doctor.addEventListener("click", () => void this.doctor().catch(() => undefined));
    this.#stop.addEventListener("click", () => this.widget?.stop());
    this.#fromWidget.addEventListener("click", () => this.#addFromWidget());
    this.#category.addEventListener("change", () => this.#draw());
    this.#json.addEventListener("click", () =>
      this.#download("bench.json", "application/json", JSON.stringify(this.report, null, 2) + "\n"),
    );
    this.#csv.addEventListener("click", () => this.#download("bench.csv", "text/csv", toCSV(this.report!)));
    this.#results = el(
      "section",
      { class: "results", "aria-label": "Results" },
      el(
        "div",
        { class: "card" },
        el("h2", {}, "By method", el("small", {}, "means over prompts, ± over repetitions"), this.#category),
        this.#charts,
      ),
      el(
        "div",
        { class: "card" },
        el("h2", {}, "All figures", el("span", { class: "downloads" }, this.#json, this.#csv)),
        el("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": "All figures, scrolls" }, this.#table),
        this.#missing,
      ),
      this.#profiled,
    );
    root.append(
      el(
        "div",
        { class: "foretoken benchmark" },
        this.#error,
        el("div", { class: "columns" }, this.#form(), this.#results),
      ),
    );
    this.#show([]);
  }

  #form(): HTMLElement {
    const groups = (["exact", "distribution", "lossy"] as const).map((exactness) =>
      el(
        "fieldset",
        {},
        el("legend", {}, EXACTNESS[exactness].group, ...(exactness === "lossy" ? [" ", badge()] : [])),
        ...METHODS.filter((m) => m.name !== "none" && exactnessOf({ policy: m.name }) === exactness).map((m) =>
          el(
            "label",
            { class: "flag", for: `bench-${m.name}` },
            this.#methods.get(m.name)!,
            el("b", {}, m.name),
            el("small", {}, titleOf(m)),
          ),
        ),
      ),
    );
    return el(
      "section",
      { class: "work", "aria-label": "What to measure" },
      el(
        "div",
        { class: "card" },
        el("h2", {}, "Run"),
        el(
          "div",
          { class: "grid" },
          field("bench-repeat", "Repetitions", this.#repeat),
          field("bench-tokens", "Tokens each", this.#tokens),
          field("bench-temperature", "Temperature", this.#temperature),
          field("bench-seed", "Seed", this.#seed),
        ),
        el("div", { class: "actions" }, this.#run, this.#profile, this.#doctor, this.#stop, this.#status),
        this.#progress,
      ),
      el(
        "div",
        { class: "card methods" },
        el("h2", {}, "Methods"),
        ...groups,
        field("bench-extra", "More methods, with settings after a colon", this.#extra),
        this.#fromWidget,
      ),
      el(
        "div",
        { class: "card" },
        el("h2", {}, "Prompts"),
        el(
          "div",
          { class: "flags" },
          ...EXAMPLES.map(({ title }, i) =>
            el("label", { class: "flag", for: `bench-example-${i}` }, this.#examples[i]!, title),
          ),
        ),
        field("bench-prompts", "More prompts: one JSON object per line, with prompt, id and category", this.#jsonl),
        field("bench-file", "A file of such lines", this.#file),
      ),
    );
  }

  /** Disables the methods that the loaded models cannot run. */
  refresh(): void {
    const info = this.widget?.engine?.info;
    if (!info) return;
    for (const [name, input] of this.#methods) {
      const problem = problemOf({ policy: name }, info);
      input.disabled = problem !== undefined;
      input.parentElement!.title = problem ?? "";
      if (problem) input.checked = false;
    }
  }

  /** Runs the selected methods and prompts, after loading the widget's models if necessary. */
  async run(): Promise<BenchReport> {
    const widget = this.widget;
    if (!widget) throw new Error("the benchmark has no widget to take models from");
    this.#showError(undefined);
    this.#busy(true);
    try {
      setText(this.#status, "Loading the models");
      const prompts = await this.#prompts();
      if (prompts.length === 0)
        throw new Error("prompts: none selected; select an example, paste prompts or choose a file");
      if (!widget.engine) await widget.load();
      this.refresh();
      const names = [...this.#methods].filter(([, input]) => input.checked).map(([name]) => name);
      const methods = ["none:name=plain", ...names, this.#extra.value.trim().replace(/,$/, "")]
        .filter(Boolean)
        .join(",");
      this.#show([]);
      const report = await widget.bench(
        {
          methods,
          prompts,
          repeat: value(this.#repeat),
          request: { max_tokens: value(this.#tokens), temperature: value(this.#temperature), seed: value(this.#seed) },
        },
        (update) => this.#update(update),
      );
      this.report = report;
      this.#show(report.rows);
      const missing = report.missing ?? [];
      this.#missing.append(
        ...missing.map(({ method, prompt, reason }) => {
          const where = method && prompt ? `on prompt ${prompt}: ` : "";
          return el("li", {}, el("b", {}, method ?? `prompt ${prompt}`), ` skipped: ${where}${reason}`);
        }),
      );
      this.#json.disabled = this.#csv.disabled = report.rows.length === 0;
      const measured = prompts.length - missing.filter(({ method }) => !method).length;
      const what = `${measured} prompt${measured === 1 ? "" : "s"} on ${report.device}`;
      setText(this.#status, report.stopped ? `Stopped with partial results. ${what}` : `Done: ${what}`);
      return report;
    } catch (cause) {
      this.#showError(cause instanceof Error ? cause.message : String(cause));
      setText(this.#status, "Not measured");
      throw cause;
    } finally {
      this.#busy(false);
    }
  }

  /** Profiles passes and rounds with the prompt of Generate. */
  profile(): Promise<void> {
    return this.#measure(async (widget, onUpdate) => {
      const { profile, costs } = await widget.profile(onUpdate);
      this.#showProfile(profileCards(profile, costs), "profile", { ...profile, costs });
      return `Done: a profile on ${profile.device}`;
    });
  }

  /** Checks the device and measures it, for comparison with others. */
  doctor(): Promise<void> {
    return this.#measure(async (widget, onUpdate) => {
      const report = await widget.doctor(onUpdate);
      const lines = el("pre", { class: "card", id: "bench-device", tabindex: 0 }, report.summary.join("\n"));
      this.#showProfile([lines], "device", report);
      const wrong = report.checks.filter(({ ok }) => !ok).length;
      return wrong > 0
        ? `${wrong} of ${report.checks.length} kernels are wrong on this device`
        : "Done: the kernels agree with their references";
    });
  }

  #showProfile(cards: HTMLElement[], name: string, report: object): void {
    const json = button(`bench-${name}-json`, `${name[0]!.toUpperCase()}${name.slice(1)} as JSON`, "chip");
    json.addEventListener("click", () =>
      this.#download(`${name}.json`, "application/json", JSON.stringify(report, null, 2) + "\n"),
    );
    this.#profiled.replaceChildren(...cards, json);
    this.#profiled.hidden = false;
  }

  async #measure(
    work: (widget: ForetokenWidget, onUpdate: (update: BenchUpdate) => void) => Promise<string>,
  ): Promise<void> {
    const widget = this.widget;
    if (!widget) throw new Error("the benchmark has no widget to take models from");
    this.#showError(undefined);
    this.#busy(true);
    try {
      setText(this.#status, "Loading the models");
      if (!widget.engine) await widget.load();
      const done = await work(widget, (update) => {
        this.#progress.value = update.total > 0 ? update.done / update.total : 0;
        setText(this.#status, `${update.done} of ${update.total} measured`);
      });
      setText(this.#status, done);
    } catch (cause) {
      this.#showError(cause instanceof Error ? cause.message : String(cause));
      setText(this.#status, "Not measured");
      throw cause;
    } finally {
      this.#busy(false);
    }
  }

  async #prompts(): Promise<BenchPrompt[]> {
    const chosen = EXAMPLES.filter((_, i) => this.#examples[i]!.checked).map(({ title, prompt }) => ({
      id: `example: ${title}`,
      category: "examples",
      prompt,
    }));
    const file = this.#file.files?.[0];
    return [
      ...chosen,
      ...parsePrompts(this.#jsonl.value, "the pasted prompts"),
      ...(file ? parsePrompts(await file.text(), file.name) : []),
    ];
  }

  #addFromWidget(): void {
    try {
      const row = this.widget ? methodRow(this.widget.request) : "";
      if (!row) return;
      const box = this.#methods.get(row); // a method with its defaults
      const rest = this.#extra.value.trim().replace(/,$/, "");
      if (box) box.checked = true;
      else if (!rest.split(",\n").includes(row)) this.#extra.value = rest ? `${rest},\n${row}` : row;
      setText(this.#status, `${row} will be measured.`);
    } catch (cause) {
      this.#showError(cause instanceof Error ? cause.message : String(cause));
    }
  }

  #update(update: BenchUpdate): void {
    this.#progress.value = update.total > 0 ? update.done / update.total : 0;
    setText(
      this.#status,
      `${update.done} of ${update.total} measured` +
        (update.now ? ` · running ${update.now === "none" ? "plain decoding" : update.now}` : ""),
    );
    if (update.rows) this.#show(update.rows);
  }

  #show(rows: readonly BenchRow[]): void {
    this.#rows = rows;
    const chosen = this.#category.value;
    const categories = categoriesOf(rows);
    this.#category.hidden = categories.length < 2;
    this.#category.replaceChildren(
      el("option", { value: "" }, "All prompts"),
      ...categories.map((c) => el("option", { value: c }, c)),
    );
    this.#category.value = categories.includes(chosen) ? chosen : "";
    this.#missing.replaceChildren(
      ...lostNotes(rows).map(({ method, text }) => el("li", {}, el("b", {}, method), `: ${text}`)),
    );
    this.#draw();
  }

  #draw(): void {
    const rows = rowsOf(this.#rows, this.#category.value);
    this.#charts.replaceChildren(
      ...METRICS.map((metric) =>
        el(
          "figure",
          { "data-metric": metric.key },
          el("figcaption", {}, metric.title, el("small", {}, metric.hint)),
          ...(rows.length === 0 ? [el("p", { class: "empty" }, "Not measured yet.")] : []),
          el(
            "ul",
            { class: "bars" },
            ...bars(rows, metric).map((bar) => {
              const fill = el("i", { class: bar.plain || bar.unclear ? "plain" : bar.lossy ? "lossy" : "exact" });
              fill.style.width = `${(100 * bar.length).toFixed(1)}%`;
              return el(
                "li",
                {},
                el("span", { class: "name" }, bar.method, ...(bar.lossy ? [" ", badge()] : [])),
                el("div", { class: "track" }, fill),
                el("b", {}, bar.text),
              );
            }),
          ),
        ),
      ),
    );
    const head = el(
      "tr",
      {},
      el("th", { scope: "col" }, "Method"),
      ...COLUMNS.map((c) => el("th", { scope: "col", title: c.hint }, c.title)),
    );
    const plain = rows.find((row) => row.plain);
    const body = rows.map((row) =>
      el(
        "tr",
        {},
        el("th", { scope: "row" }, row.method, ...(row.lossy ? [" ", badge()] : [])),
        ...COLUMNS.map((c) => el("td", {}, c.of(row, plain))),
      ),
    );
    this.#table.replaceChildren(el("thead", {}, head), el("tbody", {}, ...body));
    this.#table.hidden = rows.length === 0;
  }

  #busy(busy: boolean): void {
    this.#run.disabled = this.#profile.disabled = this.#doctor.disabled = busy;
    this.#stop.disabled = !busy;
    this.#progress.value = 0;
    this.#progress.style.visibility = busy ? "visible" : "hidden";
    this.dataset["state"] = busy ? "running" : "ready";
  }

  #showError(message: string | undefined): void {
    this.#error.hidden = message === undefined;
    setText(this.#error, message ?? "");
  }

  #download(file: string, type: string, content: string): void {
    const link = el("a", {
      href: URL.createObjectURL(new Blob([content], { type })),
      download: `foretoken-${file}`,
    });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  }
}

function badge(): HTMLElement {
  return el("span", { class: "badge lossy", title: EXACTNESS.lossy.hint }, "lossy");
}

function button(id: string, label: string, className = ""): HTMLButtonElement {
  return el("button", { type: "button", id, ...(className ? { class: className } : {}) }, label);
}

function numberInput(id: string, min: number, max: number, start: number, step = 1): HTMLInputElement {
  const input = el("input", { type: "number", id, min, max, step, value: start });
  // Show the value in use.
  input.addEventListener("change", () => {
    const x = input.value.trim() === "" ? NaN : Number(input.value);
    const bounded = Number.isFinite(x) ? Math.min(max, Math.max(min, x)) : start;
    input.value = String(step < 1 ? bounded : Math.round(bounded));
  });
  return input;
}

function value(input: HTMLInputElement): number {
  return Number(input.value);
}

function field(id: string, label: string, input: HTMLElement): HTMLElement {
  return el("div", { class: "field" }, el("label", { for: id }, label), input);
}

if (!customElements.get("foretoken-benchmark")) customElements.define("foretoken-benchmark", ForetokenBenchmark);
