/**
 * Draws a run as a picture of 1200 × 630, the size of link previews: how many passes the text took, the text with
 * the origin of its tokens, and the tree of the round that accepted most.
 */
import type { EventTree, TokenKind } from "../protocol/generation.ts";
import type { Trace } from "../protocol/trace.ts";
import { layout, visible } from "../widget/layout.ts";

export const WIDTH = 1200;
export const HEIGHT = 630;
const MARGIN = 48;
const SANS = 'system-ui, -apple-system, "Segoe UI", sans-serif';
const MONO = 'ui-monospace, "SF Mono", "Cascadia Mono", "DejaVu Sans Mono", monospace';
/** The box of the text. */
const TEXT = { x: MARGIN, y: 212, width: 560, height: 340, line: 24, size: 17 };
/** The box of the tree. */
const TREE = { x: 640, y: 212, width: WIDTH - MARGIN - 640, height: 340 };
const TAB = 4;

const KINDS: Readonly<Partial<Record<TokenKind, string>>> = {
  accepted: "drafted and accepted",
  corrected: "corrected",
  bonus: "one more with each pass",
  relaxed: "accepted against the large model (lossy)",
};

export interface PictureOptions {
  /** The verdict of a comparison of this request; without it the picture says how many passes the text took. */
  verdict?: string | undefined;
  /** Device pixels of a pixel of the picture. */
  scale?: number;
}

/** Draws a run with the colours that custom properties have at an element, such as `--accent`. */
export function pictureOf(trace: Trace, theme: Element, options: PictureOptions = {}): HTMLCanvasElement {
  const { verdict, scale = 2 } = options;
  const canvas = document.createElement("canvas");
  canvas.width = WIDTH * scale;
  canvas.height = HEIGHT * scale;
  const to = canvas.getContext("2d")!;
  to.scale(scale, scale);
  to.textBaseline = "alphabetic";
  const colour = coloursOf(theme);
  const box = (x: number, y: number, width: number, height: number, radius: number, fill: string): void => {
    to.beginPath();
    to.roundRect(x, y, width, height, radius);
    to.fillStyle = fill;
    to.fill();
  };
  const write = (text: string, x: number, y: number, font: string, fill: string, most = WIDTH - MARGIN - x): void => {
    to.font = font;
    to.fillStyle = fill;
    to.fillText(text, x, y, most);
  };

  box(0, 0, WIDTH, HEIGHT, 0, colour("--bg"));
  write("Foretoken", MARGIN, 84, `700 34px ${SANS}`, colour("--fg"));
  const name = to.measureText("Foretoken").width;
  for (const [i, alpha] of [1, 0.6, 0.3].entries()) {
    to.globalAlpha = alpha;
    box(MARGIN + name + 8 + 18 * i, 72, 12, 12, 2, colour("--accent"));
  }
  to.globalAlpha = 1;
  const passes = passesOf(trace);
  write(verdict ?? passes, MARGIN, 142, `600 ${fitting(to, verdict ?? passes, 44)}px ${SANS}`, colour("--fg"));
  const idea = "A small model guesses ahead, the large one checks all guesses in one pass: the same text, sooner.";
  write(verdict ? `${passes}.` : idea, MARGIN, 182, `400 21px ${SANS}`, colour("--muted"));

  const tree = bestTree(trace);
  const text = tree ? TEXT : { ...TEXT, width: WIDTH - 2 * MARGIN };
  for (const { x, y, width, height } of tree ? [text, TREE] : [text]) box(x, y, width, height, 14, colour("--card"));
  drawText(to, trace, colour, text.width);
  if (tree) drawTree(to, tree, colour);

  let x = MARGIN;
  for (const [kind, words] of Object.entries(KINDS)) {
    if (!trace.rounds.some(({ tokens }) => tokens.some((token) => token.kind === kind))) continue;
    box(x, HEIGHT - 49, 16, 16, 4, colour(`--${kind}`));
    write(words, x + 24, HEIGHT - 35, `400 18px ${SANS}`, colour("--muted"));
    x += 24 + to.measureText(words).width + 32;
  }
  return canvas;
}

/** Returns a canvas as PNG. */
export function pngOf(canvas: HTMLCanvasElement): Promise<Blob> {
  return new Promise((resolve, reject) =>
    canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("picture: the browser made none")))),
  );
}

/** Says in how many passes the recorded rounds wrote their tokens. */
export function passesOf({ rounds }: Trace): string {
  const tokens = rounds.reduce((sum, round) => sum + round.tokens.length, 0);
  return `${tokens} tokens in ${rounds.length} passes of the large model`;
}

function coloursOf(theme: Element): (property: string) => string {
  const probe = theme.appendChild(document.createElement("i"));
  const found = new Map<string, string>();
  const names = ["bg", "card", "fg", "muted", "line", "accent", ...Object.keys(KINDS)];
  for (const name of names) {
    probe.style.color = `var(--${name})`;
    found.set(`--${name}`, getComputedStyle(probe).color);
  }
  probe.remove();
  return (property) => found.get(property) ?? "gray";
}

