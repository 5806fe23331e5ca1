/** SHA-256 of bytes that arrive piece by piece, which crypto.subtle cannot compute. Loaded when a file needs it. */
export { createSHA256 } from "hash-wasm";
