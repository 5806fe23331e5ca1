/** Errors with codes that programs can act on. */

/**
 * The kinds of failure of a {@link ForetokenError}.
 *
 * | code | meaning |
 * |---|---|
 * | `aborted` | the signal given was aborted |
 * | `bad_option` | an option or a request field is invalid, or needs an unloaded part; `param` names it if known |
 * | `bad_model` | a file is not a supported model, is damaged, or does not match the other files |
 * | `no_chat` | the target has no chat template that can be rendered; pass one, or use `generate` |
 * | `context_full` | the prompt does not fit the context |
 * | `no_webgpu` | WebGPU was requested and is not available |
 * | `device_lost` | the GPU was lost several times in a row, or cannot be reopened; a later request tries again |
 * | `timeout` | the GPU did not answer in time |
 * | `out_of_memory` | the models need more than the device, or `max_memory`, gives |
 * | `network` | a download failed after all retries |
 * | `changed` | the file changed on the server while it was read; load again |
 * | `checksum` | the file does not have the expected checksum |
 * | `quota` | the browser has no space to store the download |
 * | `unreadable` | a file, an address or a trace cannot be read |
 * | `busy` | the engine is working, and does one thing at a time |
 * | `crash` | the worker did not start, or it or the Go program in it ended unexpectedly; load again |
 * | `disposed` | the engine was disposed |
 * | `internal` | an unexpected error |
 */
export type ForetokenErrorCode =
  | "aborted"
  | "bad_option"
  | "bad_model"
  | "no_chat"
  | "context_full"
  | "no_webgpu"
  | "device_lost"
  | "timeout"
  | "out_of_memory"
  | "network"
  | "changed"
  | "checksum"
  | "quota"
  | "unreadable"
  | "busy"
  | "crash"
  | "disposed"
  | "internal";

/**
 * The error of every rejection of the API. The message is one line that names the file, the field, the reason and
 * the remedy; programs should check {@link ForetokenError.code | code}.
 *
 * ```ts
 * try {
 *   await Foretoken.load({ target: "owner/repo/model.gguf" });
 * } catch (error) {
 *   if (error instanceof ForetokenError && error.code === "out_of_memory") offerSmallerModel();
 *   else throw error;
 * }
 * ```
 */
export class ForetokenError extends Error {
  constructor(
    /** The kind of failure. */
    readonly code: ForetokenErrorCode,
    message: string,
    /** The invalid option or field of a request, if known. */
    readonly param?: string | undefined,
    options?: ErrorOptions,
  ) {
    super(message, options);
    this.name = "ForetokenError";
  }
}

/** Returns what was thrown, as an error with a code. */
export function errorOf(cause: unknown): ForetokenError {
  if (cause instanceof ForetokenError) return cause;
  return new ForetokenError("internal", String((cause as Error | null)?.message ?? cause), undefined, { cause });
}

/** Returns the error for an aborted `signal`; its cause is the signal's reason. */
export function aborted(signal?: AbortSignal): ForetokenError {
  return new ForetokenError("aborted", "the request was aborted", undefined, { cause: signal?.reason });
}

/** Rejects as soon as `signal` aborts, without waiting for the work. */
export function abortable<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return work;
  return new Promise<T>((resolve, reject) => {
    const abort = (): void => reject(aborted(signal));
    if (signal.aborted) abort();
    else signal.addEventListener("abort", abort);
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
  });
}
