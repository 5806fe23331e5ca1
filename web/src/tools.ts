/**
 * Calls of functions in what a model says. Chat templates teach two ways of writing them: JSON between
 * `<tool_call>` and `</tool_call>` (Hermes, Qwen), and an answer that is nothing but one JSON object (Llama 3).
 */

/** A function that the model may call. */
export interface Tool {
  type: "function";
  function: {
    name: string;
    description?: string;
    /** A JSON Schema of the arguments. The model is told of it, and held to it where `tool_choice` asks for a call. */
    parameters?: object;
  };
}

/** A call that the model made. */
export interface ToolCall {
  id: string;
  type: "function";
  /** `arguments` is JSON text, as the model wrote it: check it before it is used. */
  function: { name: string; arguments: string };
}

const OPEN = "<tool_call>";
const CLOSE = "</tool_call>";

/** Takes calls out of a text that comes in pieces. Text that only looks like a call stays text. */
export class ToolCalls {
  readonly #names: ReadonlySet<string>;
  /** What may become a call yet. */
  #held = "";
  /** Nothing but white space was told yet. */
  #blank = true;

  constructor(tools: readonly Tool[]) {
    this.#names = new Set(tools.map((tool) => tool.function.name));
  }

  /** What has become certain with another piece. */
  push(text: string): { content: string; calls: ToolCall[] } {
    this.#held += text;
    const out = { content: "", calls: [] as ToolCall[] };
    const tell = (until: number): void => {
      const content = this.#held.slice(0, until);
      this.#held = this.#held.slice(until);
      this.#blank &&= content.trim() === "";
      out.content += content;
    };
    for (;;) {
      const open = this.#held.indexOf(OPEN);
      if (open < 0) {
        if (!(this.#blank && /^\s*(\{|$)/.test(this.#held))) tell(this.#held.length - begun(this.#held));
        return out;
      }
      tell(open);
      const close = this.#held.indexOf(CLOSE);
      if (close < 0) return out;
      const call = this.#read(this.#held.slice(OPEN.length, close));
      if (call) {
        out.calls.push(call);
        this.#held = this.#held.slice(close + CLOSE.length);
      } else {
        tell(close + CLOSE.length);
      }
    }
  }

  /** What is left when the text has ended. */
  end(): { content: string; calls: ToolCall[] } {
    const content = this.#held;
    this.#held = "";
    const call = this.#blank ? this.#read(content) : undefined;
    return call ? { content: "", calls: [call] } : { content, calls: [] };
  }

  #read(json: string): ToolCall | undefined {
    try {
      const { name, arguments: args, parameters } = JSON.parse(json) as { name?: unknown; arguments?: unknown; parameters?: unknown };
      const given = args ?? parameters ?? {};
      if (typeof name !== "string" || !this.#names.has(name) || typeof given !== "object") return undefined;
      return { id: `call_${crypto.randomUUID().replaceAll("-", "").slice(0, 24)}`, type: "function", function: { name, arguments: JSON.stringify(given) } };
    } catch {
      return undefined;
    }
  }
}

/** How many characters at the end may be the beginning of a call. */
function begun(text: string): number {
  for (let n = Math.min(OPEN.length - 1, text.length); n > 0; n--) if (OPEN.startsWith(text.slice(-n))) return n;
  return 0;
}
