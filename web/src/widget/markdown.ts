/**
 * Markdown as elements, while it streams. markdown-it parses; elements are built from its tokens, so a model's text is
 * never parsed as HTML: tags appear as text, pictures as links, and links lead to http, https and mailto alone.
 */
import MarkdownIt, { type Env, type Token } from "markdown-it";
import { type Branch, build, type Leaf, patch } from "./leaves.ts";

export { default as markdownStyle } from "../styles/markdown.css";

const SAFE = /^(https?:\/\/|mailto:)/i;

/** The longest paragraph whose marks are parsed, in characters: some texts take time in proportion to its square. */
const LONGEST = 20_000;

const parser = new MarkdownIt({ breaks: true });
parser.validateLink = (url) => SAFE.test(url);
// Lines keep their indentation, because small models write code without a fence.
parser.inline.ruler.at("newline", (state, silent) => {
  if (state.src[state.pos] !== "\n") return false;
  if (!silent) {
    state.pending = state.pending.trimEnd();
    state.push("softbreak", "br", 0);
  }
  state.pos++;
  return true;
});
parser.core.ruler.before("inline", "long", ({ tokens }) => {
  for (const token of tokens) if (token.type === "inline" && token.content.length > LONGEST) token.type = "text";
});

/** Elements without attributes, by the tokens that open them. */
const PLAIN: Record<string, keyof HTMLElementTagNameMap> = {
  paragraph_open: "p",
  bullet_list_open: "ul",
  list_item_open: "li",
  blockquote_open: "blockquote",
  thead_open: "thead",
  tbody_open: "tbody",
  tr_open: "tr",
  em_open: "em",
  strong_open: "strong",
  s_open: "s",
};

function branch(tag: Branch["tag"], attributes: Branch["attributes"] = {}, children: Leaf[] = []): Branch {
  return { tag, attributes, children };
}

/** Returns the elements of a Markdown text. `env` keeps the addresses of reference links. */
export function leaves(text: string, env: Env = {}): Leaf[] {
  return grow(parser.parse(text, env));
}

function grow(tokens: readonly Token[]): Leaf[] {
  const root: Leaf[] = [];
  /** The lists of children of the open elements. */
  const open = [root];
  for (const token of tokens) {
    if (token.hidden) continue; // a paragraph in a list without blank lines
    const into = open.at(-1)!;
    if (token.nesting < 0) open.pop();
    else if (token.type === "inline") into.push(...grow(token.children ?? []));
    else if (token.nesting === 0) into.push(single(token));
    else {
      const made = opened(token);
      // A wide table scrolls in a box.
      into.push(made.tag === "table" ? branch("div", { class: "scrolls", tabindex: "0" }, [made]) : made);
      open.push(made.children);
    }
  }
  return joined(root);
}

/** Joins neighbouring texts, so that a text has one form. */
function joined(all: readonly Leaf[]): Leaf[] {
  const out: Leaf[] = [];
  for (const leaf of all) {
    const last = out.at(-1);
    if (typeof leaf === "string" && typeof last === "string") out[out.length - 1] = last + leaf;
    else if (typeof leaf === "string") leaf && out.push(leaf);
    else out.push({ ...leaf, children: joined(leaf.children) });
  }
  return out;
}

function opened(token: Token): Branch {
  switch (token.type) {
    case "heading_open": // below the heading of its message, in one level, because models leave levels out
      return branch("h3", { class: `level-${token.tag[1]}` });
    case "ordered_list_open": {
      const start = token.attrGet("start");
      return branch("ol", start === null ? {} : { start: String(start) });
    }
    case "th_open":
    case "td_open": {
      const [, side] = /text-align:(\w+)/.exec(String(token.attrGet("style"))) ?? [];
      return branch(token.type === "th_open" ? "th" : "td", side ? { class: side } : {});
    }
    case "table_open":
      return branch("table");
    case "link_open":
      return link(String(token.attrGet("href")), []);
    default:
      return branch(PLAIN[token.type] ?? "span");
  }
}

