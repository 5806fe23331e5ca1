/** What the page says of an offer: its size, its memory, its licences, and what drafts for its model. */
import { fits, type Room } from "../engine/fit.ts";
import { type Download, downloadOf, filesOf, memoryOf, type Offer } from "../engine/offers.ts";
import { el } from "./dom.ts";
import * as format from "./format.ts";

/** Returns a host's name for a line of text. */
export const hostName = (hub: string): string => hub.replace(/^https:\/\//, "");

/** Formats the size of a download. */
export const amount = ({ bytes, more }: Download): string =>
  more && bytes === 0 ? "a file of unknown size" : `${more ? "over " : ""}${format.bytes(bytes)}`;

/** Formats the size of an offer's download. */
export const size = (offer: Offer): string => amount(downloadOf(offer));

/** Formats the memory that an offer takes. */
export function memory(offer: Offer): string {
  const { gpu, cpu } = memoryOf(offer);
  const [onGPU, onCPU] = [format.bytes(gpu), format.bytes(cpu)];
  return onGPU === onCPU ? `${onGPU} of memory` : `${onGPU} of memory on a GPU, ${onCPU} on the CPU`;
}

/** Says whether an offer fits this device, where the browser tells its memory. */
export function fitting(offer: Offer, room: Room): string {
  const said = fits(memoryOf(offer), room);
  const device = `your ${room.kind.toUpperCase()}`;
  const texts = { fits: `fits ${device}`, tight: `tight on ${device}`, no: `too large for ${device}` };
  return said ? texts[said] : "";
}

/** Says that no host has confirmed a file of an offer: its size and checksum. */
export const unchecked = (offer: Offer): string =>
  filesOf(offer).some(({ sha256 }) => sha256 === "unchecked")
    ? " Not every file here was compared with its host: its size and name may be out of date."
    : "";

/** Returns links to the licences of an offer's files, each once. */
export function licences(offer: Offer): (Node | string)[] {
  const links = new Map(filesOf(offer).map(({ licence, licence_url }) => [licence, licence_url]));
  return [...links].flatMap(([licence, href], i) => [
    i > 0 ? ", " : "",
    el("a", { href, target: "_blank", rel: "noopener noreferrer" }, licence),
  ]);
}

/** Says what drafts for an offer's model. */
export function drafted({ draft, head }: Offer): string {
  if (head) return "Drafts from the target's own features (method eagle3); Automatic weighs both drafters.";
  return draft ? `${draft.title} drafts for it.` : "No draft model: it drafts from the text alone.";
}