/** Returns the largest size of a line in px, up to `most`, that the width takes. */
function fitting(to: CanvasRenderingContext2D, text: string, most: number): number {
  to.font = `600 ${most}px ${SANS}`;
  return Math.min(most, (most * (WIDTH - 2 * MARGIN)) / to.measureText(text).width);
}

/** Draws the end of the prompt and the text on a grid of characters. */
function drawText(
  to: CanvasRenderingContext2D,
  trace: Trace,
  colour: (property: string) => string,
  width: number,
): void {
  to.font = `400 ${TEXT.size}px ${MONO}`;
  const cell = to.measureText("m").width;
  const columns = Math.floor((width - 36) / cell);
  const lines = Math.floor((TEXT.height - 24) / TEXT.line);
  const prompt = trace.prompt.split("\n").slice(-4).join("\n");
  const pieces: { text: string; kind?: TokenKind }[] = [{ text: prompt }];
  for (const { tokens } of trace.rounds) pieces.push(...tokens);
  pieces.push({ text: trace.rest });
  let line = 0;
  let column = 0;
  for (const { text, kind } of pieces) {
    for (const character of text) {
      if (character === "\n" || column >= columns) {
        line++;
        column = 0;
      }
      if (line >= lines) return;
      if (character === "\n" || character === "\r") continue;
      const cells = Math.max(1, Math.round(to.measureText(character).width / cell));
      const wide = character === "\t" ? TAB - (column % TAB) : cells;
      const [x, y] = [TEXT.x + 18 + column * cell, TEXT.y + 14 + line * TEXT.line];
      if (kind && kind !== "plain") {
        to.fillStyle = colour(`--${kind}`);
        to.globalAlpha = 0.2;
        to.fillRect(x, y, wide * cell, TEXT.line - 3);
        to.globalAlpha = 1;
        to.fillRect(x, y + TEXT.line - 5, wide * cell, 2);
      }
      to.fillStyle = colour(kind ? "--fg" : "--muted");
      if (character !== "\t") to.fillText(character, x, y + 16);
      column += wide;
    }
  }
}

/** Returns the tree of the round that accepted most; undefined if none is worth a picture. */
function bestTree({ rounds }: Trace): EventTree | undefined {
  const trees = rounds.flatMap(({ tree }) => (tree && tree.tokens.length > 3 ? [tree] : []));
  return trees.reduce<EventTree | undefined>(
    (best, tree) => (best && best.accepted.length >= tree.accepted.length ? best : tree),
    undefined,
  );
}

function drawTree(to: CanvasRenderingContext2D, tree: EventTree, colour: (property: string) => string): void {
  const { placed, columns, height } = layout(tree, { verified: 30, pruned: 0 });
  const [inner, gap] = [TREE.width - 52, 14];
  const step = Math.min(120, inner / Math.max(1, columns));
  const scale = Math.min(1.5, (TREE.height - 40) / height);
  const top = TREE.y + (TREE.height - height * scale) / 2;
  const at = new Map<number, { x: number; y: number }>();
  to.font = `400 14px ${MONO}`;
  for (const { node, parent, column, y, state } of placed) {
    if (state === "pruned") continue;
    const place = { x: TREE.x + 26 + (column - 1) * step + gap, y: top + y * scale };
    const kept = state !== "rejected";
    const tone = colour(state === "relaxed" ? "--relaxed" : kept ? "--accepted" : "--line");
    if (state === "root") {
      place.x = TREE.x + 26;
      to.fillStyle = colour("--muted");
      to.beginPath();
      to.arc(place.x, place.y, 6, 0, 2 * Math.PI);
      to.fill();
    } else {
      const from = at.get(parent)!;
      const [width, high] = [step - gap, Math.min(32, 26 * scale)];
      const start = from.x + (parent === 0 ? 6 : width);
      to.strokeStyle = tone;
      to.lineWidth = kept ? 2 : 1;
      to.beginPath();
      to.moveTo(start, from.y);
      to.bezierCurveTo((start + place.x) / 2, from.y, (start + place.x) / 2, place.y, place.x, place.y);
      to.stroke();
      to.beginPath();
      to.roundRect(place.x, place.y - high / 2, width, high, 5);
      to.fillStyle = tone;
      to.globalAlpha = kept ? 0.22 : 0.25;
      to.fill();
      to.globalAlpha = 1;
      to.stroke();
      to.save();
      to.clip();
      to.fillStyle = colour(kept ? "--fg" : "--muted");
      if (high > 12) to.fillText(visible(tree.texts[node]!), place.x + 7, place.y + 5);
      to.restore();
    }
    at.set(node, place);
  }
}
