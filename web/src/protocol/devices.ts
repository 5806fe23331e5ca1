/**
 * "auto" is a hardware GPU if there is one, else "cpu". "cpu" computes in WebAssembly with SIMD, on several threads if
 * the page is cross-origin isolated. "reference" computes in Go on one thread: slow, an oracle for tests.
 */
export type DeviceChoice = "auto" | "webgpu" | "cpu" | "reference";

interface Device {
  label: string;
  /** It computes in WebAssembly: a page that asks for it opens no WebGPU. */
  host?: true;
  /** The menu leaves it out; a page's address or attribute may still name it. */
  unlisted?: true;
}

/** The devices, in the order of the menu. */
export const DEVICES: Readonly<Record<DeviceChoice, Device>> = {
  auto: { label: "Automatic" },
  webgpu: { label: "WebGPU" },
  cpu: { label: "CPU", host: true },
  reference: { label: "CPU, reference kernels", host: true, unlisted: true },
};

/** Returns the label of a device that computes in WebAssembly; undefined for other names. */
export function hostLabel(name: string): string | undefined {
  const device = Object.hasOwn(DEVICES, name) ? DEVICES[name as DeviceChoice] : undefined;
  return device?.host && device.label;
}
