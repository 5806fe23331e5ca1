/**
 * The worker's side of the protocol, apart from where the engine comes from, so
 * that tests can serve another engine over a MessageChannel.
 */
import type { ForetokenErrorCode } from "./errors.ts";
import type { Channel, FromWorker, GoEngine, Progress, Source, SourceSpec, Sources, ToWorker, WireError } from "./protocol.ts";
import { Downloads, listed, openModel, type OpenSource, openSource, type Told } from "./sources.ts";

/**
 * Answers messages with an engine made by `start`. The engine is started by the
 * first message that needs it and once only; a failed start is forgotten, so
 * that the next message tries again. `prepare` begins to open WebGPU while the
 * engine starts.
 */
export function serve(channel: Channel<ToWorker, FromWorker>, start: () => Promise<GoEngine>, prepare: () => void = () => undefined): void {
  let starting: Promise<GoEngine> | undefined;
  let running: GoEngine | undefined;
  const engine = (): Promise<GoEngine> => {
    starting ??= start().then(
      (started) => (running = started),
      (cause) => {
        starting = undefined;
        throw cause;
      },
    );
    return starting;
  };

  const answer = async (message: Exclude<ToWorker, { op: "start" | "stop" }>): Promise<string> => {
    const update = (json: string): void => channel.postMessage({ type: "update", id: message.id, json });
    switch (message.op) {
      case "open": {
        if (message.options.device !== "cpu") prepare();
        const loading = new Loading(update);
        try {
          // The program and the first bytes of the models travel at the same time.
          const opened = loading.open(message.sources);
          opened.catch(() => undefined);
          const go = await engine();
          const again = async () => {
            const files = new Loading(update);
            try {
              return { ...(await files.open(message.sources)), close: () => files.close() };
            } catch (cause) {
              files.close();
              throw cause;
            }
          };
          const info = await go.open(JSON.stringify(message.options), { ...(await opened), again }, loading.progress);
          // What Go did not read is kept too, and a file is not used before it is known to be whole.
          await loading.finished().catch(async (cause: unknown) => {
            await go.close();
            throw cause;
          });
          return info;
        } finally {
          loading.close();
        }
      }
      case "generate":
        return (await engine()).generate(JSON.stringify(message.request), update);
      case "chat":
        return (await engine()).chat(JSON.stringify(message.action), update);
      case "bench":
        return (await engine()).bench(JSON.stringify(message.plan), update);
      case "measure":
        return (await engine()).measure(JSON.stringify(message.measurement), update);
      case "methods":
        return (await engine()).methods();
      case "inspect": {
        const opened = await openSource(message.source);
        return (await engine()).inspect(opened);
      }
      case "close":
        // An engine that was never started has nothing to close.
        await running?.close();
        return "null";
      default:
        throw new Error(`foretoken: worker: there is no ${String((message as { op?: unknown }).op)}`);
    }
  };

  channel.addEventListener("message", ({ data }) => {
    if (typeof data !== "object" || data === null) return; // nobody to be told
    if (data.op === "stop") {
      running?.stop();
      return;
    }
    if (data.op === "start") {
      if (data.webgpu) prepare();
      engine().catch(() => undefined); // the message that needs it tries again
      return;
    }
    const { id } = data;
    answer(data).then(
      (json) => channel.postMessage({ type: "done", id, json }),
      (cause: unknown) => channel.postMessage({ type: "error", id, error: wireError(cause) }),
    );
  });
}

/** The files of one load, from their opening until Go has read them. */
class Loading {
  readonly #opened: OpenSource[] = [];
  readonly #control = new AbortController();
  readonly #downloads: Downloads;
  readonly #told: Told;

  constructor(readonly update: (json: string) => void) {
    const tell = (progress: Progress): void => update(JSON.stringify(progress));
    this.#downloads = new Downloads(tell);
    this.#told = {
      download: this.#downloads.tell,
      notice: (note) => tell({ stage: "notice", done: 0, total: 0, note }),
    };
  }

  async open(sources: Sources<SourceSpec>): Promise<Sources<Source, Source | Source[]>> {
    const { signal } = this.#control;
    const model = async (spec: SourceSpec): Promise<Source | Source[]> => {
      const files = await openModel(spec, this.#told, { signal });
      files.forEach((file) => this.#hold(file));
      return files.length === 1 ? files[0]! : files;
    };
    const one = async (spec: SourceSpec): Promise<Source> => this.#hold(await openSource(spec, this.#told, { signal }));
    const several = async (specs: SourceSpec[]): Promise<Source[]> => Promise.all(listed("calibrations", specs).map(one));
    const { target, draft, eagle3, eagle3_config, calibrations } = sources;
    const [t, d, e, c, all] = await Promise.all([model(target), draft && model(draft), eagle3 && one(eagle3), eagle3_config && one(eagle3_config), several(calibrations)]);
    return { target: t, draft: d, eagle3: e, eagle3_config: c, calibrations: all };
  }

  /** Go's steps. While bytes are still to come, how many there are says more than how many Go has read of them. */
  readonly progress = (json: string): void => {
    if (this.#downloads.active && /"stage":"(target|draft|eagle3)"/.test(json)) return;
    this.update(json);
  };

  async finished(): Promise<void> {
    await Promise.all(this.#opened.map((source) => source.finished?.()));
  }

  close(): void {
    this.#control.abort(new DOMException("loading has ended", "AbortError"));
    for (const source of this.#opened) source.close?.();
  }

  #hold<S extends OpenSource>(source: S): S {
    this.#opened.push(source);
    if (this.#control.signal.aborted) source.close?.();
    return source;
  }
}

/** Names of the browser's own errors that say what kind they are. */
const NAMES: Readonly<Record<string, ForetokenErrorCode>> = { AbortError: "aborted", QuotaExceededError: "quota", NotReadableError: "unreadable", NotFoundError: "unreadable" };

/** One line and, where there is one, a code; errors of Go and of JavaScript alike. */
export function wireError(cause: unknown): WireError {
  if (!(cause instanceof Error)) return { message: oneLine(String(cause)) };
  const { code, param } = cause as { code?: unknown; param?: unknown };
  const wire: WireError = { message: oneLine(cause.message) };
  if (typeof code === "string") wire.code = code;
  else if (NAMES[cause.name]) wire.code = NAMES[cause.name]!; // the code of a DOMException is a number
  if (typeof param === "string") wire.param = param;
  return wire;
}

function oneLine(text: string): string {
  return text.replace(/\s+/g, " ").trim() || "unknown error";
}
