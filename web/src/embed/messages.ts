/**
 * The messages between a page and the framed widget (embed.html) by `postMessage`, version 1, and their validation.
 * Every message is an object with `foretoken: 1` and a `type`.
 */
import type { EngineInfo, EventToken, Result, RoundTimes } from "../protocol/protocol.ts";
import { ATTRIBUTES } from "../widget/attributes.ts";

export const VERSION = 1;

/** Identifies a request; its answers have the same id. */
export type MessageId = string | number;

interface Message<T extends string> {
  foretoken: typeof VERSION;
  type: T;
}

/** Messages from the page to the frame. The page chooses the `id`. */
export type ToFrame =
  /** Asks whether the frame is listening; it answers `hello`. */
  | (Message<"hello"> & { id?: MessageId })
  /** Loads the models; `ready` or `error` follows. */
  | (Message<"load"> & { id?: MessageId })
  /** Continues a prompt, by default the widget's; `round`s and then `done` or `error` follow. */
  | (Message<"generate"> & { id?: MessageId; prompt?: string })
  /** Ends the running request within a round; its `done` has finish `aborted`. A load ends with an `error`. */
  | (Message<"abort"> & { id?: MessageId })
  /** Sets attributes of the widget; null removes one. */
  | (Message<"set-attributes"> & { id?: MessageId; attributes: Record<string, string | null> });

/** Messages from the frame to the page. `id` is the id of the request; messages caused by a user's clicks have none. */
export type FromFrame =
  | (Message<"hello"> & { id?: MessageId })
  | (Message<"ready"> & { id?: MessageId; info: EngineInfo })
  | (Message<"round"> & {
      id?: MessageId;
      round: number;
      text: string;
      tokens: EventToken[];
      ms: RoundTimes;
      elapsed_ms: number;
    })
  | (Message<"done"> & { id?: MessageId; result: Result })
  | (Message<"error"> & { id?: MessageId; code: string; message: string })
  /** The height of the widget in CSS pixels. */
  | (Message<"resize"> & { height: number });

/** Attributes that a page may set on the framed widget. */
export const SETTABLE: readonly string[] = [...ATTRIBUTES, "full"];

const MAX_LENGTH = 1 << 20; // characters of a string

/** A message to the frame is invalid. */
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

const text: Check = (value) =>
  typeof value === "string" && value.length <= MAX_LENGTH
    ? undefined
    : `want a string of at most ${MAX_LENGTH} characters`;
const FIELDS: Record<ToFrame["type"], Record<string, Check>> = {
  hello: {},
  load: {},
  generate: { prompt: (value) => (value === undefined ? undefined : text(value, "prompt")) },
  abort: {},
  "set-attributes": {
    attributes: (value) => {
      if (!isRecord(value)) return "want an object of attributes";
      for (const [name, of] of Object.entries(value)) {
        if (!SETTABLE.includes(name)) return `${JSON.stringify(name.slice(0, 40))} is not an attribute of the widget`;
        if (of !== null && text(of, name)) return `${name}: want a string of at most ${MAX_LENGTH} characters, or null`;
      }
      return undefined;
    },
  },
};

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Whether data is one of these messages; other code may post other messages. */
export function isOurs(data: unknown): data is { foretoken: unknown } {
  return isRecord(data) && Object.hasOwn(data, "foretoken");
}

/** Validates a message; throws a {@link MessageError} that names the invalid field. */
export function readMessage(data: unknown): ToFrame {
  if (!isOurs(data)) throw new MessageError("foretoken", "missing");
  const { foretoken, type, id, ...rest } = data as unknown as Record<string, unknown>;
  const known = typeof id === "string" && id.length <= 200 ? id : Number.isSafeInteger(id) ? (id as number) : undefined;
  if (foretoken !== VERSION)
    throw new MessageError(
      "foretoken",
      `version ${JSON.stringify(foretoken)?.slice(0, 40)} is not supported; want ${VERSION}`,
      known,
    );
  if (id !== undefined && known === undefined)
    throw new MessageError("id", "want an integer, or a string of at most 200 characters");
  if (typeof type !== "string" || !Object.hasOwn(FIELDS, type))
    throw new MessageError("type", `want one of ${Object.keys(FIELDS).join(", ")}`, known);
  const fields = FIELDS[type as ToFrame["type"]];
  for (const name of Object.keys(rest))
    if (!Object.hasOwn(fields, name))
      throw new MessageError(name.slice(0, 40), `a ${type} message has no such field`, known);
  for (const [name, check] of Object.entries(fields)) {
    const problem = check(rest[name], name);
    if (problem) throw new MessageError(name, problem, known);
  }
  return data as unknown as ToFrame;
}

/** Parses a list of origins, separated by spaces or commas; throws if an item is not an origin. */
export function readOrigins(list: string): string[] {
  return list
    .split(/[\s,]+/)
    .filter(Boolean)
    .map((item) => {
      let origin = "null";
      try {
        origin = new URL(item).origin;
      } catch {
        // reported below
      }
      if (origin === "null" || origin !== item.replace(/\/$/, ""))
        throw new MessageError(
          "origin",
          `${JSON.stringify(item.slice(0, 80))} is not an origin such as https://docs.example`,
        );
      return origin;
    });
}

/** Returns the origins that may send messages: the address lists them; the server's list, if given, limits them. */
export function allowedOrigins(requested: readonly string[], listed: string | null): string[] {
  const named = requested.flatMap(readOrigins);
  if (listed === null) return named;
  const allowed = readOrigins(listed);
  return named.length > 0 ? named.filter((origin) => allowed.includes(origin)) : allowed;
}
