/** What the catalog offers by one click: a model, alone or with what drafts for it. */
import { BUILTIN_HEAD, BUILTIN_PAIR } from "./builtin.ts";
import { isBuiltIn, type KnownFile, type KnownModel, MODELS, nameOf, sourceOf } from "./known-models.ts";
import type { LoadOptions } from "./loading.ts";

/** A model to load by one click, with its drafters. */
export interface Offer {
  /** The model's id, and for another drafter than the first one its kind: `builtin-eagle3`. */
  id: string;
  model: KnownModel;
  /** The model that drafts. */
  draft: KnownModel | undefined;
  /** The head that drafts, beside the model that drafts if there is one. */
  head: (KnownFile & { config: string }) | undefined;
}

/** All offers, the built-in ones first: a model with its drafter, with each further one, or alone if it has none. */
export const OFFERS: readonly Offer[] = MODELS.filter((model) => !model.draft_only && !model.needs).flatMap((model) => {
  const [first, ...others] = model.drafters;
  const draft = MODELS.find(({ id }) => id === first?.model);
  const offers: Offer[] = [{ id: model.id, model, draft, head: first?.head }];
  for (const { kind, model: id, head } of others) {
    const by = MODELS.find((other) => other.id === id) ?? draft;
    offers.push({ id: `${model.id}-${kind}`, model, draft: by, head });
  }
  return offers;
});

/** The models that need what does not run yet. */
export const COMING: readonly KnownModel[] = MODELS.filter(({ needs }) => needs);

/** The files of an offer. */
export const filesOf = ({ model, draft, head }: Offer): KnownFile[] =>
  [model, draft, head].filter((file) => file !== undefined);

/** Returns the options of a load that takes an offer. */
export function loadOf(offer: Offer): Pick<LoadOptions, "target" | "draft" | "eagle3" | "eagle3_config" | "cache"> {
  const { model, draft, head } = offer;
  if (isBuiltIn(model)) return { ...BUILTIN_PAIR, ...(head ? BUILTIN_HEAD : {}) };
  return {
    target: sourceOf(model),
    draft: draft ? sourceOf(draft) : null,
    ...(head ? { eagle3: sourceOf(head), eagle3_config: nameOf({ ...head, file: head.config }) } : {}),
    cache: "auto",
  };
}

/** Bytes to download, and whether one more file has a size that is not known. */
export interface Download {
  bytes: number;
  more: boolean;
}

/** What an offer's files lack; `stored` returns a file's size and the bytes of it that have arrived. */
export function downloadOf(
  offer: Offer,
  stored: (file: KnownFile) => { size: number; have: number } | undefined = () => undefined,
): Download {
  const lacking = filesOf(offer).map((file) => {
    const kept = stored(file);
    return kept ? { bytes: kept.size - kept.have, more: false } : { bytes: file.bytes, more: file.bytes === 0 };
  });
  return { bytes: lacking.reduce((sum, { bytes }) => sum + bytes, 0), more: lacking.some(({ more }) => more) };
}

/** The bytes that loading an offer takes on each kind of device. */
export function memoryOf(offer: Offer): { gpu: number; cpu: number } {
  const files = filesOf(offer);
  return {
    gpu: files.reduce((sum, { memory }) => sum + memory.gpu, 0),
    cpu: files.reduce((sum, { memory }) => sum + memory.cpu, 0),
  };
}
