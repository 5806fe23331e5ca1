/**
 * Offers the catalog's models that can chat, by size and memory, each loaded by one click that shows size, licence and
 * host. Loaded when the chat is opened without such a model.
 */
import type { KnownModel } from "../engine/known-models.ts";
import { downloadOf, loadOf, type Offer, OFFERS } from "../engine/offers.ts";
import { HUB } from "../sources/hub.ts";
import { el } from "./dom.ts";
import { drafted, hostName, licences, memory, size } from "./offer-text.ts";
import type { PickerOptions } from "./picker.ts";

export { default as offerStyle } from "../styles/offer.css";

/** Says what a class of devices is. */
const DEVICES: Record<KnownModel["device"], string> = {
  phone: "Up to 1 GB of memory: phones too",
  laptop: "Up to 4 GB: most laptops",
  desktop: "More than 4 GB: a graphics card with as much",
};

/** Returns the offers of models for chat. The click shows the host, so that no further question is needed. */
export function chatOffers({ load, hub = HUB }: PickerOptions, builtin: boolean): HTMLElement {
  const row = (offer: Offer): HTMLElement => {
    const { id, model } = offer;
    const item = el("li", {});
    const button = el(
      "button",
      { type: "button", "data-pair": id, "aria-label": `Load ${size(offer)} from ${hostName(hub)}: ${model.title}` },
      `Load ${size(offer)}${hub === HUB ? "" : ` from ${hostName(hub)}`}`,
    );
    button.addEventListener("click", () => load(loadOf(offer), true, item));
    const facts = el("small", {}, `${memory(offer)} · `, ...licences(offer), ` · from ${hostName(hub)}`);
    item.append(el("span", {}, el("b", {}, model.title), el("small", {}, drafted(offer)), facts), button);
    return item;
  };
  const offers = OFFERS.filter(({ model }) => model.kind === "chat").sort(
    (a, b) => downloadOf(a).bytes - downloadOf(b).bytes,
  );
  const groups = (Object.keys(DEVICES) as KnownModel["device"][]).flatMap((device) => {
    const rows = offers.filter(({ model }) => model.device === device).map(row);
    return rows.length > 0 ? [el("h3", {}, DEVICES[device]), el("ul", {}, ...rows)] : [];
  });
  const why = builtin
    ? "The built-in pair was trained on Go code alone. It has 7.3 million parameters: enough to continue a function, " +
      "and far too few to hold a conversation."
    : "The loaded model has no chat template: it continues texts and answers nobody.";
  return el(
    "section",
    { class: "card offer", id: "offer", "aria-label": "Models that can chat" },
    el("h2", {}, "Choose a model to talk to"),
    el("p", { class: "offer-wait" }, "A model is loading. If it can chat, the conversation opens here."),
    el(
      "div",
      { class: "offers" },
      el("p", {}, `${why} One click downloads one of these into this browser and keeps it; what you write stays here.`),
      ...groups,
    ),
  );
}
