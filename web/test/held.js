/**
 * Runs in a worker before the engine's own script: a generation of more than 100 tokens on the cpu device stands still once it
 * has told of 10, until it is stopped. What a page does while a text is written can then be looked at for as long as that
 * takes, on machines of any speed. The program lets the event loop run every 50 ms by a timer; it is that timer that is held.
 */
let running; // the id of the request
let told = 0;
let held = false;
const waiting = [];

const later = globalThis.setTimeout.bind(globalThis);
globalThis.setTimeout = (callback, ms, ...given) => later(() => (held ? waiting.push(() => callback(...given)) : callback(...given)), ms);
const release = () => {
  running = undefined;
  held = false;
  for (const go of waiting.splice(0)) later(go);
};

addEventListener("message", ({ data }) => {
  if (data.op === "generate" && data.request.max_tokens > 100) [running, told] = [data.id, 0];
  if (data.op === "stop") release();
});
const post = globalThis.postMessage.bind(globalThis);
globalThis.postMessage = (message, ...rest) => {
  if (message.id === running && running !== undefined) {
    if (message.type === "update") held = (told += JSON.parse(message.json).tokens?.length ?? 0) >= 10;
    else release();
  }
  post(message, ...rest);
};
