/**
 * Finds function calls in generated text, like Go's chat.CallReader: both pass the table of
 * models/chat/testdata/answers.json. Two forms are read: `<tool_call>` elements anywhere in the text (Hermes, Qwen),
 * and a text that is nothing but a JSON value (Llama 3, Mistral). The JSON is a call or a list of calls: an object with
 * a given function's name and its `arguments` or `parameters`.
 */

/** A function that the model may call. */
export interface Tool {
  type: "function";
  function: {
    name: string;
    description?: string;
    /** JSON Schema of the arguments. The model sees it; decoding enforces it only if `tool_choice` requires a call. */
    parameters?: object;
    /** Ignored. */
    strict?: boolean | null;
  };
}

/** A call that the model made. */
export interface ToolCall {
  id: string;
  type: "function";
  /** `arguments` is the JSON text that the model wrote, without white space; validate it before use. */
  function: { name: string; arguments: string };
}

const OPEN = "<tool_call>";
const CLOSE = "</tool_call>";

/** Extracts calls from streamed text. All else stays text, and is held back only while it may still become a call. */
export class ToolCalls {
  readonly #names: readonly string[];
  readonly #single: boolean;
  /** May be the beginning of a call, or white space before one. */
  #held = "";
  /** Whether no content but white space was returned. */
  #blank = true;
  #calls = 0;
  #scan: CallScan | undefined;
  /** Whether the value that #scan reads is the whole text. */
  #bare = false;
  /** In #held: where the tag or the bare value begins, and the next character for #scan. */
  #start = 0;
  #at = 0;

  /** With `single`, the answer ends after its first call. */
  constructor(tools: readonly Tool[], single = false) {
    this.#names = tools.map((tool) => tool.function.name);
    this.#single = single;
  }

  /** Adds a piece of text; returns the content and the calls that are now complete. */
  push(text: string): { content: string; calls: ToolCall[] } {
    this.#held += text;
    return this.#read(false);
  }

  /** Returns the rest at the end of the text. A complete call whose closing tag was cut off counts. */
  end(): { content: string; calls: ToolCall[] } {
    return this.#read(true);
  }

