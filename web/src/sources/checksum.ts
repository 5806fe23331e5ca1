/** SHA-256 of bytes that arrive piece by piece, which crypto.subtle cannot compute. Loaded only where there is one. */
export { createSHA256 } from "hash-wasm";
