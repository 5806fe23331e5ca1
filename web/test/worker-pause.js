/**
 * Runs in a worker before the engine's script. It pauses a generation of more than 100 tokens after 10 tokens, until
 * the page stops it, so that tests can inspect a running generation on machines of any speed. On the CPU the program
 * yields to the event loop with a timer every 50 ms; on WebGPU it waits for the mapping of a buffer. Both wait during a
 * pause.
 */
let running; // the id of the request
let tokens = 0;
let paused = false;
const waiting = [];

const later = globalThis.setTimeout.bind(globalThis);
globalThis.setTimeout = (callback, ms, ...given) =>
  later(() => (paused ? waiting.push(() => callback(...given)) : callback(...given)), ms);
if (globalThis.GPUBuffer) {
  const mapAsync = GPUBuffer.prototype.mapAsync;
  GPUBuffer.prototype.mapAsync = async function (...given) {
    await mapAsync.apply(this, given);
    if (paused) await new Promise((resolve) => waiting.push(resolve));
  };
}
const release = () => {
  running = undefined;
  paused = false;
  for (const go of waiting.splice(0)) later(go);
};

addEventListener("message", ({ data }) => {
  if (data.op === "generate" && JSON.parse(data.request).max_tokens > 100) [running, tokens] = [data.id, 0];
  if (data.op === "stop") release();
});
const post = globalThis.postMessage.bind(globalThis);
globalThis.postMessage = (message, ...rest) => {
  if (message.id === running && running !== undefined) {
    if (message.type === "update") {
      for (const json of message.json) tokens += JSON.parse(json).tokens?.length ?? 0;
      paused = tokens >= 10;
    } else release();
  }
  post(message, ...rest);
};
