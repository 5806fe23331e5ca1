import assert from "node:assert/strict";
import { test } from "node:test";
import { sizeOf, titleOf } from "../../src/widget/conversations.ts";
import { spans } from "../../src/widget/highlight.ts";
import type { Branch, Leaf } from "../../src/widget/leaves.ts";
import { leaves, Markdown } from "../../src/widget/markdown.ts";

/** The part of the DOM that leaves use. */
class FakeNode {
  childNodes: FakeNode[] = [];
  parent: FakeNode | undefined;
  attributes: Record<string, string> = {};
  constructor(
    readonly tag: string,
    public data = "",
  ) {}
  setAttribute(name: string, value: string): void {
    this.attributes[name] = value;
  }
  append(...nodes: FakeNode[]): void {
    for (const node of nodes) this.appendChild(node);
  }
  appendChild(node: FakeNode): void {
    node.parent = this;
    this.childNodes.push(node);
  }
  replaceChild(node: FakeNode, old: FakeNode): void {
    node.parent = this;
    this.childNodes[this.childNodes.indexOf(old)] = node;
  }
  replaceChildren(...nodes: FakeNode[]): void {
    this.childNodes = [];
    this.append(...nodes);
  }
  remove(): void {
    const { childNodes } = this.parent!;
    childNodes.splice(childNodes.indexOf(this), 1);
  }
  appendData(more: string): void {
    this.data += more;
  }
  querySelectorAll(): never[] {
    return []; // without highlighting
  }
  /** The node as leaves again. */
  get leaf(): Leaf {
    if (this.tag === "#text") return this.data;
    const children = this.childNodes.map((node) => node.leaf);
    return { tag: this.tag as Branch["tag"], attributes: this.attributes, children };
  }
}

function withDocument(work: () => void): void {
  const fake = globalThis as unknown as { document?: unknown };
  fake.document = {
    createElement: (tag: string) => new FakeNode(tag),
    createTextNode: (data: string) => new FakeNode("#text", data),
  };
  try {
    work();
  } finally {
    delete fake.document;
  }
}

const branches = (all: readonly Leaf[]): Branch[] =>
  all.flatMap((leaf) => (typeof leaf === "string" ? [] : [leaf, ...branches(leaf.children)]));
const textOf = (all: readonly Leaf[]): string =>
  all.map((leaf) => (typeof leaf === "string" ? leaf : textOf(leaf.children))).join("");
const tags = (text: string): string[] => branches(leaves(text)).map(({ tag }) => tag);

const DOCUMENT = `# Slots

A *slot* **table**, see [the paper][p] and [a page](https://example.org/a?b=c "title").
Second line\\
third --- line

***bold and italic*** at the start
#no heading, 1) no list

- one
- two
  continued

  - deep \`code\`

1. first
1. second

3) third

> quoted
> - list in it
lazy

| a | b |
|---|--:|
| 1 | \`2|3\` |
after

\`\`\`go
func main() {

	fmt.Println("<b>")
}
\`\`\`
~~~
no language
~~~

    indented

Setext
---

***

<b>tag</b> &amp; &#60; ![alt](https://example.org/x.png)

[p]: https://example.org/paper
`;

test("named and numbered characters are read, and unknown names stay", () => {
  const text = "&lt;b&gt; 2 &times; 3&nbsp;&ne; 5 &#65;&#x42; &klingon; &toString; [a](https://example.org/?a=1&amp;b)";
  assert.equal(textOf(leaves(text)), "<b> 2 × 3\u00a0≠ 5 AB &klingon; &toString; a");
  const [link] = branches(leaves(text)).filter(({ tag }) => tag === "a");
  assert.equal(link!.attributes["href"], "https://example.org/?a=1&b");
  assert.equal(textOf(leaves("`&lt;`")), "&lt;", "code is not read");
});

test("a streamed text ends as the whole text, wherever it is cut", () => {
  withDocument(() => {
    const whole = leaves(DOCUMENT);
    for (let step = 1; step < 40; step += step < 4 ? 1 : 9) {
      const box = new FakeNode("div");
      const shown = new Markdown(box as unknown as HTMLElement);
      for (let end = step; end < DOCUMENT.length + step; end += step) {
        shown.show(DOCUMENT.slice(0, end));
        if (step > 1) continue;
        // At each moment it is the text so far, except for links whose address comes later.
        const now = leaves(DOCUMENT.slice(0, end)).filter((leaf) => !textOf([leaf]).includes("paper"));
        const seen = box.childNodes.map((node) => node.leaf).filter((leaf) => !textOf([leaf]).includes("paper"));
        assert.deepEqual(seen, now, `after ${JSON.stringify(DOCUMENT.slice(0, end).slice(-30))}`);
      }
      shown.end();
      assert.deepEqual(
        box.childNodes.map((node) => node.leaf),
        whole,
        `in steps of ${step}`,
      );
      shown.show(DOCUMENT);
      assert.equal(box.childNodes.length, whole.length, "showing it again adds nothing");
    }
  });
});

test("finished blocks and equal nodes stay, so that a selection in them survives", () => {
  withDocument(() => {
    const box = new FakeNode("div");
    const shown = new Markdown(box as unknown as HTMLElement);
    shown.show("First.\n\nSecond *em*");
    const [first, second] = box.childNodes;
    const [, em] = second!.childNodes;
    shown.show("First.\n\nSecond *em* more\n\n- list");
    assert.equal(box.childNodes[0], first);
    assert.equal(box.childNodes[1], second);
    assert.equal(second!.childNodes[1], em);
    assert.deepEqual(
      box.childNodes.map(({ tag }) => tag),
      ["p", "p", "ul"],
    );
  });
});

