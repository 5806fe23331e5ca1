/** The models of models/catalog.json, which are known to work. The build refuses a catalog with a bad entry. */
import models from "foretoken:models";

/** A file of a repository, with its size, its licence, and the memory that loading it takes. */
export interface KnownFile {
  /** `owner/name` on a hub, or `models/demo` for a file that is served with the page. */
  repository: string;
  /** A commit or a branch; undefined for a file that is served with the page. */
  revision?: string;
  file: string;
  /** Its size in bytes; 0 if not known. */
  bytes: number;
  /** 64 hexadecimal digits, or "unchecked". */
  sha256: string;
  licence: string;
  licence_url: string;
  /** Bytes that loading it takes with 4,096 positions, or with as many as it was trained for. */
  memory: { gpu: number; cpu: number };
}

/** What drafts for a model: another model of the catalog, or an EAGLE-3 head. */
export type KnownDrafter =
  | { kind: "model"; model: string; head?: undefined }
  | { kind: "eagle3"; model?: undefined; head: KnownFile & { config: string } };

/** A model of the catalog. */
export interface KnownModel extends KnownFile {
  id: string;
  title: string;
  family: string;
  /** The storage type of its matrices, such as Q8_0. */
  quant: string;
  kind: "chat" | "code" | "base" | "embedding";
  /** The family of its chat template, or "none". */
  template: string;
  /** The least device that it runs on with its first drafter. */
  device: "phone" | "laptop" | "desktop";
  /** The architecture or the format that does not run yet; undefined if the model runs. */
  needs?: string;
  /** Whether it is offered as a drafter only. */
  draft_only?: boolean;
  /** The best one first; empty if nothing drafts for it. */
  drafters: readonly KnownDrafter[];
}

/** All models of the catalog; the built-in one comes first. */
export const MODELS: readonly KnownModel[] = models;

/** Whether a file is served with the page. */
export const isBuiltIn = ({ revision }: KnownFile): boolean => revision === undefined;

/** Returns the name of a file on a hub, `owner/name@revision/file`, or its path on the page. */
export function nameOf({ repository, revision, file }: KnownFile): string {
  return `${repository}${revision && revision !== "main" ? `@${revision}` : ""}/${file}`;
}

/** Returns the name of a file with its checksum, for a load. */
export function sourceOf(file: KnownFile): string {
  return file.sha256 === "unchecked" ? nameOf(file) : `${nameOf(file)}#sha256=${file.sha256}`;
}
