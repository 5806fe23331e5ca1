/** Finds broken links to pages, pictures and anchors of the site. */
import path from "node:path";

/**
 * @param {Map<string, string>} pages HTML by address below docs/
 * @param {Set<string>} files other files below docs/
 * @param {Set<string>} outside files of the site outside docs/, as ../NAME
 * @returns {string[]} one line per broken link
 */
export function deadLinks(pages, files, outside) {
  const ids = new Map();
  for (const [page, html] of pages)
    ids.set(page, new Set(Array.from(html.matchAll(/\sid="([^"]+)"/g), (m) => unescape(m[1]))));
  const dead = [];
  for (const [page, html] of pages) {
    for (const [, attribute, raw] of html.matchAll(/\s(href|src)="([^"]*)"/g)) {
      const to = unescape(raw);
      if (/^[a-z]+:/.test(to)) {
        if (!/^(https:|mailto:|data:image\/)/.test(to)) dead.push(`${page}: ${attribute} ${to}: want https`);
        continue;
      }
      const [file, fragment] = to.split("#");
      let target = file ? path.posix.join(path.posix.dirname(page), file) : page;
      if (target.endsWith("/") || target === ".") target = path.posix.join(target, "index.html");
      if (target.startsWith("/")) dead.push(`${page}: ${to}: want a relative link`);
      else if (!pages.has(target) && !files.has(target) && !outside.has(target))
        dead.push(`${page}: ${to}: ${target} does not exist`);
      else if (fragment && pages.has(target) && !ids.get(target).has(decodeURIComponent(fragment)))
        dead.push(`${page}: ${to}: ${target} has no #${fragment}`);
    }
  }
  return dead;
}

const unescape = (text) =>
  text.replaceAll("&quot;", '"').replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");
