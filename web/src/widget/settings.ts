/** The form of a request's settings; it shows only the settings of the selected method. */
import { ForetokenError } from "../protocol/errors.ts";
import {
  type Config,
  configOf,
  DEFAULT_METHOD,
  DEFAULTS,
  EXACTNESS,
  exactnessOf,
  METHODS,
  problemOf,
  titleOf,
  type Loaded,
} from "../engine/methods.ts";
import { limitOf, rangeOf } from "../engine/options.ts";
import { DEVICES } from "../protocol/devices.ts";
import type { Exactness, GenerateRequest } from "../protocol/protocol.ts";
import { el, setText } from "./dom.ts";
import {
  attributeOf,
  type Field,
  FIELDS,
  has,
  isOn,
  kindOf,
  parseFlag,
  parseNumber,
  parseShape,
  problemIn,
  quote,
  stepOf,
} from "./fields.ts";
import { lineOf, PRESETS } from "./presets.ts";
import { endOf } from "./prompts.ts";

type Input = HTMLInputElement | HTMLSelectElement;

/** The form fields of the settings. */
export class SettingsForm {
  readonly speculation = el("input", { type: "checkbox", role: "switch", id: "speculation", checked: true });
  readonly policy = methodSelect();
  readonly device = el(
    "select",
    { id: "device" },
    ...Object.entries(DEVICES)
      .filter(([, device]) => !device.unlisted)
      .map(([value, { label }]) => el("option", { value }, label)),
  );
  /** The input and the box of each field; the box includes the label. */
  readonly fields = new Map<Field, { input: Input; box: HTMLElement }>(FIELDS.map((field) => [field, fieldOf(field)]));
  /** The presets, each with a line about the method and its exactness. */
  readonly presets = el(
    "fieldset",
    { class: "presets", id: "presets" },
    el("legend", {}, "Presets"),
    ...PRESETS.map(presetOf),
  );
  readonly about = el("p", { class: "method-about", id: "method-about" });
  readonly reset = el("button", { type: "button", id: "reset", class: "quiet" }, "Reset all settings");
  readonly badge = el("span", { class: "badge", id: "exactness" });
  #loaded: Loaded | undefined;
  /** Why an attribute's text is no value of its field, which then shows its default. */
  readonly #refused = new Map<Field, string>();
  /** Called when a setting, and with it {@link problems}, may have changed. */
  onRefresh = (): void => undefined;

  constructor() {
    for (const input of [this.speculation, this.policy]) input.addEventListener("change", () => this.refresh());
    this.presets.addEventListener("change", () => {
      this.set("policy", this.presets.querySelector<HTMLInputElement>("input:checked")!.value);
      // A preset resets the method to its own settings.
      for (const field of FIELDS) if (field.group !== "sampling") this.#put(field, null);
      this.refresh();
    });
    this.reset.addEventListener("click", () => {
      for (const field of FIELDS) this.#put(field, null);
      this.set("policy", null);
    });
    for (const [field, { input, box }] of this.fields) {
      box.querySelector(".reset")?.addEventListener("click", () => {
        this.#put(field, null);
        input.focus();
        this.refresh();
      });
      input.addEventListener("change", () => {
        this.#refused.delete(field);
        this.refresh();
      });
    }
    this.refresh();
  }

  /** What is wrong with the attributes' texts; a request of such a field is refused. */
  get problems(): string[] {
    return [...this.#refused.values()];
  }

  /** Sets the field of an attribute; null restores the default. */
  set(name: string, value: string | null): void {
    if (name === "policy") {
      const policy = value ?? DEFAULT_METHOD;
      this.speculation.checked = policy !== "none";
      if (policy !== "none") choose(this.policy, policy);
    } else if (name === "device") {
      choose(this.device, value || "auto");
    } else {
      const field = FIELDS.find((f) => attributeOf(f) === name);
      if (field) this.#put(field, value);
    }
    this.refresh();
  }

  #put(field: Field, text: string | null): void {
    const { input } = this.fields.get(field)!;
    // An empty attribute counts as absent, but for flags.
    const kind = kindOf(field);
    let value = text === "" && kind !== "flag" ? null : text;
    const problem = value === null ? undefined : problemIn(field, value);
    if (problem) {
      this.#refused.set(field, `${attributeOf(field)}: ${quote(value!)} ${problem}`);
      value = null;
    } else this.#refused.delete(field);
    if (kind === "flag")
      (input as HTMLInputElement).checked = value === null ? isOn(field) : parseFlag(value) !== false;
    else if (kind === "choice") choose(input as HTMLSelectElement, value ?? "");
    else if (kind === "shape") input.value = value ?? "";
    else input.value = String(parseNumber(value ?? "") ?? startOf(field));
  }