function single(token: Token): Leaf {
  switch (token.type) {
    case "softbreak": // models break lines where they mean it
    case "hardbreak":
      return branch("br");
    case "hr":
      return branch("hr");
    case "code_inline":
      return branch("code", {}, [token.content]);
    case "fence":
    case "code_block":
      return code(token.content, token.info);
    case "image": // fetching it would tell its server of this conversation
      return link(String(token.attrGet("src")), [`${token.content || "picture"} ↗`]);
    default:
      return token.content;
  }
}

function link(href: string, children: Leaf[]): Branch {
  return branch("a", { href, target: "_blank", rel: "noopener noreferrer nofollow" }, children);
}

function code(text: string, info: string): Branch {
  const language = /^[\w+#.-]{1,24}/.exec(info.trim())?.[0] ?? "";
  const button = branch("button", { type: "button", class: "quiet copy-code" }, ["Copy code"]);
  const shown = text.replace(/\n$/, "");
  return branch("figure", { class: "code" }, [
    branch("figcaption", {}, [branch("span", {}, language ? [language] : []), button]),
    branch("pre", { tabindex: "0" }, [
      branch("code", language ? { "data-language": language.toLowerCase() } : {}, shown ? [shown] : []),
    ]),
  ]);
}

/**
 * Returns how many lines at the front of `tokens`' text belong to finished top-level blocks. Later text can change the
 * last block only, and a line only until it ends: `complete` is the number of ended lines.
 */
function finished(tokens: readonly Token[], complete: number): number {
  let lines = 0;
  for (const { level, nesting, map } of tokens)
    if (level === 0 && nesting >= 0 && map && map[0] < complete) lines = map[0];
  return lines;
}

const LINE = /\r\n?|\n/g;

/** A Markdown text that grows. Finished blocks are parsed and built once. */
export class Markdown {
  readonly #box: HTMLElement;
  #text = "";
  /** The end of the finished blocks, in the text and in the nodes of the box. */
  #from = 0;
  #nodes = 0;
  /** The leaves of what follows: the open block, and others in the last line. */
  #open: Leaf[] = [];
  readonly #env: Env = {};

  /** Clears `box`, in which the text appears. */
  constructor(box: HTMLElement) {
    this.#box = box;
    box.replaceChildren();
  }

  /** Shows a text that begins with the text shown before. */
  show(text: string): void {
    this.#text = text;
    const tail = text.slice(this.#from);
    const ends = [...tail.matchAll(LINE)].map((match) => match.index + match[0].length);
    // A copy, because a reference that is incomplete now would shadow the complete one.
    const tokens = parser.parse(tail, this.#copy());
    const lines = finished(tokens, ends.length);
    if (lines === 0) return this.#draw(grow(tokens));
    const end = ends[lines - 1]!;
    const done = leaves(tail.slice(0, end), this.#env);
    this.#draw([...done, ...leaves(tail.slice(end), this.#copy())]);
    this.#settle(done.length);
    this.#from += end;
  }

  /** Completes the text. */
  end(): void {
    const env: Env = {};
    const whole = leaves(this.#text, env);
    // A link may stand above its address.
    if (Object.keys(env.references ?? {}).length > 0) {
      this.#box.replaceChildren();
      this.#nodes = 0;
      this.#open = [];
      this.#draw(whole);
    }
    this.#settle(this.#open.length);
    this.#from = this.#text.length;
  }

  #copy(): Env {
    return { references: { ...this.#env.references } };
  }

  #draw(fresh: Leaf[]): void {
    patch(this.#box, this.#nodes, this.#open, fresh);
    this.#open = fresh;
  }

  /** Finishes the first `count` open nodes, and highlights their code. */
  #settle(count: number): void {
    const nodes = [...this.#box.childNodes].slice(this.#nodes, this.#nodes + count);
    this.#nodes += count;
    this.#open = this.#open.slice(count);
    for (const node of nodes) if ("querySelectorAll" in node) void highlighted(node as HTMLElement);
  }
}

async function highlighted(block: HTMLElement): Promise<void> {
  const parts = [...block.querySelectorAll<HTMLElement>("code[data-language]")];
  if (parts.length === 0) return;
  const { spans } = await import("./highlight.ts");
  for (const part of parts) {
    const made = spans(part.textContent, part.dataset["language"]!);
    if (made) part.replaceChildren(...made.map(build));
  }
}
