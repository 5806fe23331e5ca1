/** Says whether a model fits this device's memory, as far as the browser tells. */

/** The memory of a device for models: of its GPU, which shares it on most devices, or of its processor. */
export interface Room {
  kind: "gpu" | "cpu";
  /** GiB of memory as `navigator.deviceMemory` rounds it; undefined where the browser keeps it secret. */
  gib: number | undefined;
}

/** The largest value that every browser with `navigator.deviceMemory` reports: it stands for as much or more. */
const CAP = 8;

/**
 * Returns whether a model that takes `memory` bytes fits: into half of the memory it fits, since browsers and systems
 * need the rest, and beyond three quarters it does not. Undefined where the browser does not tell.
 */
export function fits(memory: { gpu: number; cpu: number }, { kind, gib }: Room): "fits" | "tight" | "no" | undefined {
  if (gib === undefined) return undefined;
  const share = memory[kind] / (gib * 2 ** 30);
  if (share <= 1 / 2) return "fits";
  if (share <= 3 / 4) return "tight";
  return gib >= CAP ? undefined : "no";
}

/** Asks the browser for this device's room. */
export async function roomHere(): Promise<Room> {
  const { gpu, deviceMemory: gib } = navigator as Navigator & { deviceMemory?: number };
  const adapter = await gpu?.requestAdapter().catch(() => null);
  return { kind: adapter ? "gpu" : "cpu", gib };
}
