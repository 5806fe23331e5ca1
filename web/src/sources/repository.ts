/**
 * Finds the other files of a model on a server: the parts of a split file, the files of a safetensors repository, and
 * the checksums that a hub publishes. Loaded only for addresses that stand for several files.
 */
import { SourceError } from "./errors.ts";
import { addressOf, listed, nameOf, PART, partsOf, type RemoteFile } from "./hub.ts";
import { Remote, type SourceOptions } from "./remote.ts";

/** Splits the address of a file on a hub into base, repository, revision and path. */
function onHub(url: string): { base: string; repo: string; revision: string; path: string; kind: string } | undefined {
  const match = /^(https?:\/\/.+)\/([\w.-]+\/[\w.-]+)\/(resolve|tree)\/([^/?#]+)(?:\/([^?#]*))?/.exec(url);
  return match
    ? {
        base: match[1]!,
        repo: match[2]!,
        kind: match[3]!,
        revision: match[4]!,
        path: decodeURIComponent(match[5] ?? ""),
      }
    : undefined;
}

interface Entry {
  type: string;
  path: string;
  size: number;
  lfs?: { oid: string; size: number };
}

/** Lists the files of a folder on a hub; undefined if the server has no such list. */
async function listing(
  at: { base: string; repo: string; revision: string },
  folder: string,
  options: SourceOptions,
): Promise<Entry[] | undefined> {
  const path = folder ? `/${folder.split("/").map(encodeURIComponent).join("/")}` : "";
  const url = `${at.base}/api/models/${at.repo}/tree/${at.revision}${path}`;
  const signal = options.signal
    ? AbortSignal.any([options.signal, AbortSignal.timeout(10_000)])
    : AbortSignal.timeout(10_000);
  try {
    const response = await (options.fetch ?? ((input: RequestInfo | URL, init?: RequestInit) => fetch(input, init)))(
      url,
      { signal },
    );
    if (!response.ok) return undefined;
    const entries = (await response.json()) as unknown;
    return Array.isArray(entries) ? (entries as Entry[]) : undefined;
  } catch {
    options.signal?.throwIfAborted();
    return undefined;
  }
}

/**
 * Returns the SHA-256 that a hub publishes for a file. The hub also sends it in the headers of a redirect, which pages
 * cannot read, so this function reads the list of files.
 */
export async function publishedSHA256(url: string, options: SourceOptions): Promise<string | undefined> {
  const at = onHub(url);
  if (!at || at.kind !== "resolve") return undefined;
  const slash = at.path.lastIndexOf("/");
  const entries = await listing(at, slash < 0 ? "" : at.path.slice(0, slash), options);
  const oid = entries?.find((entry) => entry.path === at.path)?.lfs?.oid;
  return oid && /^[0-9a-f]{64}$/.test(oid) ? oid : undefined;
}

/** The other files of a safetensors model. */
const COMPANIONS: readonly { name: string; optional: boolean }[] = [
  { name: "config.json", optional: false },
  { name: "tokenizer.json", optional: false },
  { name: "tokenizer_config.json", optional: true },
  { name: "generation_config.json", optional: true },
  { name: "chat_template.jinja", optional: true },
];

/**
 * Returns all files of the model that a file belongs to, including the file, which alone keeps its checksum. A
 * repository stands for its model file.
 */
export async function filesOf(file: RemoteFile, options: SourceOptions): Promise<RemoteFile[]> {
  const at = onHub(file.url);
  if (at?.kind === "tree") {
    const path = await choose(at, options);
    return filesOf({ ...file, url: addressOf({ repo: at.repo, revision: at.revision, path }, at.base) }, options);
  }
  const others = await filesBeside(file, options);
  return others.map((other) => (other.url === file.url ? { ...other, ...file } : other));
}

async function filesBeside(file: RemoteFile, options: SourceOptions): Promise<RemoteFile[]> {
  const [address = "", query = ""] = file.url.split(/(?=\?)/, 2) as [string, string?];
  const name = address.slice(address.lastIndexOf("/") + 1);
  const sibling = (other: string): string => address.slice(0, address.length - name.length) + other + query;
  const parts = partsOf(name);
  if (/\.gguf$/i.test(name)) return parts ? parts.map((part) => ({ url: sibling(part) })) : [file];
  if (!/\.safetensors(\.index\.json)?$/.test(name)) return [file];
  const companions = COMPANIONS.map(({ name, optional }) => ({ url: sibling(name), optional }));
  if (name.endsWith(".index.json")) {
    const shards = await shardsOf(file.url, nameOf(file.url), options);
    return [...companions, file, ...shards.map((shard) => ({ url: sibling(encodeURIComponent(shard)) }))];
  }
  if (parts)
    return [
      ...companions,
      { url: sibling(`${name.replace(PART, "")}.index.json`) },
      ...parts.map((part) => ({ url: sibling(part) })),
    ];
  return [...companions, file];
}

/** Returns the shards that an index names, in order. */
async function shardsOf(url: string, name: string, options: SourceOptions): Promise<string[]> {
  const response = await new Remote(url, name, options).request();
  let index: { weight_map?: Record<string, unknown> };
  try {
    index = (await response.json()) as typeof index;
  } catch {
    throw new SourceError(name, "index", "not JSON; download it again");
  }
  const shards = [...new Set(Object.values(index.weight_map ?? {}))].sort();
  if (
    shards.length === 0 ||
    shards.some((shard) => typeof shard !== "string" || /[\\/]/.test(shard) || !shard.endsWith(".safetensors"))
  ) {
    throw new SourceError(name, "index", "its weight_map names no .safetensors files of the same folder");
  }
  return shards as string[];
}

/** Returns the only model file of a repository; throws an error that lists them if there are several. */
async function choose(
  at: { base: string; repo: string; revision: string; path: string },
  options: SourceOptions,
): Promise<string> {
  const entries = await listing(at, at.path, options);
  if (!entries)
    throw new SourceError(
      at.repo,
      "name",
      `${at.base} does not list the files of this repository; name one: ${at.repo}/file.gguf`,
    );
  const files = entries.filter((entry) => entry.type === "file").map((entry) => entry.path);
  const ggufs = files.filter(
    (path) => /\.gguf$/i.test(path) && !/-(?!00001)\d{5}-of-\d{5}\.gguf$/.test(path) && !/mmproj/i.test(path),
  );
  if (ggufs.length === 1) return ggufs[0]!;
  if (ggufs.length > 1)
    throw new SourceError(
      at.repo,
      "name",
      `it has several models; name one: ${listed(ggufs.map((path) => `${at.repo}/${path}`))}`,
    );
  const index =
    files.find((path) => path.endsWith("model.safetensors.index.json")) ??
    files.find((path) => path.endsWith("model.safetensors"));
  if (!index) throw new SourceError(at.repo, "name", "it has neither a .gguf file nor model.safetensors");
  return index;
}
