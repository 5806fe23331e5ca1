// The JavaScript half of Foretoken's browser device: it holds the WebGPU
// objects by number and replays recorded programs from the bytes that Go hands
// over. A plain script without eval, so that it runs under any content security
// policy; see doc.go beside it for the format of the commands.
"use strict";
(() => {
  const FEATURES = ["shader-f16", "subgroups", "timestamp-query"];
  // Products of packed bytes, an extension of WGSL that a browser has on every adapter, and Chrome's names of GPUs most
  // of which multiply byte by byte: the kernels would take long to compile there, for nothing.
  const PACKED = "packed_4x8_integer_dot_product";
  const BYTE_BY_BYTE = /^((gcn|metal|common)-|rdna-1$|gen-(7|8|9|11)$|(fermi|kepler|maxwell|midgard)$)/;
  const LIMITS = [
    "maxStorageBufferBindingSize",
    "maxBufferSize",
    "maxStorageBuffersPerShaderStage",
    "maxComputeWorkgroupStorageSize",
    "maxComputeInvocationsPerWorkgroup",
    "maxComputeWorkgroupSizeX",
    "maxComputeWorkgroupSizeY",
    "maxComputeWorkgroupsPerDimension",
  ];
  // Milliseconds of a wait in which hurry asks; later, Chromium's two are a small part of it.
  const HURRIED = 40;
  // Milliseconds after which an adapter is asked for again: a browser whose GPU process is just starting has none.
  const AGAIN = 300;

  // What Go's done callback is told.
  const OK = 0, FAILED = 1;

  // What Go knows an error by that means: the device has no memory left (bridge_js.go).
  const NO_MEMORY = "out of memory: ";

  /** An error that means: there is no WebGPU here, and why. */
  class Unavailable extends Error {}

  const adapterOf = async (gpu) =>
    (await gpu.requestAdapter({ powerPreference: "high-performance" })) ??
    (await gpu.requestAdapter({ forceFallbackAdapter: true }));

  /** Finds an adapter and opens a device on it with all the limits it offers. */
  async function openDevice() {
    const gpu = globalThis.navigator?.gpu;
    if (!gpu) {
      throw new Unavailable(
        globalThis.isSecureContext === false
          ? "WebGPU needs a secure page: open it over https, or from localhost"
          : "this browser has no WebGPU, or it is switched off here (navigator.gpu is missing)",
      );
    }
    let adapter = await adapterOf(gpu);
    if (!adapter) {
      await new Promise((resolve) => setTimeout(resolve, AGAIN));
      adapter = await adapterOf(gpu);
    }
    if (!adapter) {
      throw new Unavailable("the browser has WebGPU but found no graphics adapter that it may use");
    }
    const requiredFeatures = FEATURES.filter((f) => adapter.features.has(f));
    const requiredLimits = {};
    for (const name of LIMITS) {
      if (adapter.limits[name] !== undefined) requiredLimits[name] = adapter.limits[name];
    }
    const device = await adapter.requestDevice({ requiredFeatures, requiredLimits });
    const opened = { adapter, device, lost: false };
    device.lost.then(() => (opened.lost = true));
    return opened;
  }

  let ahead = null; // of the device that prepare opened, until it is taken

  /** Takes the device that was opened ahead, or opens one. */
  async function open(callbacks) {
    const prepared = ahead;
    ahead = null;
    let opened = await prepared?.catch((e) => {
      if (e instanceof Unavailable) throw e; // it was asked for twice
    });
    if (!opened || opened.lost) opened = await openDevice();
    return new Replay(opened.adapter, opened.device, callbacks);
  }

  /** What a message begins with, so that Go knows the error's kind. */
  const kind = (error) => (globalThis.GPUOutOfMemoryError && error instanceof GPUOutOfMemoryError ? NO_MEMORY : "");

  /** Runs make inside error scopes; the promise fails with what they caught. */
  async function scoped(device, make) {
    device.pushErrorScope("out-of-memory");
    device.pushErrorScope("internal");
    device.pushErrorScope("validation");
    let made, thrown;
    try {
      made = make();
    } catch (e) {
      thrown = e;
    }
    // All three must be popped before anything is awaited: scopes are a stack.
    const popped = [device.popErrorScope(), device.popErrorScope(), device.popErrorScope()];
    for (const e of await Promise.all(popped)) thrown ??= e;
    if (thrown) throw new Error(kind(thrown) + thrown.message);
    return made;
  }

  class Replay {
    constructor(adapter, device, callbacks) {
      this.adapter = adapter;
      this.device = device;
      this.queue = device.queue;
      this.callbacks = callbacks;
      this.buffers = [];
      this.pipelines = []; // by kernel: {pipeline, layout}
      this.programs = []; // {pipelines: [], bindGroups: [], groups: Uint32Array}
      this.layouts = new Map(); // by the accesses of the bindings

      this.inbox = new Uint8Array(0);
      this.words = new Uint32Array(0); // the same bytes
      this.outbox = new Uint8Array(0);
      this.staging = null;
      this.stagingMade = 0; // how often, for Go's counters
      this.mapping = 0; // the run whose results are awaited
      this.hurries = !this.info().fallback; // which would compute more slowly meanwhile
      this.fault = ""; // why submit failed

      // Bound once: Go keeps them and invokes them without looking them up.
      this.submit = this.submit.bind(this);
      device.lost.then((info) => this.callbacks.event("lost", info.message || info.reason || "unknown reason"));
      device.addEventListener("uncapturederror", (e) => {
        e.preventDefault?.(); // Go reports it; the console need not
        this.callbacks.event("error", kind(e.error) + e.error.message);
      });
    }

    /** Describes the adapter and the device as plain values. */
    info() {
      const a = this.adapter.info ?? {};
      const packed = navigator.gpu.wgslLanguageFeatures?.has(PACKED) && !BYTE_BY_BYTE.test(a.architecture ?? "");
      const limits = {};
      for (const name of LIMITS) limits[name] = this.device.limits[name];
      return {
        vendor: a.vendor ?? "",
        architecture: a.architecture ?? "",
        device: a.device ?? "",
        description: a.description ?? "",
        fallback: Boolean(a.isFallbackAdapter ?? this.adapter.isFallbackAdapter),
        features: FEATURES.filter((f) => this.device.features.has(f))
          .concat(packed ? [PACKED] : [])
          .sort()
          .join(" "),
        limits,
      };
    }

    /**
     * Starts one of the methods below and returns at once. Go is told the
     * outcome by callbacks.answer(id, failed, value).
     */
    request(id, method, ...args) {
      Promise.resolve()
        .then(() => this[method](...args))
        .then(
          (value) => this.callbacks.answer(id, false, value ?? null),
          (e) => this.callbacks.answer(id, true, String(e?.message ?? e)),
        );
    }

    async newBuffer(...args) {
      await scoped(this.device, () => this.newSmallBuffer(...args));
    }

    /** Waits for nothing: what goes wrong with it is an uncaptured error. */
    newSmallBuffer(id, label, size, uniform) {
      const usage = uniform
        ? GPUBufferUsage.UNIFORM | GPUBufferUsage.COPY_DST
        : GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_DST | GPUBufferUsage.COPY_SRC;
      this.buffers[id] = this.device.createBuffer({ label, size, usage });
    }

    freeBuffer(id) {
      this.buffers[id]?.destroy();
      delete this.buffers[id];
    }

    /** The explicit layout for bindings such as "rwu": read, write, uniform. */
    layout(accesses) {
      let l = this.layouts.get(accesses);
      if (!l) {
        const types = { r: "read-only-storage", w: "storage", u: "uniform" };
        const entries = Array.from(accesses, (a, binding) => ({
          binding,
          visibility: GPUShaderStage.COMPUTE,
          buffer: { type: types[a] },
        }));
        const group = this.device.createBindGroupLayout({ label: accesses, entries });
        l = { group, pipeline: this.device.createPipelineLayout({ label: accesses, bindGroupLayouts: [group] }) };
        this.layouts.set(accesses, l);
      }
      return l;
    }

    /**
     * Compiles kernels side by side: ids, names, sources and accesses have one
     * entry for each. Resolves to an array of null, or {line, message}.
     */
    compile(ids, names, sources, accesses) {
      return Promise.all(ids.map((id, i) => this.compileOne(id, names[i], sources[i], accesses[i])));
    }

    async compileOne(id, label, code, accesses) {
      let module;
      try {
        // Everything is started before anything is awaited, so that the
        // compilers of several kernels run at once.
        const layout = this.layout(accesses);
        const made = scoped(this.device, () => (module = this.device.createShaderModule({ label, code })));
        const pipeline = this.device.createComputePipelineAsync({
          label,
          layout: layout.pipeline,
          compute: { module, entryPoint: "main" },
        });
        pipeline.catch(() => {}); // it fails again, with less to say, when the module does
        await made;
        this.pipelines[id] = { pipeline: await pipeline, layout: layout.group };
        return null;
      } catch (e) {
        const messages = (await module?.getCompilationInfo())?.messages ?? [];
        const first = messages.find((m) => m.type === "error");
        return first
          ? { line: first.lineNum, message: first.message }
          : { line: 0, message: String(e?.message ?? e) };
      }
    }

    /**
     * Records a program from words: for each dispatch the kernel, the three
     * workgroup counts, the number of bindings, and buffer, offset and size of
     * each. It is encoded once without being submitted, so that what WebGPU
     * refuses is refused here and not in a run.
     */
    async newProgram(id, label, bytes) {
      const words = new Uint32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);
      const program = { pipelines: [], bindGroups: [], groups: [] };
      const kernels = [];
      await scoped(this.device, () => {
        for (let at = 0; at < words.length; ) {
          const kernel = this.pipelines[words[at]];
          const entries = [];
          kernels.push(kernel);
          program.pipelines.push(kernel.pipeline);
          program.groups.push(words[at + 1], words[at + 2], words[at + 3]);
          const end = at + 5 + 3 * words[at + 4];
          for (at += 5; at < end; at += 3) {
            const buffer = this.buffers[words[at]];
            entries.push({ binding: entries.length, resource: { buffer, offset: words[at + 1], size: words[at + 2] } });
          }
          program.bindGroups.push(this.device.createBindGroup({ label, layout: kernel.layout, entries }));
        }
        this.trial(program, 0, program.pipelines.length);
      }).catch((whole) => this.blame(program, whole));
      program.groups = Uint32Array.from(program.groups);
      this.programs[id] = program;
    }

    trial(program, from, to) {
      const encoder = this.device.createCommandEncoder();
      const pass = encoder.beginComputePass();
      this.encode(pass, program, from, to, null);
      pass.end();
      encoder.finish();
    }

    /** Finds the dispatch at fault; WebGPU's message does not number them. */
    async blame(program, whole) {
      for (let i = 0; i < program.bindGroups.length; i++) {
        await scoped(this.device, () => this.trial(program, i, i + 1)).catch((e) => {
          throw new Error(`dispatch ${i}, kernel ${program.pipelines[i].label}: ${e.message}`);
        });
      }
      throw whole;
    }

    freeProgram(id) {
      delete this.programs[id];
    }

    /** Resolves when all that was handed over before is done. */
    async drain() {
      this.queue.submit([]); // or the writes would wait for the next run
      await this.queue.onSubmittedWorkDone();
    }

    /** Returns the array that Go copies its next bytes into. */
    grow(size) {
      if (this.inbox.length < size) {
        this.inbox = new Uint8Array(Math.max(1 << 16, 2 ** Math.ceil(Math.log2(size))));
        this.words = new Uint32Array(this.inbox.buffer);
      }
      return this.inbox;
    }

    encode(pass, program, from, to, last) {
      const { pipelines, bindGroups, groups } = program;
      for (let i = from; i < to; i++) {
        const pipeline = pipelines[i];
        if (pipeline !== last) {
          pass.setPipeline(pipeline);
          last = pipeline;
        }
        pass.setBindGroup(0, bindGroups[i]);
        pass.dispatchWorkgroups(groups[3 * i], groups[3 * i + 1], groups[3 * i + 2]);
      }
      return last;
    }

    /**
     * Does the commands that start at a byte offset of the inbox: the writes,
     * and if submitting, one command buffer of all programs and copies. With
     * reads, callbacks.done(run, status, stagingMade) follows when outbox holds
     * them; outbox is another array whenever stagingMade has changed.
     * Returns OK or FAILED; fault then says why.
     */
    submit(at, submitting, run) {
      try {
        const { queue, words, inbox } = this;
        at >>>= 2;
        const writes = words[at], programs = words[at + 1], reads = words[at + 2];
        at += 3;
        for (let i = 0; i < writes; i++, at += 4) {
          queue.writeBuffer(this.buffers[words[at]], words[at + 1], inbox.buffer, words[at + 3], words[at + 2]);
        }
        if (!submitting) return OK;
        const encoder = this.device.createCommandEncoder();
        if (programs > 0) {
          const pass = encoder.beginComputePass();
          let last = null;
          for (let i = 0; i < programs; i++, at++) {
            const program = this.programs[words[at]];
            last = this.encode(pass, program, 0, program.pipelines.length, last);
          }
          pass.end();
        }
        let total = 0;
        for (let i = 0; i < reads; i++) total += words[at + 3 * i + 2];
        if (total > 0) {
          this.reserve(total);
          for (let i = 0, to = 0; i < reads; i++, at += 3) {
            if (words[at + 2] === 0) continue;
            encoder.copyBufferToBuffer(this.buffers[words[at]], words[at + 1], this.staging, to, words[at + 2]);
            to += words[at + 2];
          }
        }
        queue.submit([encoder.finish()]);
        if (total > 0) this.map(total, run);
        return OK;
      } catch (e) {
        this.fault = String(e?.message ?? e);
        return FAILED;
      }
    }

    /**
     * Milliseconds that one dispatch of a program takes so many times over. The device's own
     * timestamps tell; without them it is the time from the submit to its end.
     */
    async timed(id, index, times) {
      const { device, queue } = this;
      const { pipelines, bindGroups, groups } = this.programs[id];
      this.stamps ??= device.features.has("timestamp-query") && {
        set: device.createQuerySet({ type: "timestamp", count: 2 }),
        resolved: device.createBuffer({ size: 16, usage: GPUBufferUsage.QUERY_RESOLVE | GPUBufferUsage.COPY_SRC }),
        back: device.createBuffer({ size: 16, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST }),
      };
      const { set, resolved, back } = this.stamps;
      const encoder = device.createCommandEncoder();
      const pass = encoder.beginComputePass(
        set && { timestampWrites: { querySet: set, beginningOfPassWriteIndex: 0, endOfPassWriteIndex: 1 } },
      );
      if (times > 0) {
        pass.setPipeline(pipelines[index]);
        pass.setBindGroup(0, bindGroups[index]);
      }
      for (let i = 0; i < times; i++) {
        pass.dispatchWorkgroups(groups[3 * index], groups[3 * index + 1], groups[3 * index + 2]);
      }
      pass.end();
      if (set) {
        encoder.resolveQuerySet(set, 0, 2, resolved, 0);
        encoder.copyBufferToBuffer(resolved, 0, back, 0, 16);
      }
      const begin = performance.now();
      queue.submit([encoder.finish()]);
      if (!set) {
        await queue.onSubmittedWorkDone();
        return performance.now() - begin;
      }
      await back.mapAsync(GPUMapMode.READ);
      const [from, to] = new BigUint64Array(back.getMappedRange());
      back.unmap();
      return Number(to - from) / 1e6;
    }

    /** Makes the staging buffer large enough, and one that is not being mapped. */
    reserve(size) {
      if (this.staging && this.staging.size >= size && !this.mapping) return;
      this.staging?.destroy();
      this.staging = null;
      this.mapping = 0;
      const rounded = Math.max(1 << 16, 2 ** Math.ceil(Math.log2(size)));
      size = Math.max(size, Math.min(rounded, this.device.limits.maxBufferSize));
      this.staging = this.device.createBuffer({
        label: "staging",
        size,
        usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST,
      });
      this.stagingMade++;
      if (this.outbox.length < size) this.outbox = new Uint8Array(size);
    }

    /**
     * Asks the browser for answers while a buffer is being mapped. Chromium looks every two milliseconds whether a map
     * is done, longer than a pass over a small model takes, and whenever it is asked something; Firefox looks every
     * hundred, and at each submit.
     */
    hurry(run, until) {
      if (run !== this.mapping || performance.now() > until) return;
      this.queue.submit([]);
      this.device.pushErrorScope("validation");
      this.device.popErrorScope().then(() => this.hurry(run, until), () => {});
    }

    map(size, run) {
      const staging = this.staging;
      this.mapping = run;
      if (this.hurries) this.hurry(run, performance.now() + HURRIED);
      staging.mapAsync(GPUMapMode.READ, 0, size).then(
        () => {
          if (staging !== this.staging) return; // given up meanwhile
          this.mapping = 0;
          this.outbox.set(new Uint8Array(staging.getMappedRange(0, size)));
          staging.unmap();
          this.callbacks.done(run, OK, this.stagingMade);
        },
        (e) => {
          if (staging !== this.staging) return;
          this.mapping = 0;
          this.fault = String(e?.message ?? e);
          this.callbacks.done(run, FAILED, this.stagingMade);
        },
      );
    }

    /** Ends the device. No callback is called after this returns. */
    destroy() {
      const nothing = () => {};
      this.callbacks = { answer: nothing, event: nothing, done: nothing };
      this.device.destroy(); // and with it every buffer
      this.buffers = [];
      this.pipelines = [];
      this.programs = [];
      this.layouts.clear();
      this.staging = null;
    }
  }

  globalThis.foretokenReplay = {
    /** Begins to open the device that the next open will take: it takes as long as starting Go. */
    prepare() {
      ahead ??= openDevice();
      ahead.catch(() => {});
    },
    /**
     * Opens a device. Tells callbacks.opened(replay, "", "") or
     * callbacks.opened(null, "unavailable" or "failed", why).
     */
    open(callbacks) {
      open(callbacks).then(
        (replay) => callbacks.opened(replay, "", ""),
        (e) => callbacks.opened(null, e instanceof Unavailable ? "unavailable" : "failed", String(e?.message ?? e)),
      );
    },
  };
})();