  /** Disables the methods that the loaded models cannot run. */
  allow(loaded: Loaded): void {
    this.#loaded = loaded;
    for (const option of this.policy.options) {
      const problem = problemOf({ policy: option.value }, loaded);
      option.disabled = problem !== undefined;
      option.title = problem ?? "";
    }
    if (this.policy.selectedOptions[0]?.disabled) {
      const possible = [DEFAULT_METHOD, ...METHODS.map((m) => m.name)].find(
        (name) => name !== "none" && !problemOf({ policy: name }, loaded),
      );
      if (possible) this.policy.value = possible;
    }
    this.refresh();
  }

  /** Shows the settings of the method and its exactness. */
  refresh(): void {
    const on = this.speculation.checked;
    this.policy.disabled = !on;
    let config = configOf({ policy: "none" });
    if (on) {
      try {
        config = configOf(this.request(""));
      } catch {
        config = configOf({ policy: this.policy.value }); // a shape that cannot be read yet
      }
    }
    // An empty field means the method's own setting.
    const bare = { ...configOf({ policy: this.policy.value }), adapt: config.adapt };
    for (const [field, { input, box }] of this.fields) {
      box.hidden = !has(config, field);
      if (["number", "shape"].includes(kindOf(field))) input.setAttribute("placeholder", unsetOf(field, bare));
    }
    for (const [field, { input, box }] of this.fields) {
      const hint = box.querySelector(".hint");
      if (hint) setText(hint, `${capital(field.help)}. ${limitsOf(field, bare)}`);
      const reset = box.querySelector<HTMLElement>(".reset");
      if (reset) reset.style.visibility = untouched(field, input) ? "hidden" : "visible";
    }
    const method = on ? this.policy.value : "none";
    setText(this.about, lineOf(method));
    for (const radio of this.presets.querySelectorAll("input")) {
      radio.checked = radio.value === method;
      const problem = this.#loaded && problemOf({ policy: radio.value }, this.#loaded);
      radio.disabled = problem !== undefined;
      radio.parentElement!.title = problem ?? "";
    }
    const exactness = this.exactness;
    this.badge.className = `badge ${exactness}`;
    this.badge.textContent = EXACTNESS[exactness].label;
    this.badge.title = EXACTNESS[exactness].hint;
    this.onRefresh();
  }

  /** The exactness of the current request. */
  get exactness(): Exactness {
    if (!this.speculation.checked) return "exact";
    const verifier = [...this.fields].find(([field]) => field.name === "verifier")![1].input.value;
    return exactnessOf({ policy: this.policy.value, ...(verifier ? { verifier } : {}) });
  }

  /**
   * Returns the request, with the rule that ends an example's text. `speculative` ignores the switch and that rule,
   * because comparisons measure as many tokens as are set. Throws a ForetokenError if a setting is invalid.
   */
  request(prompt: string, speculative = false): GenerateRequest {
    const on = speculative || this.speculation.checked;
    const end = speculative ? {} : endOf(prompt);
    const request: GenerateRequest = { prompt, policy: on ? this.policy.value : "none", ...end };
    // Read names first, because they determine the other settings.
    for (const field of [...FIELDS].sort((a, b) => Number(b.group === "parts") - Number(a.group === "parts"))) {
      if (!has(configOf(request), field)) continue;
      const refused = this.#refused.get(field);
      if (refused) throw new ForetokenError("bad_option", refused, field.name);
      const value = this.#value(field);
      if (value !== undefined) Object.assign(request, { [field.name]: value });
    }
    return request;
  }

