/**
 * Runs in the page before its scripts, for walk.mjs: records what a console would show as errors, finds the controls
 * that can be seen, and tells what each has done.
 */
const walk = (globalThis.walk = { errors: [], saved: 0, loaded: 0, effects: 0, shift: 0 });

const failed = ({ message, target }) => walk.errors.push(message ?? `${target.localName} did not load`);
addEventListener("error", failed, true);
addEventListener("unhandledrejection", ({ reason }) => walk.errors.push(`unhandled: ${reason}`));
addEventListener("securitypolicyviolation", ({ violatedDirective, blockedURI }) =>
  walk.errors.push(`policy: ${violatedDirective} ${blockedURI}`),
);
addEventListener("foretoken-ready", () => walk.loaded++);
if (PerformanceObserver.supportedEntryTypes.includes("layout-shift"))
  new PerformanceObserver((list) => list.getEntries().forEach(({ value }) => (walk.shift += value))).observe({
    type: "layout-shift",
    buffered: true,
  });
const { error } = console;
console.error = (...told) => {
  walk.errors.push(told.join(" "));
  error(...told);
};
const { click } = HTMLAnchorElement.prototype;
HTMLAnchorElement.prototype.click = function () {
  if (this.download) walk.saved++;
  click.call(this);
};

/** The elements below a root, with those of shadow roots, in the order of the document. */
function* below(root) {
  for (const element of root.querySelectorAll("*")) {
    yield element;
    if (element.shadowRoot) yield* below(element.shadowRoot);
  }
}

const PRESSED = "a, button, summary";
const CONTROLS = "a[href], button, input, select, textarea, summary, [tabindex='0']";

/** Names a control after the element whose shadow holds it: by its id, its label, or its text without numbers. */
function nameOf(control) {
  const host = control.getRootNode().host?.localName ?? "page";
  if (control.id) return `${host} #${control.id}`;
  const text = (control.labels?.[0] ?? control).textContent.trim().replace(/\s+/g, " ").replace(/\d[\d.,]*/g, "n");
  return `${host} ${control.localName} ${control.getAttribute("aria-label") || text.slice(0, 60) || control.className}`;
}

const isSeen = (element) =>
  element.checkVisibility({ visibilityProperty: true, contentVisibilityAuto: false }) &&
  [...element.getClientRects()].some(({ width, height }) => width > 0 && height > 0);

const controls = () => [...below(document)].filter((element) => element.matches(CONTROLS) && isSeen(element));

walk.names = () => controls().map(nameOf);
walk.find = (name) => controls().find((control) => nameOf(control) === name);
/** Finds an element of any shadow root by a selector. */
walk.query = (selector) => [...below(document)].find((element) => element.matches(selector));

const watched = new WeakSet();
const observer = new MutationObserver((changes) => (walk.effects += changes.length));
/** Counts changes of the document from now on. */
function watch() {
  for (const root of [document, ...[...below(document)].flatMap(({ shadowRoot }) => shadowRoot ?? [])]) {
    if (watched.has(root)) continue;
    watched.add(root);
    const all = { attributes: true, characterData: true, childList: true, subtree: true };
    observer.observe(root, all);
    for (const type of ["input", "change", "focusin", "scroll", "toggle"])
      root.addEventListener(type, () => walk.effects++, true);
  }
}

/** The element that the next click should reach. */
let target;
addEventListener("click", (event) => (walk.hit ||= event.composedPath().includes(target)), true);

const inWindow = () => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));

/**
 * Scrolls an element into the middle and makes it the target of the next click. Returns where a pointer hits it; null
 * for one that is not seen.
 */
walk.place = async (element) => {
  if (!element) return null;
  watch();
  target = (/checkbox|radio/.test(element.type) && element.labels[0]) || element;
  target.scrollIntoView({ block: "center", behavior: "instant" });
  await inWindow();
  const [rect] = target.getClientRects();
  if (!rect) return null; // hidden since it was found
  const { left, top, width, height } = rect;
  const [x, y] = [Math.round(left + Math.min(width / 2, 60)), Math.round(top + height / 2)];
  let hit = document.elementFromPoint(x, y);
  for (let inner; (inner = hit?.shadowRoot?.elementFromPoint(x, y)) && inner !== hit; ) hit = inner;
  const around = [];
  for (let at = hit; at; at = at.parentNode ?? at.host) around.push(at);
  if (!around.includes(target)) throw new Error(`${nameOf(element)} is below ${hit ? nameOf(hit) : "the window"}`);
  walk.effects = 0;
  walk.hit = false;
  return { x, y };
};

/** The next control of these names that can be used; those with a part of `last` in their names come after the rest. */
walk.next = (names, last) => {
  const open = controls().filter((control) => !control.disabled && names.includes(nameOf(control)));
  const control = open.find((one) => !last.some((part) => nameOf(one).includes(part))) ?? open[0];
  if (!control) return null;
  const { localName, type, href, hash } = control;
  const leaves = localName === "a" && (!hash || href.slice(0, -hash.length) !== location.href.replace(/#.*/, ""));
  const kind = leaves ? "link" : localName === "input" ? type : control.matches(PRESSED) ? "button" : localName;
  return { name: nameOf(control), kind, href };
};

/** Tells a field's listeners of its new value. */
const tell = (field) => {
  for (const type of ["input", "change"]) field.dispatchEvent(new Event(type, { bubbles: true, composed: true }));
};

walk.write = (field, value) => {
  field.value = value;
  tell(field);
};

/** Hands a file of this host to a field. */
walk.hand = async (field, address) => {
  const chosen = new DataTransfer();
  chosen.items.add(new File([await (await fetch(address)).blob()], address.split("/").at(-1)));
  field.files = chosen.files;
  tell(field);
};

/** Chooses every option of a list, and then the first choice again. */
walk.choose = (select) => {
  const { value } = select;
  for (const one of [...[...select.options].filter(({ disabled }) => !disabled).map((option) => option.value), value]) {
    walk.write(select, one);
  }
};

/** Whether the page is at work. */
walk.busy = () => {
  const widget = document.querySelector("foretoken-widget");
  const of = (name) => document.querySelector(name)?.dataset.state === "running";
  const measuring = document.querySelector("foretoken-playground")?.shadowRoot.getElementById("play-measure").disabled;
  const works = !["ready", "failed", "idle"].includes(widget?.dataset.state);
  return works || of("foretoken-compare") || of("foretoken-benchmark") || measuring;
};
