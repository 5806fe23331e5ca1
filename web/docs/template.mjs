/** The HTML template of the documentation's pages. */
import path from "node:path";

const escape = (text) =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");

/**
 * @param {object} page { page, title, lead, html, headings }
 * @param {{ title: string, links: { page: string, title: string }[] }[]} sections the navigation
 * @param {{ before?: object, after?: object }} neighbours the previous and the next page
 */
export function frame(page, sections, { before, after }) {
  const to = (target) => path.posix.relative(path.posix.dirname(page.page), target) || path.posix.basename(target);
  const base = to("./").replace(/^$/, ".").replace(/\/?$/, "/");
  const link = ({ page: target, title }) =>
    `<li><a href="${to(target)}"${target === page.page ? ' aria-current="page"' : ""}>${escape(title)}</a></li>`;
  const menu = sections
    .map(({ title, links }) => `<h2>${escape(title)}</h2>\n<ul>\n${links.map(link).join("\n")}\n</ul>`)
    .join("\n");
  const contents = page.headings.filter(({ level }) => level <= 3);
  const toc = contents
    .map(({ level, id, text }) => `<li class="level-${level}"><a href="#${escape(id)}">${escape(text)}</a></li>`)
    .join("\n");
  const onThisPage =
    contents.length > 1
      ? `<nav class="contents" aria-label="On this page"><h2>On this page</h2>\n<ul>\n${toc}\n</ul></nav>`
      : "";
  const turn = (other, rel, word) =>
    other
      ? `<a rel="${rel}" href="${to(other.page)}"><small>${word}</small> ${escape(other.title)}</a>`
      : "<span></span>";
  return `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <meta
      http-equiv="Content-Security-Policy"
      content="default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';
        manifest-src 'self'; base-uri 'none'; form-action 'none'"
    />
    <meta name="description" content="${escape(page.lead.slice(0, 200))}" />
    <meta name="color-scheme" content="light dark" />
    <title>${escape(page.title)} · Foretoken</title>
    <link rel="icon" href="${to("../icon.svg")}" type="image/svg+xml" />
    <link rel="stylesheet" href="${base}docs.css" />
    <script type="module" src="${base}docs.js"></script>
  </head>
  <body data-base="${base}">
    <a class="skip" href="#text">Skip to the text</a>
    <header>
      <a class="home" href="${to("../index.html")}">Foretoken<i></i><i></i><i></i></a>
      <a class="here" href="${to("index.html")}">Documentation</a>
      <search hidden>
        <input
          type="search"
          placeholder="Search"
          aria-label="Search the documentation"
          aria-controls="found"
          autocomplete="off"
          spellcheck="false"
        />
        <div id="found" aria-live="polite" hidden></div>
      </search>
    </header>
    <div class="columns">
      <nav class="pages" aria-label="Pages">
        <details open>
          <summary>Pages</summary>
          ${menu}
        </details>
      </nav>
      <main id="text" tabindex="-1">
${page.html}
        <nav class="turn" aria-label="Previous and next">
          ${turn(before, "prev", "Previous:")}${turn(after, "next", "Next:")}
        </nav>
      </main>
      ${onThisPage}
    </div>
  </body>
</html>
`;
}
