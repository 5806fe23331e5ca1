/** The bundler imports style sheets as text; shadow roots adopt them. */
declare module "*.css" {
  const text: string;
  export default text;
}

/** The table of methods that the Go program prints when the site is built. */
declare module "foretoken:catalog" {
  const catalog: import("./protocol/protocol.ts").Catalog;
  export default catalog;
}

/** Go's wasm_exec.js, from the installed compiler. */
declare module "foretoken:wasm_exec";
