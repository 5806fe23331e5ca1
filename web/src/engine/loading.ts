/** Checks the options of {@link Foretoken.load}, describes their files to the worker, and starts it. */
import { errorOf, ForetokenError } from "../protocol/errors.ts";
import type {
  Channel,
  DeviceChoice,
  FromWorker,
  HeadQuantise,
  Keep,
  OpenOptions,
  Progress,
  Quantise,
  SourceSpec,
  Sources,
  ToWorker,
} from "../protocol/protocol.ts";
import { addressesOf } from "../sources/hosts.ts";
import { address, brief, HUB, resolve } from "../sources/hub.ts";
import { type Check, checkFields, FUNCTION, membersOf, SIGNAL, TEXT, typeName, wrong } from "./options.ts";
import { isTrusted } from "./trusted.ts";
import { spawn, type WorkerSource } from "./spawn.ts";

/**
 * A file to load: an address relative to the page, a name on a hub (`owner/repo/file.gguf`,
 * `owner/repo@revision/file.gguf`), or a local file. `#sha256=…` after an address gives the checksum that the file
 * must have.
 *
 * For a model, the address of one part stands for all parts of a split GGUF file, the address of `model.safetensors`
 * or its index for all files of the checkpoint, and `owner/repo` for the only model of a repository.
 */
export type FileSource = string | URL | File | Blob;

/** A model to load: one file, or a list of all its files. */
export type ModelSource = FileSource | readonly FileSource[];

/** A worker or a stand-in for one. */
export interface WorkerLike extends Channel<FromWorker, ToWorker> {
  addEventListener(type: "message", listener: (event: { data: FromWorker }) => void): void;
  addEventListener(type: "error" | "messageerror", listener: (event: { message?: string }) => void): void;
  terminate(): void;
}

/** Options of {@link Foretoken.load}: the models, the device and the limits. */
export interface LoadOptions {
  /** The model that generates the text. Default: the built-in pair with its calibrations. */
  target?: ModelSource | undefined;
  /** The small model that drafts. Without it, only methods that need no draft are available. */
  draft?: ModelSource | null | undefined;
  /** An EAGLE-3 head for the target: its GGUF file, or its safetensors file with its config.json in `eagle3_config`. */
  eagle3?: FileSource | null | undefined;
  eagle3_config?: FileSource | null | undefined;
  /** JSON files of `foretoken calibrate` and `foretoken train` for the pair; "builtin" selects the built-in pair's. */
  calibrations?: "builtin" | readonly FileSource[] | undefined;
  /** The hub that resolves names; default https://huggingface.co. */
  hub?: string | undefined;
  /** The origins that the worker may ask for the models; default: the origins of the given addresses. */
  hosts?: readonly string[] | undefined;
  /** Whether the browser stores downloads and checks them for changes on the server; default "auto". */
  cache?: Keep | undefined;
  /** Converts the matrices to this type. Default: the type of the file. */
  quantise?: Quantise | undefined;
  /** Converts the matrices of an EAGLE-3 head to this type, which cannot change the text. Default: as in the file. */
  eagle3_quantise?: HeadQuantise | undefined;
  /** Nodes of the largest tree that can be verified, including the root; default 64. */
  max_nodes?: number | undefined;
  /** "auto", the default, uses a hardware GPU and falls back to the CPU; `info.device.note` says why. */
  device?: DeviceChoice | undefined;
  /**
   * Threads of the cpu device, 1 to 64. Default: one per core, at most eight; one if the page is not isolated. Each
   * dispatched program uses as many of them as it is fastest with.
   */
  threads?: number | undefined;
  /** Positions of the KV cache. Default: the model's limit, at most 4096. */
  context?: number | undefined;
  /** The type of stored keys and values; q8 takes a quarter of the memory of f32. */
  kv?: "f32" | "f16" | "q8" | undefined;
  /** Limit of the models' memory on the device, in bytes. Default: no limit. */
  max_memory?: number | undefined;
  /** The most `top_logprobs` that a request can ask for; default 2, at most 64. */
  candidates?: number | undefined;
  /** Seconds that a call waits before it treats the device as hung and reopens it; default 30, in software 300. */
  device_timeout?: number | undefined;
  /** Receives each step of loading. After a lost device it receives the loss and each step of reloading. */
  onProgress?: ((progress: Progress) => void) | undefined;
  /** Aborting terminates the worker; `load` rejects with code "aborted". */
  signal?: AbortSignal | undefined;
  /**
   * The address of the package's worker.js if it is not in the folder of this module, or a function that starts the
   * worker. The worker loads foretoken.wasm from its own folder. A page that requires Trusted Types gives a
   * TrustedScriptURL.
   */
  worker?: WorkerSource | undefined;
}

const KEEPS: readonly unknown[] = ["auto", "first", "check", "off"] satisfies Keep[];
const isNumber = (value: unknown): boolean => typeof value === "number" || typeof value === "bigint";
const NUMBER: Check = ["a number", isNumber];
const isText = TEXT[1];

