/** Sorts picked or dropped files into models. */
import { brief, listed, partsOf } from "../sources/hub.ts";

/** The models and calibrations in a list of files. */
export interface Sorted {
  target: File[];
  draft: File[];
  calibrations: File[];
}

/**
 * Sorts files. Parts of a split GGUF file form one model; safetensors and all JSON files form one model. The larger
 * model is the target, the other the draft. Without safetensors, JSON files are calibrations. Throws errors for users.
 */
export function sortFiles(files: readonly File[]): Sorted {
  const models = new Map<string, File[]>();
  const json: File[] = [];
  let checkpoint: File[] | undefined;
  for (const file of files) {
    const name = file.name;
    if (/\.gguf$/i.test(name)) {
      const model = partsOf(name)?.[0] ?? name;
      models.set(model, [...(models.get(model) ?? []), file]);
    } else if (/\.safetensors$/i.test(name)) (checkpoint ??= []).push(file);
    else if (/\.(json|jinja)$/i.test(name)) json.push(file);
    else
      throw new Error(
        `${brief(name)}: file: not a model file; want .gguf, or .safetensors with config.json and tokenizer.json`,
      );
  }
  if (checkpoint) models.set("checkpoint", [...checkpoint, ...json]);
  const calibrations = checkpoint ? [] : json;
  const size = (list: File[]): number => list.reduce((sum, file) => sum + file.size, 0);
  const [target = [], draft = [], ...more] = [...models.values()].sort((a, b) => size(b) - size(a));
  if (more.length > 0)
    throw new Error(
      `${listed([...models.keys()])}: files: ${models.size} models, want a target and at most one draft`,
    );
  if (target.length === 0)
    throw new Error(
      `${listed(files.map((file) => file.name)) || "files"}: files: contain no model; ` +
        "want .gguf, or .safetensors with config.json and tokenizer.json",
    );
  return { target, draft, calibrations };
}
