/**
 * Draws the pictures of docs/how-it-works.md from the page's recorded run and the playground's runs and costs.
 *
 *   node web/docs/pictures.mjs     writes docs/how-*.svg
 */
import { promises as fs } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const root = path.dirname(path.dirname(path.dirname(fileURLToPath(import.meta.url))));
const WIDTH = 520;

/** Returns the pictures by their files in docs/. */
export async function pictures() {
  const { Order, visible, readTrace, model, recorded } = await parts();
  const trace = readTrace(await fs.readFile(path.join(root, "web", "recorded.trace")));
  const order = new Order(trace, Infinity);
  // A round with all that can happen: a kept path, guesses that are wrong, and a token of the target instead.
  const shows = ({ tree, tokens }) => tree?.accepted.length >= 2 && tokens.at(-1).kind === "corrected";
  const round = trace.rounds.findIndex(shows);
  if (round < 0) throw new Error("docs: no round of web/recorded.trace keeps two tokens and corrects the third");
  const scene = order.scene(round);
  const style = await styleSheet();
  const draw = (height, title, ...shapes) =>
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" role="img" ` +
    `aria-label="${escape(title)}">\n<style>\n${style}</style>\n${shapes.flat(3).join("\n")}\n</svg>\n`;
  const words = (text) => escape(visible(text) || "end");
  return new Map([
    ["how-draft.svg", tree(scene, draw, words, false)],
    ["how-mask.svg", mask(trace.rounds[round].tree, draw, words)],
    ["how-accept.svg", tree(scene, draw, words, true)],
    ["how-text.svg", text(trace, draw)],
    ["how-pays.svg", pays(model, recorded, draw)],
  ]);
}

/** Bundles the modules of the page that read, place and weigh the rounds. */
async function parts() {
  const contents = `
    export { Order } from "./player/order.ts";
    export { visible } from "./widget/layout.ts";
    export { readTrace } from "./protocol/trace.ts";
    export * as model from "./playground/model.ts";
    export * as recorded from "./playground/recorded.ts";`;
  const { outputFiles } = await build({
    stdin: { contents, resolveDir: path.join(root, "web", "src"), loader: "ts" },
    bundle: true,
    write: false,
    platform: "node",
    target: "node20",
    format: "esm",
    loader: { ".trace": "binary" },
  });
  return import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].text).toString("base64")}`);
}

/** Returns the styles of the pictures, in the colours of the widget. */
async function styleSheet() {
  const theme = await fs.readFile(path.join(root, "web", "src", "styles", "theme.css"), "utf8");
  const pairs = [...theme.matchAll(/(--[\w-]+): var\([^,]+, light-dark\((#\w+), (#\w+)\)\)/g)];
  const colours = (i) => `:root{${pairs.map((pair) => `${pair[1]}:${pair[i]}`).join(";")}}`;
  return `${colours(2)}
