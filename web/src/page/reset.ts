/**
 * reset.html: removes the service worker and the files that the browser keeps of the page, and opens the page again. It
 * imports nothing and the service worker does not keep it, so it works when a file of the page is damaged.
 */
export {};

const button = document.querySelector<HTMLButtonElement>("#reset")!;
const said = document.querySelector<HTMLElement>("#said")!;
const base = new URL("./", document.baseURI);

/** The files with fixed names; the names of the others contain their hashes. */
const FILES = ["", "page.js", "start.js", "worker.js", "wasm_exec.js", "foretoken.wasm", "page.css"];

async function reset(): Promise<void> {
  // Without the server, deleting the files would leave no page.
  const page = await fetch(base, { cache: "no-store" });
  if (!page.ok) throw new Error(`the server answered ${page.status}`);
  for (const registration of (await navigator.serviceWorker?.getRegistrations()) ?? [])
    if (registration.scope === base.href) await registration.unregister();
  await globalThis.caches?.delete(`foretoken-site:${base.pathname}`);
  // The HTTP cache may hold damaged files too.
  await Promise.all(FILES.map(async (name) => (await fetch(new URL(name, base), { cache: "reload" })).arrayBuffer()));
}

button.disabled = false;
said.hidden = true;
button.addEventListener("click", () => {
  button.disabled = true;
  reset().then(
    () => location.replace(base),
    (cause: unknown) => {
      button.disabled = false;
      said.hidden = false;
      said.textContent = `${cause instanceof Error ? cause.message : String(cause)}. Nothing was deleted.`;
    },
  );
});
