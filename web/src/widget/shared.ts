/**
 * One engine for all widgets of a page that ask for the same models on the same device: loaded once, used in
 * turns, and freed when the last of them lets go. Engines take turns too, those of frames beside this one included:
 * there is one device, and two at once would halve what each measures.
 */
import { Engine, ForetokenError, type LoadOptions } from "../engine.ts";
import type { Progress } from "../protocol.ts";

/** What makes an engine another one. */
export type Wanted = Omit<LoadOptions, "onProgress" | "signal">;

type Loader = (options: LoadOptions) => Promise<Engine>;

class Shared {
  readonly holders = new Set<Hold>();
  readonly notices: Progress[] = [];
  readonly engine: Promise<Engine>;
  readonly cancel = new AbortController();
  latest: Progress | undefined;
  /** The end of the last turn that was asked for. */
  queue: Promise<void> = Promise.resolve();
  /** Turns that wait, or are being had. */
  turns = 0;
  /** Whose conversation the engine holds. */
  talker: Hold | undefined;

  constructor(key: string | undefined, wanted: Wanted, load: Loader) {
    const forget = (): void => {
      if (key !== undefined && engines.get(key) === this) engines.delete(key);
    };
    this.engine = (async () => {
      await Promise.all(ending); // two in memory at once may be one too many
      const engine = await load({ ...wanted, signal: this.cancel.signal, onProgress: (progress) => this.#tell(progress) });
      engine.onCrash(forget);
      return engine;
    })();
    this.engine.catch(forget);
    this.cancel.signal.addEventListener("abort", forget);
  }

  #tell(progress: Progress): void {
    if (progress.stage === "notice") this.notices.push(progress);
    else this.latest = progress;
    for (const holder of this.holders) holder.onProgress(progress);
  }

  /** The last holder has let go. */
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

/** A widget's share of an engine. */
export class Hold {
  /** Rejects with code "aborted" when this share is released before it is loaded. */
  readonly engine: Promise<Engine>;
  /** Others had it before. */
  readonly joined: boolean;
  readonly #shared: Shared;
  #released: Promise<void> | undefined;
  #refuse!: (error: ForetokenError) => void;

  constructor(
    wanted: Wanted,
    readonly onProgress: (progress: Progress) => void,
    load: Loader = (options) => Engine.load(options),
  ) {
    const key = keyOf(wanted);
    const known = key === undefined ? undefined : engines.get(key);
    this.joined = known !== undefined;
    this.#shared = known ?? new Shared(key, wanted, load);
    if (key !== undefined) engines.set(key, this.#shared);
    this.#shared.holders.add(this);
    this.engine = Promise.race([this.#shared.engine, new Promise<never>((_, reject) => (this.#refuse = reject))]);
    this.engine.catch(() => undefined);
    if (known) for (const progress of [...known.notices, ...(known.latest ? [known.latest] : [])]) onProgress(progress);
  }

  /**
   * Does `work` when all turns asked for before are over, and tells by `onWait` if it has to wait; rejects with code
   * "aborted" when `signal` comes first.
   */
  async turn<T>(work: () => Promise<T>, signal?: AbortSignal, onWait: () => void = () => undefined): Promise<T> {
    const shared = this.#shared;
    const before = shared.queue;
    let over!: () => void;
    const mine = new Promise<void>((resolve) => (over = resolve));
    shared.queue = before.then(() => mine); // those behind wait for what is ahead even if this one leaves
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

  /** Tells that a conversation of this holder goes on; false where another's took its place since. */
  talk(): boolean {
    const same = this.#shared.talker === this;
    this.#shared.talker = this;
    return same;
  }

  /** Lets go; resolves when the engine is freed, where this was the last. */
  release(): Promise<void> {
    this.#released ??= (async () => {
      this.#refuse(new ForetokenError("aborted", "loading was aborted"));
      this.#shared.holders.delete(this);
      if (this.#shared.holders.size === 0) await this.#shared.end();
    })();
    return this.#released;
  }
}

const stopped = (): ForetokenError => new ForetokenError("aborted", "stopped while waiting for another widget");

/** Does `work` while no other engine of this page, or of frames of this origin beside it, works. */
async function alone<T>(work: () => Promise<T>, signal: AbortSignal | undefined, onWait: () => void): Promise<T> {
  const locks = globalThis.navigator?.locks; // not on pages without a secure connection
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
    return work(); // a frame without an origin of its own has no locks
  }
}

interface Named {
  foretokenPage?: string | undefined;
}

/** What this page and the frames of this origin in it and beside it call themselves; each asks the others before it chooses. */
function pageName(): string {
  const own = globalThis as Named;
  const around = globalThis.parent ? [globalThis.parent, ...Array.from({ length: globalThis.parent.length }, (_, i) => globalThis.parent[i])] : [];
  for (const other of around) {
    try {
      own.foretokenPage ??= (other as Named | undefined)?.foretokenPage;
    } catch {
      // another origin's
    }
  }
  return (own.foretokenPage ??= crypto.randomUUID());
}

/** What names the engine; undefined where files were picked, which nobody else has. */
function keyOf(wanted: Wanted): string | undefined {
  let own = false;
  const key = JSON.stringify(wanted, (_, value: unknown) => {
    if (value instanceof Blob || typeof value === "function") own = true;
    return value === null ? undefined : value;
  });
  return own ? undefined : key;
}
