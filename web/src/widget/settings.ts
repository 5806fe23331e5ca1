/** The settings of a generation: their limits, their fields, and their attributes. */
import { DEFAULTS } from "../engine.ts";
import type { DeviceChoice, GenerateRequest, Policy } from "../protocol.ts";
import { el } from "./dom.ts";

export interface NumberField {
  /** The request's key; the attribute is the same with dashes. */
  key: "depth" | "top_k" | "nodes" | "seed" | "temperature" | "max_tokens";
  label: string;
  hint: string;
  min: number;
  max: number;
  step: number;
  /** Belongs to the draft tree, so it means nothing without speculation. */
  tree: boolean;
}

export const NUMBER_FIELDS: readonly NumberField[] = [
  { key: "depth", label: "Depth", hint: "Draft passes after the first level", min: 1, max: 12, step: 1, tree: true },
  { key: "top_k", label: "Top-k", hint: "Beams kept per level, and candidates each proposes", min: 1, max: 16, step: 1, tree: true },
  { key: "nodes", label: "Nodes N", hint: "Nodes verified in one target pass, root included", min: 2, max: 64, step: 1, tree: true },
  { key: "temperature", label: "Temperature", hint: "0 is greedy", min: 0, max: 2, step: 0.1, tree: false },
  { key: "seed", label: "Seed", hint: "The same seed gives the same text, with or without speculation", min: 0, max: 2 ** 31 - 1, step: 1, tree: false },
  { key: "max_tokens", label: "Max tokens", hint: "Where to stop at the latest", min: 1, max: 4096, step: 1, tree: false },
];

export const POLICIES: readonly { value: Exclude<Policy, "none">; label: string; needsDraft: boolean }[] = [
  { value: "eagle2", label: "EAGLE-2 tree", needsDraft: true },
  { value: "chain", label: "Chain", needsDraft: true },
  { value: "ngram", label: "N-gram lookup", needsDraft: false },
];

export const DEVICES: readonly { value: DeviceChoice; label: string }[] = [
  { value: "auto", label: "Automatic" },
  { value: "webgpu", label: "WebGPU" },
  { value: "cpu", label: "CPU" },
];

/** A number within a field's limits, or its default when the text is none. */
export function clampNumber(field: NumberField, text: string): number {
  const value = text.trim() === "" ? NaN : Number(text);
  if (!Number.isFinite(value)) return DEFAULTS[field.key];
  const bounded = Math.min(field.max, Math.max(field.min, value));
  return field.step >= 1 ? Math.round(bounded) : bounded;
}

/** The attribute of a number field: max_tokens is max-tokens. */
export function attributeOf(field: NumberField): string {
  return field.key.replaceAll("_", "-");
}

/** The form fields of the settings. */
export class SettingsForm {
  readonly speculation = el("input", { type: "checkbox", role: "switch", id: "speculation", checked: true });
  readonly policy = el("select", { id: "policy" }, ...POLICIES.map((p) => el("option", { value: p.value }, p.label)));
  readonly device = el("select", { id: "device" }, ...DEVICES.map((d) => el("option", { value: d.value }, d.label)));
  readonly numbers = new Map(
    NUMBER_FIELDS.map((field) => [
      field.key,
      el("input", {
        type: "number",
        id: field.key,
        inputmode: field.step < 1 ? "decimal" : "numeric",
        min: field.min,
        max: field.max,
        step: field.step,
        value: DEFAULTS[field.key],
        title: field.hint,
      }),
    ]),
  );
  readonly target = el("input", { type: "file", id: "target-file", accept: ".gguf" });
  readonly draft = el("input", { type: "file", id: "draft-file", accept: ".gguf" });

  constructor() {
    this.speculation.addEventListener("change", () => this.refresh());
    this.policy.addEventListener("change", () => this.refresh());
    for (const field of NUMBER_FIELDS) {
      const input = this.numbers.get(field.key)!;
      // What is shown is what is used: a value out of bounds is corrected on leaving the field.
      input.addEventListener("change", () => (input.value = String(clampNumber(field, input.value))));
    }
  }

  /** Takes one attribute of the element; null restores the default. */
  set(name: string, value: string | null): void {
    if (name === "policy") {
      const policy = value ?? DEFAULTS.policy;
      this.speculation.checked = policy !== "none";
      if (POLICIES.some((p) => p.value === policy)) this.policy.value = policy;
    } else if (name === "device") {
      this.device.value = DEVICES.some((d) => d.value === value) ? value! : "auto";
    } else {
      const field = NUMBER_FIELDS.find((f) => attributeOf(f) === name);
      if (field) this.numbers.get(field.key)!.value = String(clampNumber(field, value ?? ""));
    }
    this.refresh();
  }

  /** Without a draft only the n-gram policy is left. */
  allowDraft(has: boolean): void {
    for (const option of this.policy.options) option.disabled = !has && POLICIES.some((p) => p.value === option.value && p.needsDraft);
    if (this.policy.selectedOptions[0]?.disabled) this.policy.value = "ngram";
    this.refresh();
  }

  /** Greys out what has no effect. */
  refresh(): void {
    const on = this.speculation.checked;
    this.policy.disabled = !on;
    for (const field of NUMBER_FIELDS) {
      const unused = field.tree && (!on || (field.key !== "depth" && this.policy.value !== "eagle2"));
      this.numbers.get(field.key)!.disabled = unused;
    }
  }

  request(prompt: string): GenerateRequest {
    const request: GenerateRequest = { ...DEFAULTS, prompt, policy: this.speculation.checked ? (this.policy.value as Policy) : "none" };
    for (const field of NUMBER_FIELDS) request[field.key] = clampNumber(field, this.numbers.get(field.key)!.value);
    return request;
  }

  /** The speculative policy chosen, whether or not speculation is on. */
  get speculative(): Policy {
    return this.policy.value as Policy;
  }
}
