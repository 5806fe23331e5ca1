/** A worker that serves the scripted engine; `node build.mjs --mock` bundles it instead of the Go program. */
import type { Channel, FromWorker, ToWorker } from "../../src/protocol/protocol.ts";
import { serve } from "../../src/worker/serve.ts";
import { mockEngine } from "./engine.ts";

serve(globalThis as unknown as Channel<ToWorker, FromWorker>, async () => mockEngine({ roundMs: 60, loadMs: 120 }));
