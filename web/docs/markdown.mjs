/**
 * Converts Markdown to HTML: headings with GitHub's anchors, highlighted code, links between pages instead of files,
 * and pictures with sizes.
 */
import { readFileSync } from "node:fs";
import path from "node:path";
import hljs from "highlight.js/lib/core";
import bash from "highlight.js/lib/languages/bash";
import go from "highlight.js/lib/languages/go";
import javascript from "highlight.js/lib/languages/javascript";
import json from "highlight.js/lib/languages/json";
import typescript from "highlight.js/lib/languages/typescript";
import xml from "highlight.js/lib/languages/xml";
import MarkdownIt from "markdown-it";
import anchor from "markdown-it-anchor";

const LANGUAGES = { sh: bash, go, js: javascript, jsx: javascript, json, ts: typescript, tsx: typescript };
for (const name of ["html", "vue", "svelte"]) LANGUAGES[name] = xml;
for (const [name, language] of Object.entries(LANGUAGES)) hljs.registerLanguage(name, language);

/** Returns GitHub's anchor of a heading, so that the same links work there. */
export function slug(text) {
  return text
    .trim()
    .toLowerCase()
    .replace(/[^\p{L}\p{M}\p{N}\p{Pc} -]/gu, "")
    .replaceAll(" ", "-");
}

/**
 * @param {object} options
 * @param {(file: string) => string | undefined} options.pageOf returns the page of a Markdown file of the repository
 * @param {(file: string) => string | undefined} options.assetOf copies another file and returns its address
 */
export function renderer({ pageOf, assetOf }) {
  // HTML in Markdown is text, except in generated pages, whose anchors are HTML.
  const make = (html) => {
    const md = new MarkdownIt({ html, linkify: false, highlight: (code, lang) => highlight(code, lang) });
    md.use(anchor, {
      level: [2, 3, 4],
      slugify: slug,
      permalink: anchor.permalink.linkInsideHeader({
        symbol: "#",
        placement: "after",
        class: "anchor",
        renderAttrs: () => ({ "aria-label": "Link to this section" }),
      }),
    });
    md.renderer.rules.table_open = () => '<div class="table" tabindex="0"><table>\n';
    md.renderer.rules.table_close = () => "</table></div>\n";
    // A header cell without text is an ordinary one for screen readers.
    md.core.ruler.push("headers", ({ tokens }) => {
      for (const [i, token] of tokens.entries())
        if (token.type === "th_open" && tokens[i + 1].content === "") token.tag = tokens[i + 2].tag = "td";
    });
    md.core.ruler.push("links", (state) => {
      for (const block of state.tokens) for (const token of block.children ?? []) relate(token, state.env);
    });
    const indented = md.renderer.rules.code_block;
    md.renderer.rules.code_block = (tokens, i, options, env, self) =>
      env.language
        ? `<pre><code class="hljs">${highlight(tokens[i].content, env.language)}</code></pre>\n`
        : indented(tokens, i, options, env, self);
    return md;
  };
  const plain = make(false);
  const generated = make(true);

  /** Converts the target of a link or a picture from a path relative to the file to an address of the site. */
  function relate(token, env) {
    const name = token.type === "link_open" ? "href" : token.type === "image" ? "src" : undefined;
    const to = name && token.attrGet(name);
    if (!to || to.startsWith("#") || /^[a-z]+:/.test(to)) return;
    const [file, fragment] = to.split("#");
    const target = path.posix.join(path.posix.dirname(env.file), decodeURI(file));
    const place = pageOf(target) ?? assetOf(target);
    if (place === undefined) return token.attrs.splice(token.attrIndex(name), 1);
    const relative = path.posix.relative(path.posix.dirname(env.page), place);
    token.attrSet(name, fragment ? `${relative}#${fragment}` : relative);
    if (token.type === "image" && target.endsWith(".png")) {
      const head = readFileSync(path.join(env.root, target)).subarray(16, 24);
      token.attrSet("width", String(head.readUInt32BE(0)));
      token.attrSet("height", String(head.readUInt32BE(4)));
      token.attrSet("loading", "lazy");
    }
  }

  return (text, env) => {
    const md = env.generated ? generated : plain;
    const tokens = md.parse(text, env);
    return { html: md.renderer.render(tokens, md.options, env), ...outline(tokens) };
  };
}

function highlight(code, lang) {
  const name = lang.split(/\s/)[0];
  return LANGUAGES[name] ? hljs.highlight(code, { language: name }).value : "";
}

/** Returns the title, the headings, and the text of each section, for contents and search. */
function outline(tokens) {
  const headings = [];
  const sections = [{ id: "", title: "", text: "" }];
  let title = "";
  let lead = "";
  for (let i = 0; i < tokens.length; i++) {
    const token = tokens[i];
    if (token.type === "heading_open") {
      const text = textOf(tokens[i + 1]);
      if (token.tag === "h1") title ||= text;
      else {
        const id = token.attrGet("id") ?? "";
        headings.push({ level: Number(token.tag[1]), id, text });
        sections.push({ id, title: text, text: "" });
      }
      i += 2;
    } else if (token.type === "inline") {
      const text = textOf(token);
      if (!lead && tokens[i - 1]?.type === "paragraph_open") lead = text;
      sections.at(-1).text += `${text} `;
    } else if (token.type === "fence" || token.type === "code_block") sections.at(-1).text += `${token.content} `;
  }
  return { title, lead, headings, sections };
}

function textOf(inline) {
  return (inline.children ?? [])
    .filter((t) => t.type === "text" || t.type === "code_inline" || t.type === "softbreak")
    .map((t) => (t.type === "softbreak" ? " " : t.content))
    .join("")
    .replace(/ ?#$/, "");
}
