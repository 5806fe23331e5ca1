/** The JavaScript API without the widget and the built-in pair: the common exports of all entries. */
import type { Engine, LoadOptions } from "./engine.ts";

/** The entry point of the API. */
export interface Foretoken {
  /**
   * Loads a target and its draft in a new worker, on WebGPU if available, and returns the engine. Without a target
   * `foretoken` and `foretoken/in-place` load the built-in pair. Every rejection is a {@link ForetokenError}.
   *
   * ```ts
   * const engine = await Foretoken.load({
   *   target: "Qwen/Qwen2.5-1.5B-Instruct-GGUF/qwen2.5-1.5b-instruct-q4_0.gguf",
   *   draft: "Qwen/Qwen2.5-0.5B-Instruct-GGUF/qwen2.5-0.5b-instruct-q4_0.gguf",
   *   onProgress: ({ stage, done, total }) => console.log(stage, done, total),
   *   signal: controller.signal,
   * });
   * ```
   */
  load(options?: LoadOptions): Promise<Engine>;
}

export type { Conversation } from "./conversation.ts";
export type { BenchRun, EmbedOptions, Engine, FileSource, LoadOptions, MeasureOptions, ModelSource } from "./engine.ts";
export { ForetokenError, type ForetokenErrorCode } from "../protocol/errors.ts";
export type { GenerateOptions, Generation } from "./generation.ts";
export { HUB } from "../sources/hub.ts";
export { deleteKept, type KeptModel, keptModels, persist, space, type Space } from "../sources/kept-models.ts";
export { DEFAULTS, METHODS, exactnessOf } from "./methods.ts";
export type {
  AssistantMessage,
  ChatCompletion,
  ChatCompletionChunk,
  ChatCompletionRequest,
  ChatCompletions,
  ChatCompletionStream,
  ChatMessage,
  ChoiceLogprobs,
  CompletionOptions,
  FinishReason,
  ResponseFormat,
  TokenLogprob,
  Tool,
  ToolCall,
  Usage,
} from "./openai.ts";
export type {
  BenchMatrix,
  BenchPrompt,
  BenchReport,
  BenchRow,
  BenchUpdate,
  Catalog,
  ChainCeiling,
  ChatOptions,
  ChatReply,
  ChatState,
  CostReport,
  Counts,
  DeviceChoice,
  DeviceInfo,
  DoctorReport,
  Embedding,
  EngineInfo,
  EventToken,
  EventTree,
  Exactness,
  Finish,
  GenerateRequest,
  Inspection,
  HeadQuantise,
  Keep,
  LogitsProcessor,
  Measure,
  Measurement,
  Message,
  Method,
  MethodConfig,
  ModelInfo,
  PassCost,
  PassProfile,
  Pooling,
  ProfileReport,
  Progress,
  Quantise,
  RequestSettings,
  Result,
  Role,
  RoundEvent,
  RoundProfile,
  RoundTimes,
  Stats,
  TokenKind,
  Traffic,
} from "../protocol/protocol.ts";
export type { EngineStats } from "./stats.ts";
export { readTrace, type Trace, type TracedRound } from "../protocol/trace.ts";
