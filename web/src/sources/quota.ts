/** The error message for a full disk. */
import { bytes as size } from "./bytes.ts";
import { SourceError } from "./errors.ts";
import type { Store } from "./store.ts";

/** The end of the message: what works without deleting anything. */
export const OTHERWISE = ", or load without keeping it";

/** Explains why a file of `needed` bytes cannot be stored, and what the user could delete. */
export async function noRoom(store: Store, key: string, name: string, needed?: number): Promise<SourceError> {
  const [stored, estimate] = await Promise.all([
    store.list().catch(() => []),
    navigator.storage.estimate().catch(() => ({}) as StorageEstimate),
  ]);
  const others = stored.filter((file) => file.key !== key);
  // Browsers round the quota for privacy: the message includes it only if it explains the failure.
  const { quota, usage = 0 } = estimate;
  const free =
    quota !== undefined && needed !== undefined && quota - usage < needed
      ? `, and this site uses ${size(Math.min(usage, quota))} of the ${size(quota)} that the browser allows`
      : "";
  const list = others.map((file) => `${file.name}, ${size(file.size)}`).join("; ");
  const remedy =
    others.length > 0 ? `delete one of the kept models (${list}) under Kept models` : "free space on the disk";
  return new SourceError(
    name,
    "storage",
    `no space to store it${needed ? `: it has ${size(needed)}` : ""}${free}; ${remedy}${OTHERWISE}`,
    "quota",
  );
}
