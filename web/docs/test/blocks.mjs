/** Extracts the code of a page: blocks, and inline code. */
import MarkdownIt from "markdown-it";

const md = new MarkdownIt();

/**
 * @returns {{ blocks: { language: string, info: string[], text: string, line: number }[], inline: { text: string, line:
 * number }[] }} blocks without a language, and indented blocks, have the language ""
 */
export function blocksOf(markdown) {
  const blocks = [];
  const inline = [];
  for (const token of md.parse(markdown, {})) {
    const line = (token.map?.[0] ?? 0) + 1;
    if (token.type === "fence") {
      const [language = "", ...info] = token.info.trim().split(/\s+/);
      blocks.push({ language, info, text: token.content, line });
    } else if (token.type === "code_block") blocks.push({ language: "", info: [], text: token.content, line });
    for (const child of token.children ?? [])
      if (child.type === "code_inline") inline.push({ text: child.content, line });
  }
  return { blocks, inline };
}
