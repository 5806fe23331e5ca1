/** Starts the worker, whichever way the page and its bundler allow. */
import { ForetokenError } from "../protocol/errors.ts";
import { isTrusted, trusted, type TrustedAddress } from "./trusted.ts";

/** The package's worker: its address, or a function that starts it. */
export type WorkerSource = string | URL | TrustedAddress | (() => Worker);

/** Where start-worker.ts leaves the page's worker, which the first engine takes over. */
export const ahead = globalThis as { foretokenWorker?: Worker | undefined };

/** Starts the worker of `given`, or else the one in the folder of this module. */
export function spawn(given?: WorkerSource): Worker {
  if (typeof given === "function") return given();
  const started = ahead.foretokenWorker;
  if (!given && started) {
    ahead.foretokenWorker = undefined;
    return started;
  }
  if (!globalThis.Worker)
    throw new ForetokenError(
      "bad_option",
      "worker: this scope (such as a service worker) cannot start workers; import foretoken/in-place, which needs none",
      "worker",
    );
  try {
    if (given) return launch(given, isTrusted(given) ? trusted : (address) => address);
    const found = sibling();
    return found instanceof Worker ? found : launch(found.address, trusted, found.options);
  } catch (cause) {
    const { name, message } = cause as Error;
    let reason = `${message}${whyNot()}`;
    if (name === "TypeError" && /trusted|policy/i.test(message))
      reason =
        "this page requires Trusted Types; its Content-Security-Policy has to allow the policy: trusted-types " +
        "foretoken, with 'allow-duplicates' for two copies of the library; an address given as an option has to be a " +
        "TrustedScriptURL";
    else if (name === "TypeError" && !given)
      reason = "this bundle does not know its own address (import.meta.url); give the worker's in the option worker";
    throw new ForetokenError("crash", `the worker failed: ${reason}`, undefined, { cause });
  }
}

/** Says that a script did not load, and which header may be missing; `address` is on another site. */
export function notLoaded(address?: string): string {
  const header = address
    ? "; its server must let other sites read it (CORS: Access-Control-Allow-Origin)"
    : "; where the page has the header Cross-Origin-Embedder-Policy, the script needs that header too";
  return `its script could not be loaded${address ? ` from ${address}` : ""}${whyNot() || header}`;
}

function whyNot(): string {
  if (globalThis.location?.protocol === "file:")
    return "; a page opened from disk (file:) cannot start it: run make demo or any static server and open its address";
  if (globalThis.origin === "null")
    return (
      "; the page's origin is opaque, as in a sandboxed frame: it needs allow-same-origin, or a server that allows " +
      "all origins to read the library's files (Access-Control-Allow-Origin: *)"
    );
  return "";
}

interface Wanted {
  address: string;
  options: WorkerOptions;
}

/**
 * Returns the constructor's arguments for the worker in this module's folder. Bundlers find the worker by the
 * expression, so it must stay in this form. They replace it and import.meta.url by other addresses, so only the
 * constructor learns the address. For the duration of the call, a function that returns its arguments replaces the
 * constructor; a scope that forbids the replacement gets the worker.
 */
function sibling(): Wanted | Worker {
  const real = globalThis.Worker;
  const standIn = function (address: string | URL, options: WorkerOptions): Wanted {
    return { address: String(address), options };
  };
  Reflect.set(globalThis, "Worker", standIn);
  try {
    return new Worker(new URL("./worker.js", import.meta.url), { type: "module", name: "foretoken" });
  } finally {
    Reflect.set(globalThis, "Worker", real);
  }
}

function launch(
  given: string | URL | TrustedAddress,
  approve: (address: string) => string,
  options: WorkerOptions = { type: "module", name: "foretoken" },
): Worker {
  const url = new URL(String(given), globalThis.document?.baseURI ?? globalThis.location?.href);
  if (url.origin === globalThis.origin || url.protocol === "data:") return new Worker(approve(url.href), options);
  // A page may import this module from another origin, but not start a worker from there. A worker whose script is of
  // the page's origin may import it. A frame with an opaque origin needs such a script too: no address has its origin.
  const shim = URL.createObjectURL(new Blob([importing(url.href)], { type: "text/javascript" }));
  const worker = new Worker(approve(shim), { name: options.name ?? "" });
  for (const event of ["message", "error"])
    worker.addEventListener(event, () => URL.revokeObjectURL(shim), { once: true });
  return worker;
}

/**
 * Returns the script of a worker that imports another script. It is a classic script, because Chromium loads no module
 * from a blob of an opaque origin. Messages that arrive before the import are delivered after it.
 */
function importing(address: string): string {
  return `const early = [], keep = (event) => early.push(event);
addEventListener("message", keep);
import(${JSON.stringify(address)}).then(() => {
  removeEventListener("message", keep);
  for (const { data } of early) dispatchEvent(new MessageEvent("message", { data }));
}, () => reportError(new Error(${JSON.stringify(notLoaded(address))})));
`;
}
