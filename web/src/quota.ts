/** A full disk in words. */
import { bytes as size } from "./widget/format.ts";
import { SourceError } from "./fetching.ts";
import type { Store } from "./opfs.ts";

/** Why a file of `needed` bytes cannot be kept, and what could be deleted for it. */
export async function noRoom(store: Store, key: string, name: string, needed?: number): Promise<SourceError> {
  const [kept, estimate] = await Promise.all([store.list().catch(() => []), navigator.storage.estimate().catch(() => ({}) as StorageEstimate)]);
  const others = kept.filter((file) => file.key !== key);
  // Browsers round the quota up for the sake of privacy: it is only told where it explains anything.
  const { quota, usage = 0 } = estimate;
  const free = quota !== undefined && needed !== undefined && quota - usage < needed ? `, the browser allows this site ${size(quota)}, of which ${size(Math.min(usage, quota))} are used` : "";
  const remedy =
    others.length > 0
      ? `delete one of the kept models (${others.map((file) => `${file.name}, ${size(file.size)}`).join("; ")}) under Kept models`
      : "free space on the disk";
  return new SourceError(name, "storage", `there is no room to keep it${needed ? `: it has ${size(needed)}` : ""}${free}; ${remedy}, or load without keeping it`, "quota");
}
