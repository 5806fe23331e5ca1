/** Style sheets are bundled as text and adopted by the shadow root. */
declare module "*.css" {
  const text: string;
  export default text;
}

/** What the Go program says of the methods, as it was when the site was built. */
declare module "foretoken:catalog" {
  const catalog: import("./protocol.ts").Catalog;
  export default catalog;
}

/** Go's support script, of the compiler at hand. */
declare module "foretoken:wasm_exec";
