/** The pairs of models/catalog.json, which are known to work together. */
import catalog from "../../../models/catalog.json";

/** A model of a pair: a name on a hub, or a path of the site for the built-in pair. */
export interface KnownModel {
  /** `owner/repo/file` or `owner/repo@revision/file`. */
  name: string;
  title: string;
  quant: string;
  /** Its size in bytes, if known. */
  bytes?: number;
  sha256?: string;
}

/** A target and its draft. */
export interface KnownPair {
  id: string;
  title: string;
  family: string;
  licence: string;
  licence_url: string;
  /** The least device memory that the pair needs, estimated from the sizes of the files. */
  memory_bytes: number;
  target: KnownModel;
  draft: KnownModel;
}

/** All pairs; the built-in one comes first. */
export const PAIRS: readonly KnownPair[] = catalog.pairs;

/** Returns the address of a model with its checksum. */
export function sourceOf(model: KnownModel): string {
  return model.sha256 ? `${model.name}#sha256=${model.sha256}` : model.name;
}
