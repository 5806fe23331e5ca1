/** What goes wrong, in a form that programs can act on. */

/**
 * What kind of failure a {@link ForetokenError} is.
 *
 * | code | meaning |
 * |---|---|
 * | `aborted` | the signal given was aborted |
 * | `bad_option` | an option or a field of the request is wrong, or needs something that is not loaded; `param` names it where it is known |
 * | `bad_model` | a file is no model that can be run, is damaged, or does not go with the others |
 * | `no_chat` | the target's file has no chat template that can be rendered; give one, or use `generate` |
 * | `context_full` | the prompt does not fit the context |
 * | `no_webgpu` | WebGPU was asked for and cannot be had here |
 * | `device_lost` | the graphics device was lost several times in a row, or cannot be opened again; a later request tries again |
 * | `timeout` | the graphics device did not answer in time |
 * | `out_of_memory` | the models need more than the device, or `maxMemory`, gives |
 * | `network` | a download failed, after its retries |
 * | `changed` | the file changed on the server while it was read; load again |
 * | `checksum` | the file does not have the checksum it must have |
 * | `quota` | the browser has no room to keep the download |
 * | `unreadable` | a file or an address names nothing that can be read |
 * | `busy` | the engine does one thing at a time, and is at work |
 * | `crash` | the worker, or the program in it, ended by itself; load again |
 * | `disposed` | the engine was disposed |
 * | `internal` | something that should not happen |
 */
export type ForetokenErrorCode =
  | "aborted" | "bad_option" | "bad_model" | "no_chat" | "context_full" | "no_webgpu" | "device_lost" | "timeout" | "out_of_memory"
  | "network" | "changed" | "checksum" | "quota" | "unreadable" | "busy" | "crash" | "disposed" | "internal";

/**
 * Every rejection of the API. The message is one line for people, naming file, field, reason and remedy;
 * programs go by {@link ForetokenError.code | code}.
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
    /** The option or the field of a request that is at fault, where it is known. */
    readonly param?: string | undefined,
    options?: ErrorOptions,
  ) {
    super(message, options);
    this.name = "ForetokenError";
  }
}

/** What is rejected with once `signal` was aborted; the signal's reason is the cause. */
export function aborted(signal?: AbortSignal): ForetokenError {
  return new ForetokenError("aborted", "the request was aborted", undefined, { cause: signal?.reason });
}

/** Rejects as soon as `signal` is aborted, whatever becomes of the work. */
export function abortable<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return work;
  return new Promise<T>((resolve, reject) => {
    const abort = (): void => reject(aborted(signal));
    if (signal.aborted) abort();
    else signal.addEventListener("abort", abort);
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
  });
}
