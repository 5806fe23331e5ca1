// A thread of the simd device: an instance of the module over the shared memory, with a stack of its own. It answers
// "ready" and then works until the device ends, without receiving messages.
onmessage = async ({ data: { module, memory, pool, part, stack, failed } }) => {
  try {
    const { exports } = await WebAssembly.instantiate(module, { env: { memory } });
    exports.__stack_pointer.value = stack;
    postMessage("ready");
    exports.work(pool, part);
  } catch (cause) {
    Atomics.store(new Uint32Array(memory.buffer), failed >>> 2, 1);
    postMessage(String(cause?.message ?? cause));
  }
  close();
};
