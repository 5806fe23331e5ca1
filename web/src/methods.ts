/**
 * What there is to know of a method before it runs: its settings as a request
 * changes them, how exact its output is, and what it needs to be loaded. Names
 * and defaults are the Go program's.
 */
import catalog from "foretoken:catalog";
import type { Catalog, EngineInfo, Exactness, GenerateRequest, Method, MethodConfig } from "./protocol.ts";

/** The methods that a request's `policy` may name. */
export const METHODS: readonly Method[] = catalog.methods;

/** The settings a request without any gets, as the Go program has them. */
export const DEFAULTS: Catalog["default"] = catalog.default;

/** The method that a request without a policy uses. */
export const DEFAULT_METHOD: string = catalog.default.policy;

/** A method's settings, with those of a request put over them; the empty names spelled out. */
export interface Config extends MethodConfig {
  mode: string;
  uses_draft: boolean;
}

/** The settings that a request amounts to. An unknown policy has those of a drafter of that name. */
export function configOf(request: Omit<GenerateRequest, "prompt">): Config {
  const policy = request.policy ?? DEFAULT_METHOD;
  const method = METHODS.find((m) => m.name === policy);
  // Without a policy, or with the default's, the default request's own settings count.
  const base = policy === DEFAULT_METHOD ? catalog.default : undefined;
  const of = method?.config;
  return {
    drafter: of?.drafter ?? policy,
    adapt: request.adapt || base?.adapt || of?.adapt || "fixed",
    source: request.source || base?.source || of?.source || "model",
    verifier: request.verifier || base?.verifier || of?.verifier || "match",
    depth: request.depth || base?.depth || of?.depth || 0,
    top_k: request.top_k || base?.top_k || of?.top_k || 0,
    nodes: request.nodes || base?.nodes || of?.nodes || 0,
    ...(request.shape ?? of?.shape ? { shape: request.shape ?? of!.shape! } : {}),
    ngram_max: request.ngram_max || base?.ngram_max || of?.ngram_max || 0,
    ngram_min: request.ngram_min || base?.ngram_min || of?.ngram_min || 0,
    mode: request.mode || "alg1",
    uses_draft: method?.uses_draft ?? true,
  };
}

/** How exact the output of a request is. */
export function exactnessOf(request: Omit<GenerateRequest, "prompt">): Exactness {
  const config = configOf(request);
  if (config.drafter === "none") return "exact"; // plain decoding gives no verifier anything to accept
  return catalog.verifiers.find((v) => v.name === config.verifier)?.exactness ?? "lossy";
}

/** What is said of each kind, shortly and at length. */
export const EXACTNESS: Record<Exactness, { label: string; group: string; hint: string }> = {
  exact: { label: "exact", group: "Exact: the tokens of plain decoding", hint: "The same tokens as plain decoding, at every temperature" },
  distribution: {
    label: "exact in distribution",
    group: "Exact in distribution",
    hint: "Above temperature 0 other tokens than plain decoding with the same seed, drawn from the same distribution",
  },
  lossy: { label: "lossy", group: "Lossy: not the target's own output", hint: "May commit tokens that the target would not have chosen: the output is not plain decoding's" },
};

/** What was loaded, as far as methods need it. */
export type Loaded = Pick<EngineInfo, "draft" | "eagle3" | "fitted">;

/** Why a request cannot be run with what is loaded, or undefined. */
export function problemOf(request: Omit<GenerateRequest, "prompt">, loaded: Loaded): string | undefined {
  const config = configOf(request);
  const eagle3 = config.source === "eagle3";
  if (config.uses_draft && eagle3 && !loaded.eagle3) return "needs an EAGLE-3 head of the target, and none is loaded";
  if (config.uses_draft && !eagle3 && !loaded.draft) return "needs a draft model, and none is loaded";
  switch (config.adapt) {
    case "hetero":
      return loaded.fitted.hetero.length > 0 ? undefined : "needs entropy bins for this pair: foretoken calibrate hetero makes them";
    case "c2t":
      return loaded.fitted.c2t ? undefined : "needs a classifier for this pair: foretoken train c2t makes one";
    case "acceptance":
      return loaded.fitted.acceptance ? undefined : "needs an acceptance head for this draft: foretoken train acceptance-head makes one";
  }
  return undefined;
}

/** A title for people. */
export function titleOf(method: Method): string {
  return method.title.charAt(0).toUpperCase() + method.title.slice(1);
}
