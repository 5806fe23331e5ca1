/** Pairs of models that are known to work together: models/catalog.json, as the site was built with it. */
import catalog from "../../models/catalog.json";

/** One file of a pair: a name on a hub, or of the built-in pair a path of the site. */
export interface KnownModel {
  /** `owner/repo/file` or `owner/repo@revision/file`. */
  name: string;
  title: string;
  quant: string;
  /** Its size, where that is known. */
  bytes?: number;
  sha256?: string;
}

/** A target and the draft that goes with it. */
export interface KnownPair {
  id: string;
  title: string;
  family: string;
  licence: string;
  licence_url: string;
  /** Memory that a device needs at least, estimated from the sizes of the files. */
  memory_bytes: number;
  target: KnownModel;
  draft: KnownModel;
}

/** The pairs; the built-in one comes first. */
export const PAIRS: readonly KnownPair[] = catalog.pairs;

/** What a model is loaded by: its name and its checksum. */
export function sourceOf(model: KnownModel): string {
  return model.sha256 ? `${model.name}#sha256=${model.sha256}` : model.name;
}
