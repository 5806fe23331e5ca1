/** Code with its syntax marked, by highlight.js, as leaves instead of HTML. */
import type { Emitter } from "highlight.js";
import hljs from "highlight.js/lib/core";
import bash from "highlight.js/lib/languages/bash";
import c from "highlight.js/lib/languages/c";
import cpp from "highlight.js/lib/languages/cpp";
import css from "highlight.js/lib/languages/css";
import diff from "highlight.js/lib/languages/diff";
import go from "highlight.js/lib/languages/go";
import java from "highlight.js/lib/languages/java";
import javascript from "highlight.js/lib/languages/javascript";
import json from "highlight.js/lib/languages/json";
import python from "highlight.js/lib/languages/python";
import rust from "highlight.js/lib/languages/rust";
import sql from "highlight.js/lib/languages/sql";
import typescript from "highlight.js/lib/languages/typescript";
import xml from "highlight.js/lib/languages/xml";
import yaml from "highlight.js/lib/languages/yaml";
import type { Leaf } from "./leaves.ts";

const LANGUAGES = {
  bash,
  c,
  cpp,
  css,
  diff,
  go,
  java,
  javascript,
  json,
  python,
  rust,
  sql,
  typescript,
  xml,
  yaml,
};
for (const [name, language] of Object.entries(LANGUAGES)) hljs.registerLanguage(name, language);

/** The longest code that is highlighted, in characters: highlighting takes time in proportion. */
const LONGEST = 50_000;

/** Collects spans with the scope of highlight.js as their class. */
class Spans implements Emitter {
  readonly leaves: Leaf[] = [];
  readonly #open = [this.leaves];

  startScope(name: string): void {
    const children: Leaf[] = [];
    const [first, ...more] = name.split(".");
    const scope = [`hl-${first}`, ...more].join(" ");
    this.#open.at(-1)!.push({ tag: "span", attributes: { class: scope }, children });
    this.#open.push(children);
  }

  endScope(): void {
    this.#open.pop();
  }

  addText(text: string): void {
    if (text) this.#open.at(-1)!.push(text);
  }

  // highlight.js calls these two for modes, and the others for keywords.
  openNode(name: string): void {
    this.startScope(name);
  }

  closeNode(): void {
    this.endScope();
  }

  __addSublanguage(emitter: Emitter): void {
    this.#open.at(-1)!.push(...(emitter as Spans).leaves);
  }

  finalize(): void {}

  toHTML(): string {
    return "";
  }
}

hljs.configure({ __emitter: Spans });

/** Returns the marked code; undefined for an unknown language or a long text. */
export function spans(code: string, language: string): Leaf[] | undefined {
  if (code.length > LONGEST || !hljs.getLanguage(language)) return undefined;
  const { _emitter } = hljs.highlight(code, { language, ignoreIllegals: true });
  return (_emitter as Spans).leaves;
}