/** Checks of {@link LoadOptions}; the program checks numbers and names, {@link specOf} the files. */
const CHECKS: Record<keyof LoadOptions, Check | undefined> = {
  target: undefined,
  draft: undefined,
  eagle3: undefined,
  eagle3_config: undefined,
  calibrations: [`"builtin" or a list of files`, (value) => value === "builtin" || Array.isArray(value)],
  hub: TEXT,
  hosts: ["a list of origins", (value) => Array.isArray(value) && value.every(isText)],
  cache: [KEEPS.join(", "), (value) => KEEPS.includes(value)],
  quantise: TEXT,
  eagle3_quantise: TEXT,
  max_nodes: NUMBER,
  device: TEXT,
  threads: NUMBER,
  context: NUMBER,
  kv: TEXT,
  max_memory: NUMBER,
  candidates: NUMBER,
  device_timeout: NUMBER,
  onProgress: FUNCTION,
  signal: SIGNAL,
  worker: [
    "an address or a function",
    (value) => isText(value) || value instanceof URL || isTrusted(value) || FUNCTION[1](value),
  ],
};

/** The most calibrations of one load. */
const MOST_CALIBRATIONS = 16;

/** Returns the options of a load, after checks of their names and types. Null counts as absent. */
export function checkedOptions(given: LoadOptions): LoadOptions {
  const options = membersOf(given, Object.keys(CHECKS));
  checkFields(options, CHECKS);
  const { calibrations } = options;
  if (Array.isArray(calibrations) && calibrations.length > MOST_CALIBRATIONS)
    throw wrong("calibrations", `has ${calibrations.length} files, want at most ${MOST_CALIBRATIONS}`);
  return options;
}

/** Returns the fields whose values are not undefined. */
export function defined<T extends object>(of: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(of).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]: Exclude<T[K], undefined>;
  };
}

/** The options that the program reads in the same words, besides the device. */
const PROGRAM_OPTIONS = [
  "threads", "device_timeout", "max_memory", "context", "kv", "candidates", "max_nodes", "quantise",
  "eagle3_quantise",
] as const;

/** Returns the options that the program reads. */
export function optionsOf(options: LoadOptions): OpenOptions {
  const given = Object.fromEntries(PROGRAM_OPTIONS.map((name) => [name, options[name]]));
  const builtin_calibrations = options.calibrations === "builtin" || undefined;
  return { device: options.device ?? "auto", ...(defined({ ...given, builtin_calibrations }) as object) };
}

/** Returns the files of the models to load. Throws an error that names an option without one. */
export function sourcesOf(options: LoadOptions): Sources<SourceSpec> {
  const { target, draft, calibrations } = options;
  if (!target) throw wrong("target", `is missing; ${draft ? "a draft needs a target" : "name a model"}`);
  const where = { ...options, hub: options.hub && located("hub", () => address(options.hub!, here())) };
  const one = (name: "draft" | "eagle3" | "eagle3_config"): SourceSpec | null => {
    const file = options[name];
    return file === undefined || file === null || file === "" ? null : modelOf(name, file, where);
  };
  const files = calibrations && calibrations !== "builtin" ? calibrations : [];
  return {
    target: modelOf("target", target, where),
    draft: one("draft"),
    eagle3: one("eagle3"),
    eagle3_config: one("eagle3_config"),
    calibrations: files.map((file, i) => specOf(`calibrations[${i}]`, file, { ...where, cache: "off" })),
  };
}

/** Returns the addresses that loading these models asks for. */
export function addressesIn(options: LoadOptions): string[] {
  return options.target ? addressesOf(sourcesOf(checkedOptions(options))) : [];
}

/** The base of relative addresses. */
const here = (): string | undefined => globalThis.document?.baseURI ?? globalThis.location?.href;

/** Adds the name of an option to an error of its address. */
function located<T>(name: string, resolved: () => T): T {
  try {
    return resolved();
  } catch (cause) {
    const { code, message } = errorOf(cause);
    throw new ForetokenError(code, `${name}: ${message}`, name.replace(/\[.*/, ""));
  }
}

type Where = Pick<LoadOptions, "hub" | "cache">;

function modelOf(name: string, model: ModelSource, where: Where): SourceSpec {
  if (!Array.isArray(model) || name.startsWith("eagle3")) return specOf(name, model as FileSource, where);
  if (model.length === 0) throw wrong(name, "is an empty list; want the files of a model");
  return { kind: "files", files: model.map((file: FileSource, i) => specOf(`${name}[${i}]`, file, where)) };
}

/** Resolves URLs on the page: relative ones refer to the page, not to the worker's script. */
export function specOf(name: string, file: FileSource, { hub, cache }: Where): SourceSpec {
  const kind = Object.prototype.toString.call(file).slice("[object ".length, -1); // also of another frame's File
  if (kind === "File" || kind === "Blob")
    return { kind: "file", file: file as Blob, name: kind === "File" ? brief((file as File).name) : "file" };
  return located(name, () => {
    if (typeof file !== "string" && kind !== "URL") throw wrong("", `${typeName(file)} is no address and no file`);
    const { url, sha256 } = resolve(String(file), here(), hub || HUB);
    return { kind: "url", url, ...(sha256 ? { sha256 } : {}), ...(cache ? { cache } : {}) };
  });
}

/** Starts the worker. */
export function start(given: LoadOptions["worker"]): WorkerLike {
  const isAddress = typeof given === "string" || given instanceof URL;
  return spawn(
    isAddress ? located("worker", () => address(String(given), here())) : given,
  ) as unknown as WorkerLike;
}
