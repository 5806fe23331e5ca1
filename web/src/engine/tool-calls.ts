/**
 * Parses function calls in generated text. Chat templates use two forms: JSON between `<tool_call>` and
 * `</tool_call>` (Hermes, Qwen), and an answer that is a single JSON object (Llama 3).
 */

/** A function that the model may call. */
export interface Tool {
  type: "function";
  function: {
    name: string;
    description?: string;
    /** JSON Schema of the arguments. The model sees it; decoding enforces it only if `tool_choice` requires a call. */
    parameters?: object;
  };
}

/** A call that the model made. */
export interface ToolCall {
  id: string;
  type: "function";
  /** `arguments` is JSON text as the model wrote it; validate it before use. */
  function: { name: string; arguments: string };
}

const OPEN = "<tool_call>";
const CLOSE = "</tool_call>";

/** Extracts calls from streamed text. Text that only resembles a call stays text. */
export class ToolCalls {
  readonly #names: ReadonlySet<string>;
  /** Text that may still become a call. */
  #pending = "";
  /** Whether the content so far is only white space. */
  #blank = true;

  constructor(tools: readonly Tool[]) {
    this.#names = new Set(tools.map((tool) => tool.function.name));
  }

  /** Adds a piece of text; returns the content and the calls that are now complete. */
  push(text: string): { content: string; calls: ToolCall[] } {
    this.#pending += text;
    const out = { content: "", calls: [] as ToolCall[] };
    const emit = (until: number): void => {
      const content = this.#pending.slice(0, until);
      this.#pending = this.#pending.slice(until);
      this.#blank &&= content.trim() === "";
      out.content += content;
    };
    for (;;) {
      const open = this.#pending.indexOf(OPEN);
      if (open < 0) {
        if (!(this.#blank && /^\s*(\{|$)/.test(this.#pending))) emit(this.#pending.length - begun(this.#pending));
        return out;
      }
      emit(open);
      const close = this.#pending.indexOf(CLOSE);
      if (close < 0) return out;
      const call = this.#read(this.#pending.slice(OPEN.length, close));
      if (call) {
        out.calls.push(call);
        this.#pending = this.#pending.slice(close + CLOSE.length);
      } else {
        emit(close + CLOSE.length);
      }
    }
  }

  /** Returns the rest at the end of the text. */
  end(): { content: string; calls: ToolCall[] } {
    const content = this.#pending;
    this.#pending = "";
    const call = this.#blank ? this.#read(content) : undefined;
    return call ? { content: "", calls: [call] } : { content, calls: [] };
  }

  #read(json: string): ToolCall | undefined {
    try {
      const {
        name,
        arguments: args,
        parameters,
      } = JSON.parse(json) as { name?: unknown; arguments?: unknown; parameters?: unknown };
      const given = args ?? parameters ?? {};
      if (typeof name !== "string" || !this.#names.has(name) || typeof given !== "object") return undefined;
      return {
        id: `call_${crypto.randomUUID().replaceAll("-", "").slice(0, 24)}`,
        type: "function",
        function: { name, arguments: JSON.stringify(given) },
      };
    } catch {
      return undefined;
    }
  }
}

/** Returns how many characters at the end may start a call. */
function begun(text: string): number {
  for (let n = Math.min(OPEN.length - 1, text.length); n > 0; n--) if (OPEN.startsWith(text.slice(-n))) return n;
  return 0;
}
