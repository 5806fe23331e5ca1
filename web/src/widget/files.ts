/** Files that a person picked or dropped, sorted into the models they are. */
import { partsOf } from "../hub.ts";

/** What a handful of files amounts to. */
export interface Sorted {
  target: File[];
  draft: File[];
  calibrations: File[];
}

/**
 * Sorts files: GGUF files by model, split ones as one, the largest model being
 * the target and another the draft; safetensors with all JSON files beside them
 * as one target; other JSON files as calibrations. Throws a message for people.
 */
export function sortFiles(files: readonly File[]): Sorted {
  const models = new Map<string, File[]>();
  const json: File[] = [];
  let checkpoint: File[] | undefined;
  for (const file of files) {
    const name = file.name;
    if (/\.gguf$/i.test(name)) {
      const whole = partsOf(name)?.[0] ?? name;
      models.set(whole, [...(models.get(whole) ?? []), file]);
    } else if (/\.safetensors$/i.test(name)) (checkpoint ??= []).push(file);
    else if (/\.(json|jinja)$/i.test(name)) json.push(file);
    else throw new Error(`${name}: file: no model file; want .gguf, or .safetensors with config.json and tokenizer.json`);
  }
  if (checkpoint) models.set("checkpoint", [...checkpoint, ...json]);
  const calibrations = checkpoint ? [] : json;
  const size = (list: File[]): number => list.reduce((sum, file) => sum + file.size, 0);
  const [target = [], draft = [], ...more] = [...models.values()].sort((a, b) => size(b) - size(a));
  if (more.length > 0) throw new Error(`${[...models.keys()].join(", ")}: files: ${models.size} models, want a target and at most one draft`);
  if (target.length === 0) throw new Error(`${files.map((file) => file.name).join(", ") || "files"}: files: no model among them; want .gguf, or .safetensors with config.json and tokenizer.json`);
  return { target, draft, calibrations };
}
