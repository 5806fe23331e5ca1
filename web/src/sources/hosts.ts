/**
 * The hosts that a load may ask. A worker asks its own origin, and the hosts that the page confirmed with the load: a
 * program's call, the page's own attribute, or the visitor's click confirms one. A confirmed host may redirect.
 */
import { ForetokenError } from "../protocol/errors.ts";
import type { Sources, SourceSpec } from "../protocol/protocol.ts";
import { brief } from "./hub.ts";

/** Returns the origin of an address, or its scheme if it has none (`data:`). */
export function hostOf(url: string): string {
  const { origin, protocol } = new URL(url);
  return origin === "null" ? protocol : origin;
}

/** Returns the addresses of the files to open. */
export function addressesOf({ target, draft, eagle3, eagle3_config, calibrations }: Sources<SourceSpec>): string[] {
  const of = (spec: SourceSpec | null): string[] =>
    spec?.kind === "url" ? [spec.url] : spec?.kind === "files" ? spec.files.flatMap(of) : [];
  return [target, draft, eagle3, eagle3_config, ...calibrations].flatMap(of);
}

/** Returns a fetch that refuses other hosts than `hosts` and the worker's own. `hosts` is from a message. */
export function fetchFrom(hosts: readonly string[] | undefined): typeof fetch {
  const allowed = new Set<unknown>(Array.isArray(hosts) ? hosts : []);
  return async (input, init) => {
    const url = String(input instanceof Request ? input.url : input);
    const host = hostOf(url);
    if (host !== globalThis.location?.origin && !allowed.has(host))
      throw new ForetokenError(
        "unreadable",
        `${brief(url)}: host: neither a click nor an attribute of the page confirmed it`,
      );
    return fetch(input, init);
  };
}

/** Whether a host is this machine. */
export function isLocal(hostname: string): boolean {
  return /^(localhost|127(\.\d+){3}|\[::1\])$/.test(hostname);
}