  #read(end: boolean): { content: string; calls: ToolCall[] } {
    const out = { content: "", calls: [] as ToolCall[] };
    const emit = (n: number): void => {
      if (n === 0) return;
      out.content += this.#held.slice(0, n);
      this.#held = this.#held.slice(n);
      this.#blank = false;
    };
    while (!(this.#single && this.#calls > 0)) {
      if (!this.#scan && !this.#begin(end, emit)) return out;
      const until = this.#advance(end);
      if (until === 0) return out; // more text decides
      if (until !== undefined) {
        const found = this.#single ? this.#scan!.calls.slice(0, 1) : this.#scan!.calls;
        out.calls.push(...found);
        this.#calls += found.length;
        this.#held = this.#held.slice(until);
      } else if (this.#bare) {
        this.#blank = false;
      } else {
        emit(this.#start + OPEN.length);
      }
      this.#scan = undefined;
    }
    this.#held = "";
    return out;
  }

  /** Returns text that begins no call, and reports whether a value begins in the rest. */
  #begin(end: boolean, emit: (n: number) => void): boolean {
    const lead = this.#blank ? /^[ \t\r\n]*/.exec(this.#held)![0].length : 0;
    let open = this.#held.indexOf(OPEN);
    if (this.#blank && (this.#held[lead] === "{" || this.#held[lead] === "[")) {
      this.#bare = true;
      this.#start = this.#at = lead;
    } else if (open >= 0) {
      if (!this.#blank || open > lead) {
        // White space before the first call is no content.
        emit(open);
        open = 0;
      }
      this.#bare = false;
      this.#start = open;
      this.#at = open + OPEN.length;
    } else {
      let keep = end ? 0 : Math.min(OPEN.length - 1, this.#held.length);
      while (keep > 0 && !this.#held.endsWith(OPEN.slice(0, keep))) keep--;
      if (lead + keep < this.#held.length || (end && this.#calls === 0)) emit(this.#held.length - keep);
      else if (end) this.#held = "";
      return false;
    }
    this.#scan = new CallScan(this.#names);
    return true;
  }

  /** Reads on; returns where the text of the calls ends, 0 if more text decides, undefined if no call can come. */
  #advance(end: boolean): number | undefined {
    for (; this.#at < this.#held.length; this.#at++) {
      const c = this.#held[this.#at]!;
      if (!this.#scan!.done) {
        if (!this.#scan!.next(c)) return undefined;
      } else if (!SPACE.includes(c)) {
        if (!this.#bare && this.#held.startsWith(CLOSE, this.#at)) return this.#at + CLOSE.length;
        if (this.#bare || !CLOSE.startsWith(this.#held.slice(this.#at))) return undefined;
        return end ? this.#held.length : 0;
      }
    }
    if (!end) return 0;
    return this.#scan!.done ? this.#held.length : undefined;
  }
}

const SPACE = " \t\r\n";
const FIRST = ["name", "arguments", "parameters", "type", "id"];

/** Reads the JSON of one call or a list of calls, and stops at the first character with which it can be neither. */
class CallScan {
  readonly calls: ToolCall[] = [];
  /** Whether the value has ended. */
  done = false;

  readonly #names: readonly string[];
  #state: "value" | "item" | "member" | "key" | "colon" | "more" | "string" | "escape" | "word" = "value";
  /** The brackets of the values that are open, and how many are open directly in a call. */
  #open = "";
  #base = 0;
  /** The JSON without white space between its tokens; where its last token and the call's last value begin. */
  #out = "";
  #from = 0;
  #value = 0;
  /** Digits that \u still wants, and whether the string is a key. */
  #hex = 0;
  #isKey = false;
  /** Of the call so far. */
  #key = "";
  #members = 0;
  #name = "";
  #args: { arguments?: string; parameters?: string } = {};

  constructor(names: readonly string[]) {
    this.#names = names;
  }

  /** Reads one character, and reports whether the value may still be a call. */
  next(c: string): boolean {
    if (this.#state === "string") {
      this.#out += c;
      if (c === '"') return this.#stringEnded();
      if (c === "\\") this.#state = "escape";
      return c >= " " && (c === "\\" || this.#named());
    }
    if (this.#state === "escape") {
      this.#out += c;
      if (this.#hex > 0) {
        if (!/[0-9a-fA-F]/.test(c)) return false;
        this.#hex--;
      } else if (c === "u") this.#hex = 4;
      else if (!'"\\/bfnrt'.includes(c)) return false;
      if (this.#hex === 0) this.#state = "string";
      return true;
    }
    if (this.#state === "word") {
      if (/[-+.0-9a-zE]/.test(c)) {
        this.#out += c;
        return this.#out.length - this.#from <= "false".length || this.#out[this.#from]! < "a";
      }
      if (parsed(this.#out.slice(this.#from)) === undefined || !this.#valueEnded()) return false;
    }
    if (SPACE.includes(c)) return true;
    this.#from = this.#out.length;
    this.#out += c;
    const state = this.#state;
    if (c === '"' && (state === "member" || state === "key")) {
      this.#state = "string";
      this.#isKey = true;
      return true;
    }
    if (c === ":" && state === "colon") this.#state = "value";
    else if (c === "," && state === "more") this.#state = this.#open.endsWith("{") ? "key" : "value";
    else if (c === "}" && (state === "member" || state === "more")) return this.#close("{");
    else if (c === "]" && (state === "item" || state === "more")) return this.#close("[");
    else return (state === "value" || state === "item") && this.#begun(c);
    return true;
  }

  /** Begins a value with the character c. */
  #begun(c: string): boolean {
    this.#base ||= c === "[" ? 2 : 1;
    const depth = this.#open.length;
    if (depth === this.#base) {
      this.#value = this.#from;
      if (this.#key === "name" && c !== '"') return false;
      if ((this.#key === "arguments" || this.#key === "parameters") && c !== "{" && c !== "n") return false;
    }
    if (depth < this.#base && c !== "{" && depth > 0) return false; // a list holds calls only
    if (c === "{" || c === "[") {
      this.#open += c;
      this.#state = c === "[" ? "item" : "member";
      if (this.#open.length === this.#base && c === "{") {
        this.#key = this.#name = "";
        this.#members = 0;
        this.#args = {};
      }
      return true;
    }
    this.#isKey = false;
    this.#state = c === '"' ? "string" : "word";
    return depth > 0 && /["\-0-9tfn]/.test(c);
  }

  /** Takes a key or a value. */
  #stringEnded(): boolean {
    if (!this.#isKey) return this.#valueEnded();
    this.#state = "colon";
    if (this.#open.length !== this.#base) return true;
    this.#key = parsed(this.#out.slice(this.#from)) as string;
    return ++this.#members > 1 || FIRST.includes(this.#key);
  }

  /** Takes a value that is complete. */
  #valueEnded(): boolean {
    this.#state = "more";
    if (this.#open.length !== this.#base) return true;
    const raw = this.#out.slice(this.#value);
    if (this.#key === "name") {
      this.#name = parsed(raw) as string;
      return this.#names.includes(this.#name);
    }
    if (this.#key === "arguments" || this.#key === "parameters") {
      if (raw === "null") delete this.#args[this.#key];
      else this.#args[this.#key] = raw;
    }
    return true;
  }

  /** Ends the object or list that `bracket` began. */
  #close(bracket: string): boolean {
    const depth = this.#open.length;
    if (this.#open[depth - 1] !== bracket) return false;
    this.#open = this.#open.slice(0, -1);
    if (depth === this.#base && bracket === "{") {
      if (!this.#name) return false;
      const call = { name: this.#name, arguments: this.#args.arguments ?? this.#args.parameters ?? "{}" };
      this.calls.push({ id: newCallID(), type: "function", function: call });
    }
    if (depth > 1) return this.#valueEnded();
    this.done = true;
    return this.calls.length > 0;
  }

  /** Whether what is read of a call's name begins a function's. A name with escapes is decided at its end. */
  #named(): boolean {
    if (this.#isKey || this.#key !== "name" || this.#open.length !== this.#base) return true;
    const begun = this.#out.slice(this.#value + 1);
    return begun.includes("\\") || this.#names.some((name) => name.startsWith(begun));
  }
}

function parsed(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return undefined;
  }
}

/** Makes an id in the one form that every published template takes: Mistral's want nine letters and digits. */
function newCallID(): string {
  const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
  return `call${Array.from(crypto.getRandomValues(new Uint8Array(5)), (n) => letters[n % letters.length]).join("")}`;
}
