/**
 * What a page and the framed widget (embed.html) say to one another by `postMessage`: the messages of version 1,
 * and the check that something is one. Every message is an object with `foretoken: 1` and a `type`.
 */
import type { EngineInfo, EventToken, Result, RoundTimes } from "../protocol.ts";
import { ATTRIBUTES } from "../widget/attributes.ts";

export const VERSION = 1;

/** Names a request; answers to it carry it. */
export type MessageId = string | number;

interface Message<T extends string> {
  foretoken: typeof VERSION;
  type: T;
}

/** What a page says to the frame. `id` is the page's own. */
export type ToFrame =
  /** Asks whether the frame listens; it answers `hello`. */
  | (Message<"hello"> & { id?: MessageId })
  /** Loads the models; `ready` or `error` follows. */
  | (Message<"load"> & { id?: MessageId })
  /** Continues a prompt, or the one shown; `round`s and then `done` or `error` follow. */
  | (Message<"generate"> & { id?: MessageId; prompt?: string })
  /** Ends what runs within a round; its `done` says `aborted`. A load ends with an `error`. */
  | (Message<"abort"> & { id?: MessageId })
  /** Sets attributes of the widget; null takes one away. */
  | (Message<"set-attributes"> & { id?: MessageId; attributes: Record<string, string | null> });

/** What the frame says to the page. `id` is that of the request that led to it; a visitor's own clicks have none. */
export type FromFrame =
  | (Message<"hello"> & { id?: MessageId })
  | (Message<"ready"> & { id?: MessageId; info: EngineInfo })
  | (Message<"round"> & { id?: MessageId; round: number; text: string; tokens: EventToken[]; ms: RoundTimes; elapsed_ms: number })
  | (Message<"done"> & { id?: MessageId; result: Result })
  | (Message<"error"> & { id?: MessageId; code: string; message: string })
  /** The height that the widget takes, in CSS pixels. */
  | (Message<"resize"> & { height: number });

/** Attributes that a page may set on the framed widget. */
export const SETTABLE: readonly string[] = [...ATTRIBUTES, "compact"];

const LONGEST = 1 << 20; // characters of a text

/** Why something is no message for the frame. */
export class MessageError extends Error {
  constructor(
    field: string,
    reason: string,
    readonly id?: MessageId,
  ) {
    super(`embed: message: ${field}: ${reason}`);
    this.name = "MessageError";
  }
}

type Check = (value: unknown, field: string) => string | undefined;

const text: Check = (value) => (typeof value === "string" && value.length <= LONGEST ? undefined : `want a text of at most ${LONGEST} characters`);
const FIELDS: Record<ToFrame["type"], Record<string, Check>> = {
  hello: {},
  load: {},
  generate: { prompt: (value) => (value === undefined ? undefined : text(value, "prompt")) },
  abort: {},
  "set-attributes": {
    attributes: (value) => {
      if (!isRecord(value)) return "want an object of attributes";
      for (const [name, of] of Object.entries(value)) {
        if (!SETTABLE.includes(name)) return `${JSON.stringify(name.slice(0, 40))} is none of the widget's attributes`;
        if (of !== null && text(of, name)) return `${name}: want a text of at most ${LONGEST} characters, or null`;
      }
      return undefined;
    },
  },
};

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Whether something claims to be one of these messages at all; all else that is posted is somebody else's. */
export function isOurs(data: unknown): data is { foretoken: unknown } {
  return isRecord(data) && Object.hasOwn(data, "foretoken");
}

/** The message that something is; throws a {@link MessageError} that names the field that is wrong. */
export function readMessage(data: unknown): ToFrame {
  if (!isOurs(data)) throw new MessageError("foretoken", "it is missing");
  const { foretoken, type, id, ...rest } = data as unknown as Record<string, unknown>;
  const known = typeof id === "string" && id.length <= 200 ? id : Number.isSafeInteger(id) ? (id as number) : undefined;
  if (foretoken !== VERSION) throw new MessageError("foretoken", `version ${JSON.stringify(foretoken)?.slice(0, 40)} is not ${VERSION}, the one spoken here`, known);
  if (id !== undefined && known === undefined) throw new MessageError("id", "want a whole number, or a text of at most 200 characters");
  if (typeof type !== "string" || !Object.hasOwn(FIELDS, type)) throw new MessageError("type", `want one of ${Object.keys(FIELDS).join(", ")}`, known);
  const fields = FIELDS[type as ToFrame["type"]];
  for (const name of Object.keys(rest)) if (!Object.hasOwn(fields, name)) throw new MessageError(name.slice(0, 40), `a ${type} message has no such field`, known);
  for (const [name, check] of Object.entries(fields)) {
    const problem = check(rest[name], name);
    if (problem) throw new MessageError(name, problem, known);
  }
  return data as unknown as ToFrame;
}

/** The origins that a list names (separated by spaces or commas); throws for what is no origin. */
export function readOrigins(list: string): string[] {
  return list
    .split(/[\s,]+/)
    .filter(Boolean)
    .map((item) => {
      let origin = "null";
      try {
        origin = new URL(item).origin;
      } catch {
        // named below
      }
      if (origin === "null" || origin !== item.replace(/\/$/, "")) throw new MessageError("origin", `${JSON.stringify(item.slice(0, 80))} is no origin; want one such as https://docs.example`);
      return origin;
    });
}

/** Who may speak: those the address names, of those the server lists if it lists any. */
export function allowedOrigins(asked: readonly string[], listed: string | null): string[] {
  const named = asked.flatMap(readOrigins);
  if (listed === null) return named;
  const allowed = readOrigins(listed);
  return named.length > 0 ? named.filter((origin) => allowed.includes(origin)) : allowed;
}
