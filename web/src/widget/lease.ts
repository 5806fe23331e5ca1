/**
 * Shares one engine between all widgets of a page with the same models and device: the first lease loads it, leases
 * use it in turns, and the last release frees it. Engines also take turns, including engines in frames of the same
 * origin: they share one GPU, so two at once would distort each other's measurements.
 */
import type { Engine, LoadOptions } from "../engine/engine.ts";
import { loadInWorker } from "../engine/in-worker.ts";
import { randomId } from "../engine/options.ts";
import { ForetokenError } from "../protocol/errors.ts";
import type { Progress } from "../protocol/protocol.ts";

/** The options that distinguish engines. */
export type Wanted = Omit<LoadOptions, "onProgress" | "signal">;

type Loader = (options: LoadOptions) => Promise<Engine>;

class Shared {
  readonly leases = new Set<Lease>();
  readonly notices: Progress[] = [];
  readonly engine: Promise<Engine>;
  readonly cancel = new AbortController();
  latest: Progress | undefined;
  /** Resolves at the end of the last turn in the queue. */
  queue: Promise<void> = Promise.resolve();
  /** The number of waiting and running turns. */
  turns = 0;
  /** The lease whose conversation the engine has. */
  conversing: Lease | undefined;

  constructor(key: string | undefined, wanted: Wanted, load: Loader) {
    const forget = (): void => {
      if (key !== undefined && engines.get(key) === this) engines.delete(key);
    };
    this.engine = (async () => {
      await Promise.all(ending); // memory may not suffice for two engines
      const engine = await load({
        ...wanted,
        signal: this.cancel.signal,
        onProgress: (progress) => this.#report(progress),
      });
      engine.onCrash(forget);
      return engine;
    })();
    this.engine.catch(forget);
    this.cancel.signal.addEventListener("abort", forget);
  }

  #report(progress: Progress): void {
    if (progress.stage === "notice") this.notices.push(progress);
    else this.latest = progress;
    for (const lease of this.leases) lease.onProgress(progress);
  }

  /** Disposes of the engine after the last release. */
  async end(): Promise<void> {
    this.cancel.abort();
    const ended = this.engine.then(
      (engine) => engine.dispose(),
      () => undefined,
    );
    ending.add(ended);
    await ended;
    ending.delete(ended);
  }
}

const engines = new Map<string, Shared>();
const ending = new Set<Promise<void>>();

/** A widget's use of a shared engine. */
export class Lease {
  /** Rejects with code "aborted" if the lease is released during the load. */
  readonly engine: Promise<Engine>;
  /** Whether another lease requested the engine before. */
  readonly joined: boolean;
  readonly #shared: Shared;
  #released: Promise<void> | undefined;
  #refuse!: (error: ForetokenError) => void;

  constructor(
    wanted: Wanted,
    readonly onProgress: (progress: Progress) => void,
    load: Loader = loadInWorker,
  ) {
    const key = keyOf(wanted);
    const known = key === undefined ? undefined : engines.get(key);
    this.joined = known !== undefined;
    this.#shared = known ?? new Shared(key, wanted, load);
    if (key !== undefined) engines.set(key, this.#shared);
    this.#shared.leases.add(this);
    this.engine = Promise.race([this.#shared.engine, new Promise<never>((_, reject) => (this.#refuse = reject))]);
    this.engine.catch(() => undefined);
    if (known) for (const progress of [...known.notices, ...(known.latest ? [known.latest] : [])]) onProgress(progress);
  }

  /**
   * Runs `work` after all earlier turns. Calls `onWait` if it must wait; rejects with code "aborted" if `signal` aborts
   * first.
   */
  async turn<T>(work: () => Promise<T>, signal?: AbortSignal, onWait: () => void = () => undefined): Promise<T> {
    const shared = this.#shared;
    const before = shared.queue;
    let over!: () => void;
    const mine = new Promise<void>((resolve) => (over = resolve));
    shared.queue = before.then(() => mine); // later turns wait for earlier ones even if this one aborts
    if (shared.turns++ > 0) onWait();
    try {
      await new Promise<void>((resolve, reject) => {
        const abort = (): void => reject(stopped());
        if (signal?.aborted) return abort();
        signal?.addEventListener("abort", abort, { once: true });
        void before.then(resolve);
      });
      return await alone(work, signal, onWait);
    } finally {
      shared.turns--;
      over();
    }
  }

  /** Claims the engine's conversation for this lease; false if another lease had it. */
  claimConversation(): boolean {
    const same = this.#shared.conversing === this;
    this.#shared.conversing = this;
    return same;
  }

  /** Releases the engine; the last release resolves when the engine is freed. */
  release(): Promise<void> {
    this.#released ??= (async () => {
      this.#refuse(new ForetokenError("aborted", "loading was aborted"));
      this.#shared.leases.delete(this);
      if (this.#shared.leases.size === 0) await this.#shared.end();
    })();
    return this.#released;
  }
}

const stopped = (): ForetokenError => new ForetokenError("aborted", "stopped while waiting for another widget");

/** Runs `work` while no other engine of this page, or of frames of the same origin, is working. */
async function alone<T>(work: () => Promise<T>, signal: AbortSignal | undefined, onWait: () => void): Promise<T> {
  const locks = globalThis.navigator?.locks; // undefined on insecure pages
  if (!locks) return work();
  const name = `foretoken-turn/${pageName()}`;
  const taken = Symbol();
  let begun = false;
  const begin = (): Promise<T> => {
    begun = true;
    return work();
  };
  try {
    const first = await locks.request(name, { ifAvailable: true }, (lock) => (lock ? begin() : taken));
    if (first !== taken) return first as T;
    onWait();
    return (await locks.request(name, signal ? { signal } : {}, begin)) as T;
  } catch (cause) {
    if (begun) throw cause;
    if (signal?.aborted) throw stopped();
    return work(); // a frame with an opaque origin has no locks
  }
}

interface Named {
  foretokenPage?: string | undefined;
}

/** Returns an id that this page shares with its frames of the same origin; each looks for an existing id first. */
function pageName(): string {
  const own = globalThis as Named;
  const around = globalThis.parent
    ? [globalThis.parent, ...Array.from({ length: globalThis.parent.length }, (_, i) => globalThis.parent[i])]
    : [];
  for (const other of around) {
    try {
      own.foretokenPage ??= (other as Named | undefined)?.foretokenPage;
    } catch {
      // a frame of another origin
    }
  }
  return (own.foretokenPage ??= randomId());
}

/** Returns the key of an engine; undefined for local files, which other widgets cannot share. */
function keyOf(wanted: Wanted): string | undefined {
  let own = false;
  const key = JSON.stringify(wanted, (_, value: unknown) => {
    if (value instanceof Blob || typeof value === "function") own = true;
    return value === null ? undefined : value;
  });
  return own ? undefined : key;
}
