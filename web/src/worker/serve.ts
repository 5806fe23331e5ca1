/**
 * The worker's side of the protocol. It does not know where the engine comes from, so tests can serve a mock engine
 * over a MessageChannel.
 */
import { hostLabel } from "../protocol/devices.ts";
import type { ForetokenErrorCode } from "../protocol/errors.ts";
import type {
  Ask,
  Channel,
  FromWorker,
  GoEngine,
  OpenedSources,
  OpenOptions,
  Progress,
  Source,
  SourceSpec,
  Sources,
  ToWorker,
  WireError,
} from "../protocol/protocol.ts";
import { fetchFrom } from "../sources/hosts.ts";
import { Downloads, type LoadEvents, openModel, type OpenSource, openSource, requireArray } from "../sources/open.ts";

/**
 * Answers messages with the engine that `start` returns. The first message that needs the engine starts it; after a
 * failed start, the next message tries again. `prepare` starts to open WebGPU while the engine starts.
 */
export function serve(
  channel: Channel<ToWorker, FromWorker>,
  start: () => Promise<GoEngine>,
  prepare: () => void = () => undefined,
): void {
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

  /** Settles the program's question; the page answers it. */
  let asked: { resolve(json: string): void; reject(cause: Error): void } | undefined;
  const asking =
    (id: number, rounds: Rounds): Ask =>
    (json) =>
      new Promise((resolve, reject) => {
        asked = { resolve, reject };
        rounds.send();
        channel.postMessage({ type: "ask", id, json });
      });

  const answer = async (message: Exclude<ToWorker, { op: "start" | "stop" | "answer" }>): Promise<string> => {
    const { id } = message;
    const update = (...json: string[]): void => channel.postMessage({ type: "update", id, json });
    const rounds = new Rounds(update);
    switch (message.op) {
      case "open": {
        const options = JSON.parse(message.options) as OpenOptions;
        if (!hostLabel(options.device)) prepare();
        const loading = new Loading(update, message.hosts);
        try {
          // Fetch the program and the first bytes of the models in parallel.
          const opened = loading.open(message.sources);
          opened.catch(() => undefined);
          const go = await engine();
          let held: OpenedSources | undefined = await opened;
          const again = async () => {
            // In this load: a file that is stored while it downloads is locked, also for a second opening from here.
            if (held) return { ...held, close: () => undefined };
            const files = new Loading(update, message.hosts);
            try {
              const opened = await files.open(message.sources);
              await files.finished(); // Go reads them for a session that is in use
              return { ...opened, close: () => files.close() };
            } catch (cause) {
              files.close();
              throw cause;
            }
          };
          const info = await go.open(message.options, { ...held, again }, loading.progress);
          // Wait for the parts of files that Go did not read, and for checksums, before using the models.
          await loading.finished().catch(async (cause: unknown) => {
            await go.close();
            throw cause;
          });
          held = undefined;
          loading.ready();
          return info;
        } finally {
          loading.close();
        }
      }
      case "generate":
        return (await engine())
          .generate(message.request, rounds.add, asking(id, rounds))
          .finally(rounds.send);
      case "chat":
        return (await engine())
          .chat(message.action, rounds.add, asking(id, rounds))
          .finally(rounds.send);
      case "trace":
        return (await engine()).trace();
      case "openai":
        return (await engine()).openai(message.body, message.path, rounds.add).finally(rounds.send);
      case "embed":
        return (await engine()).embed(message.request);
      case "bench":
        return (await engine()).bench(message.matrix, update);
      case "measure":
        return (await engine()).measure(message.measurement, update);
      case "methods":
        return (await engine()).methods();
      case "inspect": {
        const opened = await openSource(message.source, {}, { fetch: fetchFrom(message.hosts) });
        return (await engine()).inspect(opened);
      }
      case "close":
        // An engine that was never started has nothing to close.
        await running?.close();
        return "null";
      default:
        throw new Error(`foretoken: worker: unknown message ${String((message as { op?: unknown }).op)}`);
    }
  };

  channel.addEventListener("message", ({ data }) => {
    if (typeof data !== "object" || data === null) return; // not a message, so there is no id to answer
    if (data.op === "stop") {
      running?.stop();
      asked?.reject(new Error("foretoken: logits_processor: the request ended before it answered"));
      return;
    }
    if (data.op === "answer") {
      if ("error" in data) asked?.reject(new Error(String(data.error)));
      else asked?.resolve(String(data.json));
      return;
    }
    if (data.op === "start") {
      if (data.webgpu) prepare();
      engine().catch(() => undefined); // the next message that needs the engine tries again
      return;
    }
    const { id } = data;
    answer(data).then(
      (json) => channel.postMessage({ type: "done", id, json }),
      (cause: unknown) => channel.postMessage({ type: "error", id, error: wireError(cause) }),
    );
  });
}

