/** The bundler imports style sheets as text; shadow roots adopt them. */
declare module "*.css" {
  const text: string;
  export default text;
}

/** It imports recorded runs as bytes. */
declare module "*.trace" {
  const bytes: Uint8Array;
  export default bytes;
}

/** The table of methods that the Go program prints when the site is built, and the bounds of settings. */
declare module "foretoken:catalog" {
  import type { Catalog, Limit, Setting } from "./protocol/protocol.ts";
  const catalog: Omit<Catalog, "settings"> & { limits: (Limit & Pick<Setting, "name">)[] };
  export default catalog;
}

/** The table of settings that it prints; a row without a label has its name and its group alone. */
declare module "foretoken:settings" {
  type Row = import("./protocol/protocol.ts").Setting;
  const settings: ((Row & { label: string }) | (Pick<Row, "name" | "group"> & { label?: undefined }))[];
  export default settings;
}

/** The examples of the built-in pair that cmd/examples chose. */
declare module "foretoken:examples" {
  const chosen: { tried: number; passed: number; examples: { title: string; prompt: string; stop: string }[] };
  export default chosen;
}

/** The prompt of the first of them. */
declare module "foretoken:first-prompt" {
  const prompt: string;
  export default prompt;
}

/** The models of models/catalog.json. */
declare module "foretoken:models" {
  const models: readonly import("./engine/known-models.ts").KnownModel[];
  export default models;
}

/** Go's wasm_exec.js, from the installed compiler. */
declare module "foretoken:wasm_exec";
