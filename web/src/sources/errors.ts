/** Errors of opening and reading a file: one line that names the file, the step and the reason. */
import { ForetokenError, type ForetokenErrorCode } from "../protocol/errors.ts";
import { brief } from "./hub.ts";

/** The error code for each field of a message; other fields mean "unreadable". */
const CODES: Readonly<Record<string, ForetokenErrorCode>> = {
  download: "network",
  index: "bad_model",
  "content-type": "bad_model",
};

/** A file could not be opened or read. */
export class SourceError extends ForetokenError {
  constructor(
    readonly file: string,
    readonly field: string,
    readonly reason: string,
    code: ForetokenErrorCode = CODES[field] ?? "unreadable",
  ) {
    super(code, `${brief(file)}: ${field}: ${oneLine(reason)}`);
    this.name = "SourceError";
  }
}

/** Refuses a read beyond the end of a source. */
export function checkRange(source: { name: string; size: number }, offset: number, length: number): void {
  const whole = Number.isSafeInteger(offset) && Number.isSafeInteger(length);
  if (whole && offset >= 0 && length >= 0 && offset + length <= source.size) return;
  throw new SourceError(
    source.name,
    "range",
    `bytes ${offset} to ${offset + length} requested of a file of ${source.size} bytes`,
  );
}

/** The file on the server changed since the first read. */
export class ChangedError extends SourceError {
  constructor(name: string) {
    super(name, "download", "the file changed on the server while it was being read; load it again", "changed");
  }
}

/** The file has another SHA-256 than it must have. */
export class ChecksumError extends SourceError {
  constructor(name: string, got: string | undefined, wanted: string | undefined, kept = false) {
    const then = kept ? "deleted it, load it again" : "load it again";
    const reason = `the download does not have its published checksum: ${got} instead of ${wanted}; ${then}`;
    super(name, "sha256", reason, "checksum");
  }
}

/** The server sent another number of bytes than it announced. */
export class LengthError extends SourceError {}

export function message(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause);
}

function oneLine(text: string): string {
  return text.replace(/\s+/g, " ").trim();
}
