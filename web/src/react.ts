"use client";
/**
 * `foretoken/react`: a hook that loads models and generates text, and the types of the elements in JSX, for React 19.
 * A file that only needs the types imports `type {} from "foretoken/react"`.
 *
 * ```ts
 * const { state, text, generate, stop } = useForetoken({ device: "auto" });
 * ```
 *
 * @packageDocumentation
 */
import { type DetailedHTMLProps, type HTMLAttributes, useEffect, useMemo, useRef, useState } from "react";
import {
  type Comparison,
  type Engine,
  type EngineInfo,
  Foretoken,
  ForetokenError,
  type ForetokenWidget,
  type GenerateOptions,
  type GenerateRequest,
  type LoadOptions,
  type Progress,
  type Result,
  type RoundEvent,
} from "./foretoken.ts";
import type { ForetokenRace, ForetokenTree, RaceTraces, Trace } from "./player/player.ts";
import type { Attribute } from "./widget/attributes.ts";

/** The state of a component's engine and of its last generation. */
export interface ForetokenState {
  state: "idle" | "loading" | "ready" | "generating" | "failed";
  /** The last step of loading. */
  progress?: Progress | undefined;
  engine?: Engine | undefined;
  /** The text of the last generation so far, without the prompt. */
  text: string;
  /** The result of the last generation, once it has ended. */
  result?: Result | undefined;
  /** Why the last load or generation failed. */
  error?: ForetokenError | undefined;
}

/** What {@link useForetoken} returns; its functions stay the same for the life of the component. */
export interface UseForetoken extends ForetokenState {
  /** Loads the models if they are not; resolves with undefined if that fails, and `error` says why. */
  load(): Promise<Engine | undefined>;
  /** Loads the models if they are not, then continues a prompt; resolves with undefined if that fails. */
  generate(prompt: string, options?: GenerateOptions): Promise<Result | undefined>;
  /** Ends the running generation within a round. */
  stop(): void;
}

/** The engine of a component. */
class Held {
  options: LoadOptions = {};
  #loading: Promise<Engine> | undefined;
  #cancel = new AbortController();
  #run: { stop(): void } | undefined;
  readonly #set: (next: (before: ForetokenState) => ForetokenState) => void;

  constructor(set: (next: (before: ForetokenState) => ForetokenState) => void) {
    this.#set = set;
  }

  readonly load = async (): Promise<Engine | undefined> => {
    const { signal } = this.#cancel;
    try {
      return await (this.#loading ??= this.#start(signal));
    } catch (cause) {
      if (signal.aborted) return undefined;
      this.#loading = undefined;
      return this.#fail(cause);
    }
  };

  readonly generate = async (prompt: string, options: GenerateOptions = {}): Promise<Result | undefined> => {
    const engine = await this.load();
    if (!engine) return undefined;
    const { signal } = this.#cancel;
    try {
      const run = (this.#run = engine.generate(prompt, options));
      this.#show({ state: "generating", text: "", result: undefined, error: undefined });
      for await (const round of run) {
        if (signal.aborted) return undefined;
        this.#set((before) => ({ ...before, text: before.text + round.text }));
      }
      const result = await run.result;
      this.#show({ state: "ready", text: result.text, result });
      return result;
    } catch (cause) {
      return signal.aborted ? undefined : this.#fail(cause, "ready");
    } finally {
      this.#run = undefined;
    }
  };

  readonly stop = (): void => this.#run?.stop();

  /** Releases the models; a later call loads them again. */
  release(): void {
    this.#cancel.abort();
    this.#cancel = new AbortController();
    void this.#loading?.then(
      (engine) => engine.dispose(),
      () => undefined,
    );
    this.#loading = this.#run = undefined;
  }

  async #start(signal: AbortSignal): Promise<Engine> {
    this.#show({ state: "loading", error: undefined });
    const { options } = this;
    const engine = await Foretoken.load({
      ...options,
      signal: options.signal ? AbortSignal.any([options.signal, signal]) : signal,
      onProgress: (progress) => {
        options.onProgress?.(progress);
        if (!signal.aborted) this.#show({ progress });
      },
    });
    if (!signal.aborted) this.#show({ state: "ready", engine });
    return engine;
  }

  #show(part: Partial<ForetokenState>): void {
    this.#set((before) => ({ ...before, ...part }));
  }

  #fail(cause: unknown, state: ForetokenState["state"] = "failed"): undefined {
    const error = cause instanceof ForetokenError ? cause : new ForetokenError("internal", String(cause));
    this.#show({ state, error });
  }
}

/**
 * Holds an engine for a component: the first call of `load` or `generate` loads the models with these options, and the
 * engine is released when the component leaves the page. To load other models, give the component another `key`.
 */
export function useForetoken(options: LoadOptions = {}): UseForetoken {
  const [state, setState] = useState<ForetokenState>({ state: "idle", text: "" });
  const ref = useRef<Held | undefined>(undefined);
  const held = (ref.current ??= new Held(setState));
  useEffect(() => {
    held.options = options;
  });
  useEffect(() => () => held.release(), [held]);
  return useMemo(() => ({ ...state, load: held.load, generate: held.generate, stop: held.stop }), [state, held]);
}

/** The attributes of `<foretoken-widget>` in JSX. A setting that is off is written as a text: `coupled="false"`. */
export type WidgetAttributes = Partial<Record<Attribute, string | number | true | undefined>> &
  Partial<Record<"autoload" | "full" | "confirm", boolean | undefined>>;

/** The listeners of `<foretoken-widget>` in JSX, of which React 19 makes listeners of events. */
export interface WidgetListeners {
  "onforetoken-ready"?: ((event: CustomEvent<EngineInfo>) => void) | undefined;
  "onforetoken-start"?: ((event: CustomEvent<GenerateRequest>) => void) | undefined;
  "onforetoken-round"?: ((event: CustomEvent<RoundEvent>) => void) | undefined;
  "onforetoken-done"?: ((event: CustomEvent<Result>) => void) | undefined;
  "onforetoken-compared"?: ((event: CustomEvent<Comparison>) => void) | undefined;
  "onforetoken-error"?: ((event: CustomEvent<ForetokenError>) => void) | undefined;
}

/** The properties of `<foretoken-widget>` in JSX. */
export type WidgetProps = DetailedHTMLProps<HTMLAttributes<ForetokenWidget>, ForetokenWidget> &
  WidgetAttributes &
  WidgetListeners;

/** The properties of `<foretoken-tree>` in JSX. */
export type TreeProps = DetailedHTMLProps<HTMLAttributes<ForetokenTree>, ForetokenTree> & {
  src?: string | undefined;
  autoplay?: boolean | undefined;
  draft?: string | undefined;
  target?: string | undefined;
  trace?: Trace | undefined;
  "onforetoken-shown"?: ((event: CustomEvent<{ round: number }>) => void) | undefined;
};

/** The properties of `<foretoken-race>` in JSX. */
export type RaceProps = DetailedHTMLProps<HTMLAttributes<ForetokenRace>, ForetokenRace> & {
  plain?: string | undefined;
  speculative?: string | undefined;
  traces?: RaceTraces | undefined;
};

declare module "react" {
  namespace JSX {
    interface IntrinsicElements {
      "foretoken-widget": WidgetProps;
      "foretoken-tree": TreeProps;
      "foretoken-race": RaceProps;
    }
  }
}
