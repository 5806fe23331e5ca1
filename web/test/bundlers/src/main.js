// The page of each bundler: the API in the page, then in a worker of the page's own.
import { Foretoken } from "foretoken";
import { tell } from "./tell.js";

globalThis.got = (async () => {
  const page = await tell(Foretoken);
  const worker = new Worker(new URL("./own.js", import.meta.url), { type: "module" });
  const inside = await new Promise((resolve) => {
    worker.onmessage = ({ data }) => resolve(data);
    worker.onerror = ({ message }) => resolve(`own.js: ${message}`);
  });
  return { page, worker: inside };
})();