@media (prefers-color-scheme:dark){${colours(3)}}
text{font:13px system-ui,sans-serif;fill:var(--fg)}
.mono{font:12.5px ui-monospace,"DejaVu Sans Mono",monospace}
.small,.muted{fill:var(--muted)}
.small{font-size:10.5px}
.end{text-anchor:end}
.middle{text-anchor:middle}
path,polyline{fill:none;stroke:var(--line);stroke-width:2}
rect{fill:var(--card);stroke:var(--line)}
rect.guess{stroke:var(--neutral);stroke-dasharray:3 2}
.kept rect{stroke:var(--accepted);stroke-width:2}
.own rect{stroke:var(--bonus);stroke-width:2}
.token.kept{fill:var(--accepted)}
.token.own{fill:var(--bonus)}
.token{opacity:.35;stroke:none}
rect.root{fill:var(--fg)}
.root text{fill:var(--bg)}
.gone{opacity:.45}
path.kept{stroke:var(--accepted)}
path.own{stroke:var(--bonus);stroke-dasharray:3 3}
rect.sees{fill:var(--draft);stroke:none}
rect.before{fill:var(--neutral);stroke:none}
rect.blind{fill:none}
.cpu{stroke:var(--corrected)}
.gpu{stroke:var(--draft)}
.large{stroke:var(--accepted)}
line{stroke:var(--line)}
line.even{stroke:var(--fg);stroke-dasharray:5 4}
circle{stroke-width:2;fill:var(--card)}
`;
}

const escape = (text) => text.replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
const label = (x, y, text, kind = "") => `<text x="${x}" y="${y}" class="${kind}">${text}</text>`;

/** Draws a tree: as the draft made it, or with the path that the target kept and its own token. */
function tree({ nodes, columns, lines }, draw, words, judged) {
  const shown = nodes.filter(({ kind }) => judged || kind !== "own");
  const [wide, high, line] = [70, 34, 44];
  const step = (WIDTH - wide - 2) / (columns - 1);
  const x = ({ column }) => 1 + column * step;
  const y = (node) => 6 + (node.line - 0.5) * line;
  const gone = ({ kind }) => judged && kind === "rejected";
  const named = ({ kind }) => (kind === "root" ? "root" : judged && kind !== "rejected" ? kind : "guess");
  const edges = shown
    .filter(({ parent }) => parent >= 0)
    .map((node) => {
      const from = nodes[node.parent];
      const [x1, y1, x2, y2] = [x(from) + wide, y(from) + high / 2, x(node), y(node) + high / 2].map(round);
      const middle = round((x1 + x2) / 2);
      const classes = `${named(node)}${gone(node) ? " gone" : ""}`;
      return `<path class="${classes}" d="M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}"/>`;
    });
  const boxes = shown.map((node) => {
    const [left, top] = [round(x(node)), round(y(node))];
    const part = node.probability === undefined ? "" : `${Math.round(100 * node.probability)} %`;
    return (
      `<g class="${named(node)}${gone(node) ? " gone" : ""}">` +
      `<rect class="${named(node)}" x="${left}" y="${top}" width="${wide}" height="${high}" rx="7"/>` +
      label(left + wide / 2, top + (part ? 15 : 21), words(node.text), "mono middle") +
      (part ? label(left + wide / 2, top + 28, part, "small middle") : "") +
      "</g>"
    );
  });
  const title = judged
    ? "The same tree: the path that the target keeps, and the token that it writes itself"
    : "A tree of guesses after one token, each with its probability";
  return draw(12 + lines * line, title, edges, boxes);
}

/** Draws which columns each row of the verifying pass reads. */
function mask({ texts, parents }, draw, words) {
  const n = texts.length;
  const [cell, left, top, before] = [24, 92, 92, 60];
  const shapes = [label(left + before / 2, top - 8, "the text", "small middle")];
  for (let row = 0; row < n; row++) {
    const path = new Set();
    for (let node = row; node >= 0; node = parents[node]) path.add(node);
    const [y, x] = [top + row * cell, left + before + 6 + row * cell];
    shapes.push(label(left - 8, y + 16, words(texts[row]), "mono end"));
    const turn = `transform="translate(${x + 16} ${top - 8}) rotate(-60)"`;
    shapes.push(`<text ${turn} class="mono">${words(texts[row])}</text>`);
    shapes.push(`<rect class="before" x="${left}" y="${y + 1}" width="${before}" height="${cell - 2}" rx="3"/>`);
    for (let column = 0; column < n; column++) {
      const kind = path.has(column) ? "sees" : "blind";
      const at = left + before + 6 + column * cell;
      shapes.push(`<rect class="${kind}" x="${at + 1}" y="${y + 1}" width="${cell - 2}" height="${cell - 2}" rx="3"/>`);
    }
  }
  const title = "The attention mask of the tree: each row reads the text and its own path alone";
  return draw(top + n * cell + 4, title, shapes);
}

/** Writes the text of a run, with the origin of each token. */
function text(trace, draw) {
  const [advance, line, left] = [7.6, 22, 4];
  const shapes = [];
  let [x, y] = [0, 1];
  const write = (part, kind) => {
    for (const [piece] of part.matchAll(/\n|\t|[^\n\t]+/g)) {
      if (piece === "\n") [x, y] = [0, y + 1];
      else if (piece === "\t") x += 3;
      else {
        const [px, length] = [round(left + x * advance), round(piece.length * advance)];
        const box = `x="${px}" y="${y * line - 16}" width="${length - 1}" height="20" rx="3"`;
        if (kind) shapes.push(`<rect class="token ${kind}" ${box}/>`);
        const fit = `textLength="${length}" lengthAdjust="spacingAndGlyphs" xml:space="preserve"`;
        const shown = escape(piece).replaceAll(" ", "\u00a0");
        shapes.push(`<text x="${px}" y="${y * line - 2}" class="mono${kind ? "" : " muted"}" ${fit}>${shown}</text>`);
        x += piece.length;
      }
    }
  };
  // The comment above the function does not fit a line.
  write(trace.prompt.slice(trace.prompt.lastIndexOf("\nfunc ") + 1), "");
  for (const { tokens } of trace.rounds)
    for (const { text: part, kind } of tokens) write(part, kind === "accepted" ? "kept" : "own");
  const title = "The text of the recorded run: tokens that the draft guessed, and tokens that the target wrote itself";
  const key = [
    [left, "kept", "guessed by the draft, kept by the target"],
    [300, "own", "written by the target itself"],
  ].map(
    ([at, kind, meaning]) =>
      `<rect class="token ${kind}" x="${at}" y="${(y + 1) * line - 4}" width="12" height="12" rx="3"/>` +
      label(at + 18, (y + 1) * line + 7, meaning, "muted"),
  );
  return draw((y + 1) * line + 16, title, shapes, key);
}

/** Draws what the best trees of more and more rows bring on each device. */
function pays({ SIZES, best }, { DEVICES, RUNS, MOST }, draw) {
  const sizes = SIZES.filter((n) => n > 1 && n <= MOST.nodes);
  const lines = DEVICES.map(({ id, name, costs }) => ({
    id,
    name,
    values: sizes.map((nodes) => best(costs, RUNS[0].trees, { ...MOST, nodes }).speedup),
  }));
  const most = Math.ceil(2 * Math.max(...lines.flatMap(({ values }) => values))) / 2;
  const [left, right, top, bottom] = [34, WIDTH - 8, 12, 232];
  const x = (i) => round(left + 8 + ((right - left - 16) * i) / (sizes.length - 1));
  const y = (value) => round(bottom - ((bottom - top) * value) / most);
  const grid = Array.from({ length: 2 * most + 1 }, (_, i) => i / 2).map(
    (value) =>
      `<line x1="${left}" x2="${right}" y1="${y(value)}" y2="${y(value)}"${value === 1 ? ' class="even"' : ""}/>` +
      label(left - 6, y(value) + 4, value, "small end"),
  );
  const marks = sizes.map((n, i) => label(x(i), bottom + 16, n, "small middle"));
  const curves = lines.map(({ id, values }) => [
    `<polyline class="${id}" points="${values.map((value, i) => `${x(i)},${y(value)}`).join(" ")}"/>`,
    values.map((value, i) => `<circle class="${id}" cx="${x(i)}" cy="${y(value)}" r="3"/>`),
  ]);
  const key = lines.map(({ id, name }, i) => [
    `<line class="${id}" x1="${left}" x2="${left + 22}" y1="${bottom + 54 + 20 * i}" y2="${bottom + 54 + 20 * i}" ` +
      'stroke-width="3"/>',
    label(left + 30, bottom + 58 + 20 * i, escape(name), "muted"),
  ]);
  return draw(
    bottom + 64 + 20 * lines.length,
    "The speedup over plain decoding by the rows of the tree, on each device: rising and then falling",
    grid,
    marks,
    label((left + right) / 2, bottom + 34, "rows of the target's pass: nodes of the tree", "small middle"),
    curves,
    key,
  );
}

function round(x) {
  return Math.round(10 * x) / 10;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  for (const [name, picture] of await pictures()) await fs.writeFile(path.join(root, "docs", name), picture);
}
