/** Registers the service worker that makes the page work offline; loaded after the models. */
import { trusted } from "../engine/trusted.ts";
import { buildOf, byId, showMessage } from "./toolbar.ts";

/** Registers the page's service worker, and offers a newer build if there is one. */
export async function keepOffline(): Promise<void> {
  const build = buildOf();
  if (!build || !navigator.serviceWorker) return;
  const registration = await navigator.serviceWorker.register(trusted(new URL("./sw.js", document.baseURI).href), {
    updateViaCache: "none",
  });
  const follow = (worker: ServiceWorker | null): void => {
    if (!worker) return;
    const check = (): void => {
      if (worker.state === "installed" && registration.active) void offer(worker, build);
      if (worker.state === "activated") ready();
    };
    worker.addEventListener("statechange", check);
    check();
  };
  registration.addEventListener("updatefound", () => follow(registration.installing));
  for (const worker of [registration.installing, registration.waiting, registration.active]) follow(worker);
  // Browsers check for updates rarely, and this page may already be of a newer build.
  if (registration.active) void registration.update().catch(() => undefined);
}

function ready(): void {
  byId("offline").hidden = false;
  document.documentElement.dataset["offline"] = "ready";
}

/** Activates a worker of this page's build at once, and a worker of a newer build when the user agrees. */
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
  showMessage("A newer version of this page is ready.", "note", reload);
}
