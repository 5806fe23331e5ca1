/**
 * Reads from a response its body, the version, size and coding of its file, and whether it has the requested part.
 *
 * The ranges and the Content-Length of a compressed response count bytes of the encoded form (RFC 9110, 8.4 and 14.2).
 * Browsers refuse a compressed response to a request for a range, and hide Content-Encoding of other sites from the
 * page.
 */

/** Properties that identify a version of a file. */
export interface Identity {
  /** A strong ETag; versions that differ may share a weak one. */
  etag?: string | undefined;
  modified?: string | undefined;
  size?: number | undefined;
  /** SHA-256 of the file, if the server publishes it. */
  sha256?: string | undefined;
}

/** Whether two identities show that the files differ. */
export function differ(a: Identity, b: Identity): boolean {
  const differs = (x: unknown, y: unknown): boolean => x !== undefined && y !== undefined && x !== y;
  if (differs(a.size, b.size) || differs(a.sha256, b.sha256) || differs(a.etag, b.etag)) return true;
  // Mirrors of a file may report different dates: dates count only without an ETag or a checksum.
  return (!a.etag || !b.etag) && (!a.sha256 || !b.sha256) && differs(a.modified, b.modified);
}

/** Reads the identity of a file from a response to GET, with or without a range. */
export function identityOf(response: Response): Identity {
  const tag = response.headers.get("ETag");
  // In the hub's own responses this header is the SHA-256 of the file. The ETag of the storage that the hub redirects
  // to has as many digits, but is not the SHA-256.
  const linked = /^"?([0-9a-f]{64})"?$/.exec(response.headers.get("X-Linked-Etag") ?? "")?.[1];
  return {
    etag: tag && !tag.startsWith("W/") ? tag : undefined,
    modified: response.headers.get("Last-Modified") ?? undefined,
    size: sizeOf(response),
    sha256: linked,
  };
}

/** Returns the size of the file, if the response has it. */
export function sizeOf(response: Response): number | undefined {
  if (response.status !== 206) return lengthOf(response);
  const total = rangeOf(response)?.[2];
  return total === undefined || total === "*" ? undefined : Number(total);
}

/** Returns [first byte, total] of a part as texts, preceded by the match; null if the header is wrong or hidden. */
function rangeOf(response: Response): RegExpExecArray | null {
  return /^bytes (\d+)-\d+\/(\d+|\*)$/i.exec(response.headers.get("Content-Range") ?? "");
}

/** Returns the length of the body, if the response announces it. */
export function lengthOf(response: Response): number | undefined {
  const length = response.headers.get("Content-Length");
  return length === null || codingOf(response) ? undefined : Number(length);
}

/** Returns the coding of the body that the browser undoes, or undefined. */
export function codingOf(response: Response): string | undefined {
  return /\b(gzip|compress|deflate|br|zstd|dcb|dcz)\b/i.exec(response.headers.get("Content-Encoding") ?? "")?.[0];
}

/**
 * Whether a server kept the rules when it was asked for bytes from `start` on: it sent them, or the whole file. Other
 * servers refuse any range, or send other bytes.
 */
export function keepsRules(response: Response, start: number): boolean {
  const { status, headers } = response;
  if (status === 206) {
    const range = rangeOf(response);
    if (codingOf(response) || /^multipart\//i.test(headers.get("Content-Type") ?? "")) return false;
    return range ? Number(range[1]) === start : !headers.has("Content-Range");
  }
  return ![400, 405, 406, 501].includes(status) && !(status === 416 && start === 0);
}

/** Says that a part is not the requested one. */
export function otherBytes(headers: Headers, start: number | undefined): string {
  const range = headers.get("Content-Range") ?? headers.get("Content-Type") ?? "";
  return `the server sent other bytes than those from ${start} on that were requested (${range.slice(0, 80)})`;
}

/** Returns the common reason phrases, because HTTP/2 sends none. */
export function reasonPhrase(status: number): string {
  return (
    {
      401: "Unauthorized",
      403: "Forbidden",
      404: "Not Found",
      410: "Gone",
      416: "Range Not Satisfiable",
      429: "Too Many Requests",
    }[status] ?? ""
  );
}

/** Cancels an unused response; a response that has failed already needs no cancelling. */
export function discard(response: Response): void {
  response.body?.cancel().catch(() => undefined);
}

/**
 * Yields the pieces of a body, and returns whether it reached its end. A connection that is silent for `stall`
 * milliseconds counts as dropped.
 */
export async function* piecesOf(
  response: Response,
  stall: number,
  signal?: AbortSignal,
): AsyncGenerator<Uint8Array, boolean> {
  if (!response.body) return true;
  const reader = response.body.getReader();
  const abort = (): void => void reader.cancel().catch(() => undefined);
  signal?.addEventListener("abort", abort);
  if (signal?.aborted) abort();
  try {
    for (;;) {
      let next: ReadableStreamReadResult<Uint8Array>;
      try {
        next = await within(stall, reader.read());
      } catch {
        return false;
      }
      if (next.done) return true;
      yield next.value;
    }
  } finally {
    signal?.removeEventListener("abort", abort);
    abort();
  }
}

async function within<T>(ms: number, work: Promise<T>): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error("stalled")), ms);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Reports whether the body is one byte; a longer one is not read to its end. */
export async function isOneByte(response: Response): Promise<boolean> {
  const reader = response.body!.getReader();
  let bytes = 0;
  for (let ended = false; !ended && bytes < 2; ) {
    const { done, value } = await reader.read();
    ended = done;
    bytes += value?.byteLength ?? 0;
  }
  reader.cancel().catch(() => undefined);
  return bytes === 1;
}
