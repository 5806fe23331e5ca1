/** Decides whether a stored file is still current. */
import { SourceError } from "./errors.ts";
import type { Journal } from "./journal.ts";
import { Remote, type SourceOptions } from "./remote.ts";
import { differ, discard, type Identity, identityOf } from "./responses.ts";

/** "first" uses a complete copy without a request. "check" asks the server for changes; if it fails, uses the copy. */
export type CachePolicy = "first" | "check";

export interface CachedOptions extends SourceOptions {
  policy?: CachePolicy;
  /** The SHA-256 that the caller expects of the file. */
  expected?: string | undefined;
  /** Asks the hub for the SHA-256; called only before a download. */
  published?: (() => Promise<string | undefined>) | undefined;
  chunk?: number;
}

/** Whether a complete copy matches the expected checksum and the file on the server; notifies the user if not. */
export async function isCurrent(
  stored: Journal,
  url: string,
  name: string,
  options: CachedOptions,
): Promise<boolean> {
  const { expected } = options;
  const known = stored.verified ?? stored.sha256;
  if (expected && known && expected !== known) {
    options.notice?.(
      `${name}: the copy in this browser does not have the requested SHA-256; downloading the file again`,
    );
    return false;
  }
  if (options.policy !== "check") return true;
  let now: Identity | undefined;
  try {
    const response = await new Remote(url, name, { ...options, retries: 0 }).request(0, 1);
    discard(response);
    now = identityOf(response);
  } catch (cause) {
    options.signal?.throwIfAborted();
    // The server is unreachable or no longer has the file: use the copy.
    if (!(cause instanceof SourceError)) throw cause;
  }
  if (!now || !differ(stored, now)) return true;
  options.notice?.(`${name}: the file changed on the server; discarding the old copy and downloading the file again`);
  return false;
}
