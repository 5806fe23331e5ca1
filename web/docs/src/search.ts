/** The script of the documentation: search, and a menu that folds on phones. Without it the menu has plain links. */
import MiniSearch from "minisearch";

interface Section {
  id: number;
  /** Below docs/. */
  to: string;
  page: string;
  title: string;
  text: string;
}

const base = document.body.dataset["base"] ?? "./";
const box = document.querySelector("search")!;
const input = box.querySelector("input")!;
const found = box.querySelector<HTMLElement>("#found")!;
const pages = document.querySelector<HTMLDetailsElement>("nav.pages details")!;
let index: Promise<MiniSearch<Section>> | undefined;

/** Fetches and builds the index when the search gets the focus. */
function load(): Promise<MiniSearch<Section>> {
  index ??= fetch(new URL(`${base}search.json`, location.href))
    .then((response) => {
      if (!response.ok) throw new Error(`docs: search.json: the server answered ${response.status}`);
      return response.json() as Promise<Section[]>;
    })
    .then((sections) => {
      const search = new MiniSearch<Section>({
        fields: ["title", "page", "text"],
        storeFields: ["to", "page", "title", "text"],
        searchOptions: { boost: { title: 4, page: 2 }, prefix: true, fuzzy: 0.15, combineWith: "AND" },
      });
      search.addAll(sections);
      return search;
    });
  index.catch(() => (index = undefined)); // the next word tries again
  return index;
}

async function show(): Promise<void> {
  const words = input.value.trim();
  if (!words) return hide();
  let hits: Section[];
  try {
    hits = (await load()).search(words).slice(0, 12) as unknown as Section[];
  } catch {
    return fill([note("The search index could not be loaded.")]);
  }
  if (words !== input.value.trim()) return;
  fill(hits.length ? hits.map((hit) => entry(hit, words)) : [note(`No results for “${words}”.`)]);
}

function fill(content: HTMLElement[]): void {
  found.replaceChildren(...content);
  found.hidden = false;
}

function hide(): void {
  found.hidden = true;
  found.replaceChildren();
}

function note(text: string): HTMLElement {
  const p = document.createElement("p");
  p.textContent = text;
  return p;
}

function entry(hit: Section, words: string): HTMLElement {
  const link = document.createElement("a");
  link.href = new URL(`${base}${hit.to}`, location.href).href;
  const title = document.createElement("b");
  title.textContent = hit.title ? `${hit.page} › ${hit.title}` : hit.page;
  const text = document.createElement("span");
  text.textContent = excerpt(hit.text, words);
  link.append(title, text);
  return link;
}

/** Returns the part of a text around a word. */
function excerpt(text: string, words: string): string {
  const lower = text.toLowerCase();
  const at = Math.max(
    0,
    ...words
      .toLowerCase()
      .split(/\s+/)
      .map((word) => lower.indexOf(word)),
  );
  const start = at < 50 ? 0 : text.indexOf(" ", at - 40) + 1;
  return (start ? "… " : "") + text.slice(start, start + 140);
}

box.hidden = false;
input.addEventListener("focus", () => void load().catch(() => undefined));
input.addEventListener("input", () => void show());
document.addEventListener("keydown", (event) => {
  const links = [...found.querySelectorAll("a")];
  const at = links.indexOf(document.activeElement as HTMLAnchorElement);
  if (event.key === "/" && !event.ctrlKey && !event.metaKey && !event.altKey && document.activeElement !== input) {
    input.focus();
    input.select();
  } else if (event.key === "Escape" && !found.hidden) {
    hide();
    input.focus();
  } else if (event.key === "ArrowDown" && links.length && (document.activeElement === input || at >= 0)) {
    links[Math.min(at + 1, links.length - 1)]!.focus();
  } else if (event.key === "ArrowUp" && at >= 0) {
    (at === 0 ? input : links[at - 1]!).focus();
  } else if (event.key === "Enter" && document.activeElement === input && links.length) {
    links[0]!.click();
  } else return;
  event.preventDefault();
});
document.addEventListener("click", (event) => {
  if (!box.contains(event.target as Node)) hide();
});

// If the menu is above the text, it starts folded; without scripts it stays open.
if (matchMedia("(max-width: 60rem)").matches) pages.open = false;
matchMedia("(max-width: 60rem)").addEventListener("change", ({ matches }) => (pages.open = !matches));
