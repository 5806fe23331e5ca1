/**
 * Resolves names of models to addresses: `owner/repo/file.gguf` on a hub such as Hugging Face, and the parts of a
 * split file.
 */
import { ForetokenError } from "../protocol/errors.ts";

/** The default hub for names of repositories. */
export const HUB = "https://huggingface.co";

/** A name on a hub; an empty path means the repository. */
export interface HubName {
  repo: string;
  revision: string;
  path: string;
}

/** The address of a file, before any request. */
export interface RemoteFile {
  url: string;
  /** SHA-256 of the file in hexadecimal, if the caller knows it. */
  sha256?: string | undefined;
  /** The model loads without this file if it does not exist. */
  optional?: boolean;
}

/**
 * Parses `owner/repo/file.gguf`, `owner/repo@revision/file.gguf`, `owner/repo/file.gguf?revision=…` or `owner/repo`.
 * Returns undefined if the text is an address or a path. A path starts with `./`, `../`, `/` or `models/` (no owner
 * has that name), or has one slash and an extension.
 */
export function parseName(text: string): HubName | undefined {
  const forced = /^(hf|hub):/.exec(text)?.[0] ?? "";
  const [path, query = ""] = text.slice(forced.length).replace(/#.*$/, "").split("?", 2) as [string, string?];
  if (!forced && /^([a-z][a-z0-9+.-]*:|\.|\/|models\/)/i.test(path)) return undefined;
  let revision = new URLSearchParams(query).get("revision") ?? "";
  const at = (part: string): string => {
    const [name = "", rev = ""] = part.split("@", 2);
    revision ||= rev;
    return name;
  };
  const [owner = "", repo = "", ...rest] = path.split("/").map(at);
  const word = /^(?!\.+$)[\w.-]+$/;
  if (!word.test(owner) || !word.test(repo) || rest.some((part) => /^\.{0,2}$/.test(part))) return undefined;
  if (rest.length === 0 && !forced && /\.(gguf|safetensors|json)$/i.test(repo)) return undefined;
  return { repo: `${owner}/${repo}`, revision: revision || "main", path: rest.join("/") };
}

/** Returns the address of a file on a hub, or of the repository if the name has no path. */
export function addressOf(name: HubName, hub: string): string {
  const base = `${hub.replace(/\/+$/, "")}/${name.repo}`;
  const encode = (path: string): string => path.split("/").map(encodeURIComponent).join("/");
  return name.path === ""
    ? `${base}/tree/${encodeURIComponent(name.revision)}`
    : `${base}/resolve/${encodeURIComponent(name.revision)}/${encode(name.path)}`;
}

/** Matches a fragment that is meant as a checksum, in any spelling. */
const CHECKSUM = /sha-?\d|md5|checksum|integrity/i;

/**
 * Returns the checksum of `#sha256=…`. A misspelt one is an error, because a silently skipped check is worse than none.
 */
function checksumIn(text: string): string | undefined {
  const at = text.indexOf("#");
  const parts = at < 0 ? [] : text.slice(at + 1).split("&").filter((part) => CHECKSUM.test(part));
  if (parts.length === 0) return undefined;
  const digits = /^sha256=([0-9a-f]{64})$/i.exec(parts[0]!)?.[1];
  if (digits && parts.length === 1) return digits.toLowerCase();
  const why = parts.length > 1 ? `has ${parts.length} checksums, want one` : "is no checksum";
  throw new ForetokenError(
    "bad_option",
    `${brief(text.slice(0, at))}: the address's part after # ${why}: want #sha256= and 64 hexadecimal digits`,
  );
}

/**
 * Resolves a name on the hub, or a URL relative to `base`. The address of a hub's page about a file resolves to the
 * file. `#sha256=…` gives the checksum that the file must have.
 */
export function resolve(text: string, base: string | undefined, hub = HUB): RemoteFile {
  const sha256 = checksumIn(text.trim());
  const name = parseName(text.trim());
  let url = address(name ? addressOf(name, hub) : text.trim(), base).replace(/#.*$/, "");
  const home = hub.replace(/\/+$/, "");
  if (url.startsWith(`${home}/`))
    url = home + url.slice(home.length).replace(/^(\/[^/]+\/[^/]+)\/blob\//, "$1/resolve/");
  return { url, ...(sha256 ? { sha256 } : {}) };
}

/** The schemes of addresses that browsers fetch files from. */
const SCHEMES: readonly string[] = ["http:", "https:", "blob:", "data:"];

/**
 * Resolves an address relative to `base`. Every address of a file to read goes through here. Refuses other schemes than
 * http, https, blob, data and the page's own, such as an extension's.
 */
export function address(text: string, base: string | undefined): string {
  let url: URL;
  try {
    url = new URL(text, base);
  } catch {
    throw new ForetokenError(
      "bad_option",
      `${brief(text) || "(empty)"}: address: neither a URL (relative to ${brief(base || "nothing")}) ` +
        "nor a name such as owner/repo/file.gguf",
    );
  }
  const { protocol } = url;
  const own = base && protocol !== "file:" && protocol === new URL(base).protocol;
  if (own || SCHEMES.includes(protocol)) return url.href;
  const disk = base?.startsWith("file:")
    ? "; a page opened from disk needs a server: run make demo or any static server"
    : "; let the user pick the file";
  const why = `the scheme ${brief(protocol)} cannot be read; want http, https, blob or data`;
  throw new ForetokenError("bad_option", `${brief(text)}: address: ${why}${protocol === "file:" ? disk : ""}`);
}

/** The most characters of a foreign name that are shown. */
const MOST_SHOWN = 200;

/**
 * Returns a name for people to read: an address, the name of a file or of a model. Names come from strangers: a long
 * one loses its middle, and characters that are not text or turn its direction are replaced.
 */
export function brief(name: string): string {
  const tail = 50;
  const cut = name.length > MOST_SHOWN ? `${name.slice(0, MOST_SHOWN - tail - 1)}…${name.slice(-tail)}` : name;
  return cut.replace(/[\p{Cc}\p{Cs}\p{Bidi_Control}\p{Zl}\p{Zp}]/gu, "\ufffd");
}

/** Returns the last part of a URL's path, for display. */
export function nameOf(url: string): string {
  const path = url.replace(/[?#].*$/, "");
  const last = path.slice(path.lastIndexOf("/") + 1);
  try {
    return brief(decodeURIComponent(last) || url);
  } catch {
    return brief(last || url);
  }
}

/** Returns names for people to read, the first 16 of them. */
export function listed(names: readonly string[]): string {
  return names.slice(0, 16).map(brief).join(", ") + (names.length > 16 ? " and others" : "");
}

/** The part numbers in the name of a split file. */
export const PART = /-(\d{5})-of-(\d{5})(?=\.gguf$|\.safetensors$)/;

/** Returns the names of all parts of a split file from the name of one part; undefined for other files. */
export function partsOf(name: string): string[] | undefined {
  const match = PART.exec(name);
  if (!match) return undefined;
  const count = Number(match[2]);
  if (count < 1 || count > 999) return undefined;
  return Array.from({ length: count }, (_, i) =>
    name.replace(PART, `-${String(i + 1).padStart(5, "0")}-of-${match[2]}`),
  );
}

/** Whether the address names a model that is a single file. */
export function isSingleFile(url: string): boolean {
  const path = url.replace(/\?.*$/, "");
  return /\.gguf$/i.test(path) && !PART.test(path);
}
