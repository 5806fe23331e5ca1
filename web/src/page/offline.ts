/** Keeps the built page in the browser, so that it opens without a network; loaded when the page has nothing better to do. */
import { buildOf, byId, say } from "./tools.ts";

/** Registers the service worker beside the page, and offers a newer build when there is one. */
export async function keepOffline(): Promise<void> {
  const build = buildOf();
  if (!build || !navigator.serviceWorker) return;
  const registration = await navigator.serviceWorker.register(new URL("./sw.js", document.baseURI), { updateViaCache: "none" });
  const follow = (worker: ServiceWorker | null): void => {
    if (!worker) return;
    const look = (): void => {
      if (worker.state === "installed" && registration.active) void offer(worker, build);
      if (worker.state === "activated") ready();
    };
    worker.addEventListener("statechange", look);
    look();
  };
  registration.addEventListener("updatefound", () => follow(registration.installing));
  for (const worker of [registration.installing, registration.waiting, registration.active]) follow(worker);
  // A browser looks for a newer one when it finds the time; this page may be of a newer build already.
  if (registration.active) void registration.update().catch(() => undefined);
}

function ready(): void {
  byId("offline").hidden = false;
  document.documentElement.dataset["offline"] = "ready";
}

/** A worker of this page's own build takes over at once; one of a newer build when the reader says so. */
async function offer(worker: ServiceWorker, build: string): Promise<void> {
  const { port1, port2 } = new MessageChannel();
  const answer = new Promise<string>((resolve) => (port1.onmessage = ({ data }) => resolve(String(data))));
  worker.postMessage("build", [port2]);
  const theirs = await answer;
  port1.close();
  if (theirs === build) return worker.postMessage("activate");
  const reload = document.createElement("button");
  reload.type = "button";
  reload.id = "update";
  reload.textContent = "Reload";
  reload.addEventListener("click", () => {
    navigator.serviceWorker.addEventListener("controllerchange", () => location.reload(), { once: true });
    worker.postMessage("activate");
  });
  say("A newer version of this page is ready.", "note", reload);
}