  #value(field: Field): unknown {
    const { input } = this.fields.get(field)!;
    switch (kindOf(field)) {
      case "number":
        return parseNumber(input.value) ?? (field.unset ? undefined : DEFAULTS[field.name]);
      case "choice":
        return input.value || undefined;
      case "flag":
        return (input as HTMLInputElement).checked === isOn(field) ? undefined : !isOn(field);
      case "shape": {
        const problem = input.value.trim() === "" ? undefined : problemIn(field, input.value);
        if (problem) throw new ForetokenError("bad_option", `shape: ${quote(input.value)} ${problem}`, "shape");
        return parseShape(input.value);
      }
    }
  }

  /** Why the loaded models cannot run the current request, or undefined. */
  get problem(): string | undefined {
    if (!this.#loaded || !this.speculation.checked) return undefined;
    return problemOf(this.request(""), this.#loaded);
  }
}

/** Lists all methods, grouped by exactness, except plain decoding, which the switch selects. */
function methodSelect(): HTMLSelectElement {
  const groups = (["exact", "distribution", "lossy"] as const).map((exactness) =>
    el(
      "optgroup",
      { label: EXACTNESS[exactness].group },
      ...METHODS.filter((m) => m.name !== "none" && exactnessOf({ policy: m.name }) === exactness).map((m) =>
        el(
          "option",
          { value: m.name, selected: m.name === DEFAULT_METHOD },
          titleOf(m) + (exactness === "lossy" ? " (lossy)" : ""),
        ),
      ),
    ),
  );
  return el("select", { id: "policy" }, ...groups);
}

function fieldOf(field: Field): { input: Input; box: HTMLElement } {
  const common = { id: field.name, "aria-describedby": `hint-${field.name}` };
  const kind = kindOf(field);
  let input: Input;
  switch (kind) {
    case "number":
      input = el("input", {
        ...common,
        type: "number",
        inputmode: field.whole ? "numeric" : "decimal",
        step: stepOf(field),
        ...boundsOf(field),
        value: startOf(field),
      });
      break;
    case "choice":
      input = el(
        "select",
        common,
        el("option", { value: "" }, field.choices!.includes(field.unset!) ? "default" : field.unset!),
        ...field.choices!.map((c) => el("option", { value: c }, c)),
      );
      break;
    case "flag":
      input = el("input", { ...common, type: "checkbox", checked: isOn(field) });
      break;
    case "shape":
      input = el("input", { ...common, type: "text", spellcheck: "false" });
  }
  const hint = el("small", { class: "hint", id: `hint-${field.name}` });
  const reset = el(
    "button",
    { type: "button", class: "reset", "aria-label": `Reset ${field.label}`, title: "Back to the default" },
    "↺",
  );
  if (kind === "flag")
    return {
      input,
      box: el(
        "div",
        { class: "field" },
        el("span", { class: "field-head" }, el("label", { class: "flag", for: field.name }, input, field.label), reset),
        hint,
      ),
    };
  const label = el("label", { for: field.name }, field.label + (field.unit ? `, ${field.unit}` : ""));
  return {
    input,
    box: el(
      "div",
      { class: kind === "shape" ? "field wide" : "field" },
      el("span", { class: "field-head" }, label, reset),
      input,
      hint,
    ),
  };
}

/** The bounds of a number's arrows, where all methods have the same. */
function boundsOf(field: Field): { min?: number; max?: number } {
  const limit = limitOf(field.name);
  if (!limit) return {};
  return {
    min: limit.zero === undefined ? limit.least : 0,
    ...(limit.most < Number.MAX_VALUE ? { max: limit.most } : {}),
  };
}

const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/** Returns the text of a number's field by default: the default request's, or none where something else decides. */
const startOf = (field: Field): string => (field.unset ? "" : String(DEFAULTS[field.name]));

/** Describes the meaning of an empty field: the method's setting, or the table's words. */
function unsetOf(field: Field, config: Config): string {
  const own = (config as object as Record<string, unknown>)[field.name];
  return typeof own === "object" ? JSON.stringify(own) : own ? String(own) : (field.unset ?? "");
}

/** Describes the limits and the default of a field. */
function limitsOf(field: Field, config: Config): string {
  const limit = limitOf(field.name);
  switch (kindOf(field)) {
    case "number":
      return (limit ? `Takes ${rangeOf(limit)}; ` : "") + `${unsetOf(field, config) || startOf(field)} by default`;
    case "flag":
      return `${isOn(field) ? "On" : "Off"} by default`;
    default:
      return `${capital(field.unset!)} by default`;
  }
}

function untouched(field: Field, input: Input): boolean {
  if (kindOf(field) === "flag") return (input as HTMLInputElement).checked === isOn(field);
  return input.value === (kindOf(field) === "number" ? startOf(field) : "");
}

function presetOf(name: string): HTMLElement {
  const method = METHODS.find((m) => m.name === name);
  const exactness = exactnessOf({ policy: name });
  return el(
    "label",
    { class: "preset" },
    el("input", { type: "radio", name: "preset", value: name }),
    el(
      "span",
      {},
      el("b", {}, method ? titleOf(method) : name),
      " ",
      el("span", { class: `badge ${exactness}`, title: EXACTNESS[exactness].hint }, EXACTNESS[exactness].label),
      el("small", {}, lineOf(name)),
    ),
  );
}

/** Selects a name, even an unknown one; the engine reports it. */
function choose(select: HTMLSelectElement, value: string): void {
  if (![...select.options].some((option) => option.value === value)) select.append(el("option", { value }, value));
  select.value = value;
}