/** The milliseconds of a frame. */
const FRAME = 16;

/** Sends the rounds of a request. The rounds of a frame share a message, so that the page has time to draw. */
class Rounds {
  #held: string[] = [];
  #sent = -Infinity;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(readonly update: (...json: string[]) => void) {}

  readonly add = (json: string): void => {
    this.#held.push(json);
    const rest = this.#sent + FRAME - performance.now();
    if (rest <= 0) this.send();
    else this.#timer ??= setTimeout(this.send, rest); // where the next round takes longer
  };

  readonly send = (): void => {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#held.length === 0) return;
    this.update(...this.#held);
    this.#held = [];
    this.#sent = performance.now();
  };
}

/** The open files of one load. */
class Loading {
  /** Go's last step, held back until the files are complete; only a lost device is reported after it. */
  #ready: string | undefined;
  #reports = true;
  readonly #opened: OpenSource[] = [];
  readonly #control = new AbortController();
  readonly #downloads: Downloads;
  readonly #events: LoadEvents;

  readonly #fetch: typeof fetch;

  constructor(
    readonly update: (json: string) => void,
    hosts: readonly string[],
  ) {
    this.#fetch = fetchFrom(hosts);
    const report = (progress: Progress): void => {
      if (this.#reports) update(JSON.stringify(progress));
    };
    this.#downloads = new Downloads(report);
    this.#events = {
      download: this.#downloads.report,
      notice: (note) => report({ stage: "notice", done: 0, total: 0, note }),
    };
  }

  async open(sources: Sources<SourceSpec>): Promise<OpenedSources> {
    const options = { signal: this.#control.signal, fetch: this.#fetch };
    const model = async (spec: SourceSpec): Promise<Source | Source[]> => {
      const files = await openModel(spec, this.#events, options);
      files.forEach((file) => this.#register(file));
      return files.length === 1 ? files[0]! : files;
    };
    const one = async (spec: SourceSpec): Promise<OpenSource> =>
      this.#register(await openSource(spec, this.#events, options));
    const several = async (specs: SourceSpec[]): Promise<Source[]> =>
      Promise.all(requireArray("calibrations", specs).map(one));
    const { target, draft, eagle3, eagle3_config, calibrations } = sources;
    const [t, d, head, config, all] = await Promise.all([
      model(target),
      draft && model(draft),
      eagle3 && one(eagle3),
      eagle3_config && one(eagle3_config),
      several(calibrations),
    ]);
    return { target: t, draft: d, eagle3: head, eagle3_config: config, calibrations: all };
  }

  /** Forwards Go's progress, except bytes read during a download: the user sees the progress of the download. */
  readonly progress = (json: string): void => {
    if (this.#downloads.active && /"stage":"(target|draft|eagle3)"/.test(json)) return;
    if (this.#reports && /"stage":"ready"/.test(json)) this.#ready = json;
    else this.update(json);
  };

  /** Waits for the files of the loaded models. */
  async finished(): Promise<void> {
    await Promise.all(this.#opened.map((source) => source.finished?.()));
  }

  /** Reports that the models are ready, after all else. */
  ready(): void {
    this.#reports = false;
    if (this.#ready !== undefined) this.update(this.#ready);
  }

  close(): void {
    this.#control.abort(new DOMException("loading has ended", "AbortError"));
    for (const source of this.#opened) source.close?.();
  }

  #register<S extends OpenSource>(source: S): S {
    this.#opened.push(source);
    if (this.#control.signal.aborted) source.close?.();
    return source;
  }
}

/** The codes for DOMExceptions, by name. */
const NAMES: Readonly<Record<string, ForetokenErrorCode>> = {
  AbortError: "aborted",
  QuotaExceededError: "quota",
  NotReadableError: "unreadable",
  NotFoundError: "unreadable",
};

/** Converts an error of Go or JavaScript to one line and, if known, a code. */
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
