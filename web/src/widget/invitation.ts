/**
 * What the chat tab shows while the loaded model cannot talk: the pairs of the catalog, each loaded by one click that
 * shows size, licence and host. Loaded when the tab opens.
 */
import { PAIRS, sourceOf } from "../engine/pairs.ts";
import { HUB } from "../sources/hub.ts";
import { el } from "./dom.ts";
import * as format from "./format.ts";
import type { PickerOptions } from "./picker.ts";

export { default as invitationStyle } from "../styles/invitation.css";

/** Returns the invitation. The click shows the host, so a pair of the default hub needs no further question. */
export function invitation({ load, hub = HUB }: PickerOptions): HTMLElement {
  const host = hub.replace(/^https:\/\//, "");
  const rows = PAIRS.filter((pair) => pair.target.name.split("/")[0] !== "models").map((pair) => {
    const size = format.download(pair);
    const button = el(
      "button",
      { type: "button", class: "primary", "data-pair": pair.id, "aria-label": `Load ${size}: ${pair.title}` },
      `Load ${size}`,
    );
    button.addEventListener("click", () =>
      load({ target: sourceOf(pair.target), draft: sourceOf(pair.draft), cache: "auto" }, hub === HUB),
    );
    const licence = el("a", { href: pair.licence_url, target: "_blank", rel: "noopener noreferrer" }, pair.licence);
    const facts = el("small", {}, licence, ` · from ${host} · ${format.bytes(pair.memory_bytes)} of memory or more`);
    return el("li", {}, el("span", {}, el("b", {}, pair.target.title), facts), button);
  });
  return el(
    "section",
    { class: "card invite", id: "invite", "aria-label": "A model that can chat" },
    el("h2", {}, "Chat needs a model that was trained to talk"),
    el("p", { class: "invite-wait" }, "A model is loading. If it can talk, the conversation opens here."),
    el(
      "p",
      { class: "invite-why" },
      "The loaded model only continues text. One click downloads one of these into this browser, which keeps it; " +
        "what you write stays here.",
    ),
    el("ul", {}, ...rows),
  );
}