test("code without a fence keeps its lines and their indentation", () => {
  const [made, ...more] = leaves("func f(t *T) {\n\tfor _, x := range y {\n\t\tg(x)\n\t}\n}");
  assert.deepEqual(
    (made as Branch).children.map((leaf) => (typeof leaf === "string" ? leaf : leaf.tag)),
    ["func f(t *T) {", "br", "\tfor _, x := range y {", "br", "\t\tg(x)", "br", "\t}", "br", "}"],
  );
  assert.equal(more.length, 0);
});

test("hostile Markdown becomes text and plain links", () => {
  const hostile = [
    "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "[a](javascript:alert(1)) [b](JaVaScRiPt:alert(1)) [c](java\nscript:alert(1)) [d](&#106;avascript:alert(1))",
    "[e](data:text/html,<script>) [f](vbscript:x) [g](file:///etc/passwd) [h](//evil.example) [i](../settings)",
    "<javascript:alert(1)> <https://example.org> <a@example.org>",
    "![x](https://tracker.example/pixel.png) ![y](data:image/svg+xml;base64,AAAA) ![z](javascript:alert(1))",
    "[r]\n\n[r]: javascript:alert(1)\n\n[s]\n\n[s]: https://example.org 'title\" onmouseover=\"alert(1)'",
    '```js" onclick="alert(1)\ncode\n```',
    '| <b>a</b> |\n|:-:|\n| <iframe src="https://example.org"> |',
  ];
  const allowed = new Set(
    (
      "h3 p ul ol li blockquote div table thead tbody tr th td em strong s a code pre br hr span figure " +
      "figcaption button"
    ).split(" "),
  );
  let links = 0;
  for (const text of hostile) {
    const made = leaves(text);
    for (const { tag, attributes } of branches(made)) {
      assert.ok(allowed.has(tag), `${tag} from ${text}`);
      for (const [name, value] of Object.entries(attributes)) {
        assert.match(name, /^(class|tabindex|href|target|rel|type|start|data-language)$/, text);
        if (name === "href") {
          assert.match(value, /^(https:\/\/|mailto:)/, text);
          assert.match(attributes["rel"]!, /noopener noreferrer/);
          links++;
        } else assert.doesNotMatch(value, /["<]/, text);
      }
    }
  }
  assert.equal(links, 4, "the links that are harmless are links: two autolinks, a picture, a reference");
  assert.equal(textOf(leaves(hostile[0]!)), hostile[0]);
  assert.ok(!tags(hostile[4]!).includes("img"), "a picture is not fetched");
});

test("texts made to take long end soon", () => {
  // The longest paragraph whose marks are parsed, and a long answer.
  for (const n of [20_000, 100_000]) slow(n);
});

function slow(n: number): void {
  const repeated = (part: string): string => part.repeat(Math.ceil(n / part.length)).slice(0, n);
  const hostile: Record<string, string> = {
    stars: repeated("*"),
    emphasis: repeated("*a **b "),
    underscores: repeated("_a __b "),
    brackets: repeated("["),
    links: repeated("[a]("),
    pictures: repeated("![["),
    autolinks: repeated("<https://"),
    ticks: repeated("`a``b"),
    quotes: repeated("> "),
    lists: repeated("- "),
    "lists in lists": Array.from({ length: 400 }, (_, i) => `${" ".repeat(2 * i)}- a`).join("\n"),
    "lines of lists": repeated("- a\n"),
    references: Array.from({ length: 5000 }, (_, i) => `[r${i}]: https://a/${i}`).join("\n"),
    tables: `${repeated("|a")}\n${repeated("|-")}\n`,
    rows: `|a|\n|-|\n${repeated("|b|\n")}`,
    headings: repeated("# a\n"),
    entities: repeated("&#x41;&amp"),
    tags: repeated("<a "),
    fences: repeated("```\n~~~\n"),
    backslashes: repeated("\\"),
  };
  for (const [name, text] of Object.entries(hostile)) {
    const begin = performance.now();
    leaves(text);
    const ms = performance.now() - begin;
    assert.ok(ms < 4000, `${n} characters of ${name} took ${ms.toFixed(0)} ms`);
  }
}

test("code is marked in the languages that models write, and stays the same text", () => {
  const code = 'func main() {\n\tfmt.Println("<b>", 1) // note\n}';
  const made = spans(code, "go")!;
  assert.equal(textOf(made), code);
  const classes = branches(made).map(({ tag, attributes }) => `${tag}.${attributes["class"]}`);
  for (const one of ["span.hl-keyword", "span.hl-string", "span.hl-number", "span.hl-comment"])
    assert.ok(classes.includes(one), one);
  // A language inside another.
  const page = "<style>a { color: red }</style><script>const a = 1;</script>";
  assert.equal(textOf(spans(page, "html")!), page);
  for (const name of ["js", "ts", "py", "sh", "yml", "c++", "rs", "json"]) assert.ok(spans("a = 1", name), name);
  assert.equal(spans(code, "klingon"), undefined);
  assert.equal(spans("a ".repeat(40_000), "go"), undefined);
});

test("a kept conversation has a title and a size", () => {
  const messages = [
    { role: "system", content: "Be brief." },
    { role: "user", content: `\n${"long ".repeat(40)}\nsecond line` },
  ] as const;
  assert.match(titleOf({ messages }), /^(long ){16}…$/);
  assert.equal(titleOf({ messages: [] }), "Without a question");
  const size = (content: string): number =>
    sizeOf({ id: "1", begun: 1, changed: 2, model: "m", messages: [{ role: "user", content }] });
  assert.equal(size("é") - size(""), 2, "in bytes");
});
