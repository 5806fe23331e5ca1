// The worker that runs the Go test binary, loaded as in production: the file system, wasm_exec.js, the replay of WebGPU
// programs, and then the test binary.
"use strict";
importScripts("/fs.js");

let over = false;
function end(message) {
  if (over) return;
  over = true;
  postMessage(message);
}
self.addEventListener("error", (e) => {
  // wasm_exec.js throws if a timer of Go fires after the program ended.
  if (over) e.preventDefault();
  else end({ why: `the worker failed: ${e.message}` });
});
self.addEventListener("unhandledrejection", (e) => end({ why: `a promise failed: ${e.reason?.stack ?? e.reason}` }));

self.onmessage = async ({ data: { argv, env, cwd } }) => {
  try {
    self.installFileSystem(cwd, (fd, bytes) => {
      const output = bytes.slice(); // the bytes are Go's memory
      postMessage({ fd, output }, [output.buffer]);
    });
    importScripts("/wasm_exec.js", "/replay.js");
    const go = new Go();
    go.argv = argv;
    go.env = env;
    let code = 0;
    go.exit = (c) => (code = c);
    const { instance } = await WebAssembly.instantiateStreaming(fetch("/test.wasm"), go.importObject);
    await go.run(instance);
    end({ exit: code });
  } catch (e) {
    end({ why: `the program failed: ${e.stack ?? e}` });
  }
};
