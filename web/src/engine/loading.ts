/** What {@link Foretoken.load} takes, and where it leads: the files as the worker opens them, and the worker. */
import { ForetokenError } from "../protocol/errors.ts";
import type {
  Channel,
  DeviceChoice,
  DraftDeviceChoice,
  FromWorker,
  Keep,
  OpenOptions,
  Progress,
  Quantise,
  SourceSpec,
  Sources,
  ToWorker,
} from "../protocol/protocol.ts";
import { addressesOf } from "../sources/hosts.ts";
import { HUB, resolve } from "../sources/hub.ts";
import { namesOf } from "./options.ts";

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
  /** An EAGLE-3 head for the target: its safetensors file, and its config.json in `eagle3_config`. */
  eagle3?: FileSource | null | undefined;
  eagle3_config?: FileSource | null | undefined;
  /**
   * Opens the head only where `auto` gains by it, going by the passes that earlier loads timed on this device, and does
   * without one that cannot be loaded. Results say in `offered_head` which it is. Default: a head that is named is
   * always loaded, and the built-in pair's if it pays.
   */
  eagle3_if_it_pays?: boolean | undefined;
  /** JSON files of `foretoken calibrate` and `foretoken train` for the pair; "builtin" selects the built-in pair's. */
  calibrations?: "builtin" | readonly FileSource[] | undefined;
  /** The hub that resolves names; default https://huggingface.co. */
  hub?: string | undefined;
  /** The origins that the worker may ask for the models; default those of the given addresses. */
  hosts?: readonly string[] | undefined;
  /** Whether the browser stores downloads and checks them for changes on the server; default "auto". */
  cache?: Keep | undefined;
  /** Converts the matrices to this type. Default: the type of the file. */
  quantise?: Quantise | undefined;
  /** Nodes of the largest tree that can be verified, including the root; default 64. */
  max_nodes?: number | undefined;
  /** "auto", the default, uses a hardware GPU and falls back to the CPU; `info.device.note` says why. */
  device?: DeviceChoice | undefined;
  /**
   * A second device, for the draft alone: it drafts on from its best guess while the target verifies. Default: the
   * target's, but `auto` drafts with a copy of a small draft on the cpu device unless that takes longer. "target": the
   * target's always.
   */
  draft_device?: DraftDeviceChoice | undefined;
  /**
   * Threads of the cpu device, 1 to 64. Default: one per core, at most eight, of which each program uses as many as
   * it is fastest with; one if the page is not isolated.
   */
  threads?: number | undefined;
  /** Positions of the KV cache. Default: the model's limit, at most 4096. */
  context?: number | undefined;
  /** Allows a `context` longer than the models were trained for, to time long contexts; its text is meaningless. */
  beyond_training?: boolean | undefined;
  /** The type of stored keys and values; q8 takes a quarter of the memory of f32. */
  kv?: "f32" | "f16" | "q8" | undefined;
  /** Limit of the models' memory on the device, in bytes. Default: no limit. */
  max_memory?: number | undefined;
  /** The most `top_logprobs` that a request can ask for; default 2, at most 64. */
  candidates?: number | undefined;
  /** Seconds that a call waits before it treats the device as hung and reopens it; default 30. */
  device_timeout?: number | undefined;
  /** Receives each step of loading. After a lost device it receives the loss and each step of reloading. */
  onProgress?: ((progress: Progress) => void) | undefined;
  /** Aborting terminates the worker; `load` rejects with code "aborted". */
  signal?: AbortSignal | undefined;
  /**
   * The address of the package's worker.js if it is not in the folder of this module, or a function that starts the
   * worker. The worker loads foretoken.wasm from its own folder.
   */
  worker?: string | URL | (() => Worker) | undefined;
}

/** The names of {@link LoadOptions}. */
export const LOAD_OPTIONS = namesOf<LoadOptions>({
  target: true, draft: true, eagle3: true, eagle3_config: true, eagle3_if_it_pays: true, calibrations: true, hub: true,
  hosts: true, cache: true, quantise: true, max_nodes: true, device: true, draft_device: true, threads: true,
  context: true, kv: true, beyond_training: true, max_memory: true, candidates: true, device_timeout: true,
  onProgress: true, signal: true, worker: true,
});

