/**
 * Properties of a request before it runs: the resulting settings of its method, how exact its output is, and what it
 * needs to be loaded. Names and defaults come from the Go program.
 */
import catalog from "foretoken:catalog";
import type { Catalog, EngineInfo, Exactness, GenerateRequest, Method, MethodConfig } from "../protocol/protocol.ts";

/** The methods that a request's `policy` may name. */
export const METHODS: readonly Method[] = catalog.methods;

/** The settings that the Go program uses for a request without settings. */
export const DEFAULTS: Catalog["default"] = catalog.default;

/** The method that a request without a policy uses. */
export const DEFAULT_METHOD: string = catalog.default.policy;

/** The settings of a method after a request's overrides, with all names filled in. */
export interface Config extends MethodConfig {
  uses_draft: boolean;
  /** Of the drafter. */
  settings: string[];
}

/** Returns the settings of a request. An unknown policy counts as a drafter of that name. */
export function configOf(request: Omit<GenerateRequest, "prompt">): Config {
  const policy = request.policy ?? DEFAULT_METHOD;
  const method = METHODS.find((m) => m.name === policy);
  const names = { drafter: policy, adapt: "fixed", source: "model", verifier: "match" };
  const config: MethodConfig = { ...names, depth: 0, top_k: 0, nodes: 0, shape: undefined, ngram_max: 0, ngram_min: 0 };
  for (const [name, value] of [...Object.entries(method?.config ?? {}), ...Object.entries(request)])
    if (name in config && value) Object.assign(config, { [name]: value });
  return { ...config, uses_draft: method?.uses_draft ?? true, settings: method?.settings ?? [] };
}

/** Returns how exact the output of a request is. */
export function exactnessOf(request: Omit<GenerateRequest, "prompt">): Exactness {
  const config = configOf(request);
  return catalog.verifiers.find((v) => v.name === config.verifier)?.exactness ?? "lossy";
}

/** Labels and explanations of each kind of exactness. */
export const EXACTNESS: Record<Exactness, { label: string; group: string; hint: string }> = {
  exact: {
    label: "exact",
    group: "Exact: the tokens of plain decoding",
    hint: "The same tokens as plain decoding, at every temperature",
  },
  distribution: {
    label: "exact in distribution",
    group: "Exact in distribution",
    hint: "Above temperature 0 the tokens differ from plain decoding's, but have the same distribution",
  },
  lossy: {
    label: "lossy",
    group: "Lossy: not the target's own output",
    hint: "May commit tokens that the target would not choose: the output can differ from plain decoding's",
  },
};

/** The loaded parts that methods depend on. */
export type Loaded = Pick<EngineInfo, "draft" | "eagle3" | "fitted">;

/** Returns why a request cannot run with the loaded parts, or undefined. */
export function problemOf(request: Omit<GenerateRequest, "prompt">, loaded: Loaded): string | undefined {
  const config = configOf(request);
  const eagle3 = config.source === "eagle3";
  if (config.uses_draft && eagle3 && !loaded.eagle3) return "needs an EAGLE-3 head of the target, which is not loaded";
  if (config.uses_draft && !eagle3 && !loaded.draft) return "needs a draft model, which is not loaded";
  const fitted: Record<string, boolean> = { ...loaded.fitted, hetero: loaded.fitted.hetero.length > 0 };
  const need = catalog.adapts.find((a) => a.name === config.adapt)?.need;
  return need && !fitted[config.adapt] ? `needs ${need}` : undefined;
}

/** Returns the method's title, capitalised. */
export function titleOf(method: Method): string {
  return method.title.charAt(0).toUpperCase() + method.title.slice(1);
}
