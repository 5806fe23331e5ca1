/** What bundles take in place of a library's part, for esbuild's `alias`. */
export const alias = { entities: "./src/widget/entities.ts" };
