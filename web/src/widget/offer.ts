/**
 * Offers the catalog's models that can chat, by size and memory, each loaded by one click that shows size, licence and
 * host. Loaded when the chat is opened without such a model.
 */
import { type KnownFile, type KnownModel, nameOf } from "../engine/known-models.ts";
import { roomHere } from "../engine/fit.ts";
import { downloadOf, filesOf, loadOf, memoryOf, type Offer, OFFERS } from "../engine/offers.ts";
import { HUB, resolve } from "../sources/hub.ts";
import { type KeptModel, keptModels } from "../sources/kept-models.ts";
import { el, setText } from "./dom.ts";
import * as format from "./format.ts";
import { amount, drafted, fitting, hostName, licences, memory, size } from "./offer-text.ts";
import type { PickerOptions } from "./picker.ts";

export { default as offerStyle } from "../styles/offer.css";

/** Says what a class of devices is. */
const DEVICES: Record<KnownModel["device"], string> = {
  phone: "Up to 1 GB of memory: phones too",
  laptop: "Up to 4 GB: most laptops",
  desktop: "More than 4 GB: a graphics card with as much",
};

/**
 * Returns the offers of models for chat. The click shows the host, so that no further question is needed. `manage`
 * shows the list of stored models.
 */
export function chatOffers({ load, hub = HUB }: PickerOptions, builtin: boolean, manage: () => void): HTMLElement {
  const buttons = new Map<Offer, HTMLButtonElement>();
  const room = roomHere();
  const row = (offer: Offer): HTMLElement => {
    const { id, model } = offer;
    const item = el("li", {});
    const button = el(
      "button",
      { type: "button", "data-pair": id, "aria-label": `Load ${size(offer)} from ${hostName(hub)}: ${model.title}` },
      `Load ${size(offer)}${hub === HUB ? "" : ` from ${hostName(hub)}`}`,
    );
    button.addEventListener("click", () => load(loadOf(offer), true, item));
    const fit = el("span", {});
    void room.then((here) => {
      const said = fitting(offer, here);
      if (said) setText(fit, ` · ${said}`);
    });
    const facts = el("small", {}, memory(offer), fit, " · ", ...licences(offer), ` · from ${hostName(hub)}`);
    buttons.set(offer, button);
    item.append(el("span", {}, el("b", {}, model.title), el("small", {}, drafted(offer)), facts), button);
    return item;
  };
  // By memory; after them the ones whose size no host has confirmed.
  const unsized = (offer: Offer) => Number(downloadOf(offer).bytes === 0);
  const offers = OFFERS.filter(({ model }) => model.kind === "chat").sort(
    (a, b) => unsized(a) - unsized(b) || memoryOf(a).gpu - memoryOf(b).gpu,
  );
  const groups = (Object.keys(DEVICES) as KnownModel["device"][]).flatMap((device) => {
    const rows = offers.filter(({ model }) => model.device === device).map(row);
    return rows.length > 0 ? [el("h3", {}, DEVICES[device]), el("ul", {}, ...rows)] : [];
  });
  const why = builtin
    ? "The built-in pair was trained on Go code alone. It has 7.3 million parameters: enough to continue a function, " +
      "and far too few to hold a conversation."
    : "The loaded model has no chat template: it continues texts and answers nobody.";
  const stored = el("p", { class: "offer-stored", hidden: true });
  void markStored(buttons, hub).then((bytes) => {
    if (bytes === 0) return;
    const list = el("button", { type: "button", class: "chip", id: "offer-manage" }, "Show and delete them");
    list.addEventListener("click", manage);
    stored.append(`${format.bytes(bytes)} of models are stored in this browser. `, list);
    stored.hidden = false;
  });
  return el(
    "section",
    { class: "card offer", id: "offer", "aria-label": "Models that can chat" },
    el("h2", {}, "Choose a model to talk to"),
    el("p", { class: "offer-wait" }, "A model is loading. If it can chat, the conversation opens here."),
    el(
      "div",
      { class: "offers" },
      el("p", {}, `${why} One click downloads one of these into this browser and keeps it; what you write stays here.`),
      stored,
      ...groups,
    ),
  );
}

/** Says on the buttons what is stored of their offers. Returns the bytes of all stored models. */
async function markStored(buttons: ReadonlyMap<Offer, HTMLButtonElement>, hub: string): Promise<number> {
  const kept = (await keptModels().catch(() => undefined)) ?? [];
  const byURL = new Map(kept.map((file) => [file.url, file]));
  const stored = (file: KnownFile): KeptModel | undefined =>
    byURL.get(resolve(nameOf(file), document.baseURI, hub).url);
  for (const [offer, button] of buttons) {
    const files = filesOf(offer).map(stored);
    if (!files.some((file) => file?.have)) continue;
    const left = downloadOf(offer, stored);
    const label = files.every((file) => file?.done) ? "Load, downloaded" : `Go on: ${amount(left)} left`;
    setText(button, label);
    button.setAttribute("aria-label", `${label}: ${offer.model.title}`);
  }
  return kept.reduce((sum, file) => sum + file.size, 0);
}