/** Returns the fields whose values are not undefined. */
export function defined<T extends object>(of: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(of).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]: Exclude<T[K], undefined>;
  };
}

/** The options that the program reads in the same words, besides the device. */
const PROGRAM_OPTIONS = [
  "draft_device", "threads", "device_timeout", "max_memory", "context", "beyond_training", "kv", "candidates",
  "max_nodes", "quantise",
] as const;

/** Returns the options that the program reads. */
export function optionsOf(options: LoadOptions): OpenOptions {
  const given = Object.fromEntries(PROGRAM_OPTIONS.map((name) => [name, options[name]]));
  const builtin_calibrations = options.calibrations === "builtin" || undefined;
  const offered_head = options.eagle3 && options.eagle3_if_it_pays ? nameOf(options.eagle3) : undefined;
  return { device: options.device ?? "auto", ...defined({ ...given, builtin_calibrations, offered_head }) };
}

/** Tells a file from others, between visits. */
const nameOf = (file: FileSource): string =>
  file instanceof Blob ? `${file instanceof File ? file.name : "file"} ${file.size}` : String(file);

/** Returns the files of the models to load. */
export function sourcesOf(options: LoadOptions & { target: ModelSource }): Sources<SourceSpec> {
  const one = (source: ModelSource | null | undefined): SourceSpec | null => (source ? specOf(source, options) : null);
  return {
    target: specOf(options.target, options),
    draft: one(options.draft),
    eagle3: one(options.eagle3),
    eagle3_config: one(options.eagle3_config),
    calibrations:
      options.calibrations === "builtin"
        ? []
        : (options.calibrations ?? []).map((file) => specOf(file, { ...options, cache: "off" })),
  };
}

/** Returns the addresses that loading these models asks for. */
export function addressesIn({ target, ...options }: LoadOptions): string[] {
  return target ? addressesOf(sourcesOf({ ...options, target })) : [];
}

/** The base of relative addresses. */
const here = (): string | undefined => globalThis.document?.baseURI ?? globalThis.location?.href;

/** Resolves URLs on the page: relative ones refer to the page, not to the worker's script. */
export function specOf(source: ModelSource, { hub = HUB, cache }: Pick<LoadOptions, "hub" | "cache">): SourceSpec {
  if (Array.isArray(source))
    return { kind: "files", files: (source as readonly FileSource[]).map((file) => specOf(file, { hub, cache })) };
  const file = source as FileSource;
  if (file instanceof Blob) return { kind: "file", file, name: file instanceof File ? file.name : "file" };
  const { url, sha256 } = resolve(String(file), here(), hub);
  return { kind: "url", url, ...(defined({ sha256, cache }) as { sha256: string; cache: Keep }) };
}

/** Starts the worker. */
export function start(given: LoadOptions["worker"]): WorkerLike {
  if (typeof given === "function") return given() as unknown as WorkerLike;
  if (given) return from(new URL(given, here()).href);
  const ahead = globalThis as { foretokenWorker?: Worker | undefined }; // set by start-worker.ts
  const started = ahead.foretokenWorker;
  ahead.foretokenWorker = undefined;
  if (started) return started as unknown as WorkerLike;
  // Bundlers find the worker by this expression, so it must stay in this form.
  if (new URL(import.meta.url).origin === location.origin)
    return new Worker(new URL("./worker.js", import.meta.url), {
      type: "module",
      name: "foretoken",
    }) as unknown as WorkerLike;
  return from(import.meta.url.replace(/[^/]*$/, "worker.js"));
}

function from(url: string): WorkerLike {
  if (!globalThis.Worker)
    throw new ForetokenError(
      "bad_option",
      "worker: this scope (such as a service worker) cannot start workers; import foretoken/in-place, which needs none",
      "worker",
    );
  const options = { type: "module", name: "foretoken" } as const;
  if (new URL(url).origin === location.origin) return new Worker(url, options) as unknown as WorkerLike;
  // A page may import this module from another origin but not start a worker from there. A worker of its own
  // origin may import the script.
  const shim = URL.createObjectURL(new Blob([`import ${JSON.stringify(url)};`], { type: "text/javascript" }));
  return new Worker(shim, options) as unknown as WorkerLike;
}
