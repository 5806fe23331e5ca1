/** A worker that serves the scripted engine; `node build.mjs --mock` bundles it in place of Go's. */
import type { Channel, FromWorker, ToWorker } from "../../src/protocol.ts";
import { serve } from "../../src/serve.ts";
import { mockEngine } from "./engine.ts";

serve(globalThis as unknown as Channel<ToWorker, FromWorker>, async () => mockEngine({ roundMs: 60, loadMs: 120 }));
