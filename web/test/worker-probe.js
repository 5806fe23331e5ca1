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

// Counts the rounds that Go ends after the worker receives a stop and before it answers the request. They are counted
// as Go calls, because the worker sends those of a frame later.
let heard; // such rounds with tokens; undefined before a stop
let running = false;
addEventListener("message", ({ data }) => {
  if (data.op === "generate" || data.op === "chat") count(globalThis.foretokenEngine, data.op);
  if (data.op === "stop" && running && heard === undefined) {
    seen.stops++;
    heard = 0;
  }
});

/** Has the next call of a method of the engine counted. */
function count(engine, method) {
  const call = engine[method];
  engine[method] = async (request, onRound, ...given) => {
    engine[method] = call;
    running = true;
    const counted = (json) => {
      if (heard !== undefined && JSON.parse(json).tokens?.length > 0) heard++;
      return onRound(json);
    };
    try {
      return await call.call(engine, request, counted, ...given);
    } finally {
      if (heard !== undefined) seen.late.push(heard);
      [running, heard] = [false, undefined];
    }
  };
}
