/**
 * Runs in a worker before the engine's script. It counts the GPU objects that the worker creates and destroys, finds
 * the Go program's memory and its table of JavaScript values, and counts the rounds after the worker receives a stop.
 */
const seen = (globalThis.seen = {
  buffers: 0,
  bytes: 0,
  made: 0,
  memory: undefined,
  go: undefined,
  stops: 0,
  late: [],
});

if (globalThis.GPUDevice) {
  const alive = new WeakSet();
  const create = GPUDevice.prototype.createBuffer;
  GPUDevice.prototype.createBuffer = function (descriptor) {
    const buffer = create.call(this, descriptor);
    alive.add(buffer);
    seen.buffers++;
    seen.bytes += buffer.size;
    return buffer;
  };
  const destroy = GPUBuffer.prototype.destroy;
  GPUBuffer.prototype.destroy = function () {
    if (alive.delete(this)) {
      seen.buffers--;
      seen.bytes -= this.size;
    }
    destroy.call(this);
  };
  for (const name of [
    "createBindGroup",
    "createBindGroupLayout",
    "createPipelineLayout",
    "createShaderModule",
    "createComputePipeline",
    "createComputePipelineAsync",
    "createQuerySet",
  ]) {
    const make = GPUDevice.prototype[name];
    GPUDevice.prototype[name] = function (...given) {
      seen.made++;
      return make.apply(this, given);
    };
  }
}

const instantiate = WebAssembly.instantiate;
WebAssembly.instantiate = async (...given) => {
  const made = await instantiate(...given);
  seen.memory = (made.instance ?? made).exports.mem;
  return made;
};

let Go;
Object.defineProperty(globalThis, "Go", {
  configurable: true,
  get: () => Go,
  set(given) {
    Go = class extends given {
      constructor() {
        super();
        seen.go = this;
      }
    };
  },
});

/** Returns the current memory and objects of the worker. */
seen.sample = () => {
  globalThis.gc?.();
  return {
    wasm: seen.memory?.buffer.byteLength ?? 0,
    values: seen.go?._values.filter((value) => value !== undefined && value !== null).length ?? 0,
    buffers: seen.buffers,
    bytes: seen.bytes,
    made: seen.made,
  };
};

// Counts the rounds that the worker posts after it receives a stop and before it answers the request.
let running; // the request's id
let heard; // rounds with tokens that ended since the worker received the stop; undefined before
let stopped; // when it received the stop
let began; // when the request began by the clock of its rounds, the first of which is posted at once
addEventListener("message", ({ data }) => {
  if (data.op === "generate" || data.op === "chat") [running, began] = [data.id, undefined];
  if (data.op === "stop" && running !== undefined && heard === undefined) {
    seen.stops++;
    [heard, stopped] = [0, performance.now()];
  }
});
const post = globalThis.postMessage.bind(globalThis);
globalThis.postMessage = (message, ...rest) => {
  if (message.id === running && running !== undefined) {
    if (message.type !== "update") {
      if (heard !== undefined) seen.late.push(heard);
      running = heard = undefined;
    } else
      for (const round of message.json.map(JSON.parse)) {
        began ??= performance.now() - round.elapsed_ms;
        if (heard !== undefined && round.tokens?.length > 0 && began + round.elapsed_ms > stopped) heard++;
      }
  }
  post(message, ...rest);
};
