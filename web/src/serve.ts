/**
 * The worker's side of the protocol, apart from where the engine comes from, so
 * that tests can serve another engine over a MessageChannel.
 */
import type { Channel, FromWorker, GoEngine, Progress, Source, SourceSpec, ToWorker, WireError } from "./protocol.ts";
import { openSource } from "./sources.ts";

/**
 * Answers messages with an engine made by `start`. The engine is started by the
 * first message that needs it and once only; a failed start is forgotten, so
 * that the next message tries again.
 */
export function serve(channel: Channel<ToWorker, FromWorker>, start: () => Promise<GoEngine>): void {
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

  const answer = async (message: Exclude<ToWorker, { op: "stop" }>): Promise<string> => {
    const update = (json: string): void => channel.postMessage({ type: "update", id: message.id, json });
    switch (message.op) {
      case "open": {
        // The program and the first bytes of the models travel at the same time.
        const opened = Promise.all([source(message.target, "target", update), message.draft ? source(message.draft, "draft", update) : null]);
        opened.catch(() => undefined);
        const go = await engine();
        const [target, draft] = await opened;
        return go.open(JSON.stringify(message.options), { target, draft }, update);
      }
      case "generate":
        return (await engine()).generate(JSON.stringify(message.request), update);
      case "inspect": {
        const opened = await source(message.source, "target", update);
        return (await engine()).inspect(opened);
      }
      case "close":
        // An engine that was never started has nothing to close.
        await running?.close();
        return "null";
    }
  };

  channel.addEventListener("message", ({ data }) => {
    if (data.op === "stop") {
      running?.stop();
      return;
    }
    const { id } = data;
    answer(data).then(
      (json) => channel.postMessage({ type: "done", id, json }),
      (cause: unknown) => channel.postMessage({ type: "error", id, error: wireError(cause) }),
    );
  });
}

function source(spec: SourceSpec, stage: Progress["stage"], update: (json: string) => void): Promise<Source> {
  return openSource(spec, {
    onDownload: (done, total) => update(JSON.stringify({ stage, done, total, note: "downloading" } satisfies Progress)),
  });
}

/** One line and, where there is one, a code; errors of Go and of JavaScript alike. */
export function wireError(cause: unknown): WireError {
  const text = cause instanceof Error ? cause.message : String(cause);
  const message = text.replace(/\s+/g, " ").trim() || "unknown error";
  const code = cause instanceof Error && "code" in cause && typeof cause.code === "string" ? cause.code : undefined;
  return code === undefined ? { message } : { code, message };
}
