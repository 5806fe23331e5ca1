/** The tree that the panel shows: of the latest round that drafted, in the latest generation. */
import type { Generation } from "../engine/generation.ts";
import { ForetokenError } from "../protocol/errors.ts";
import type { EventTree, RoundEvent } from "../protocol/protocol.ts";
import type { Panel } from "./panel.ts";

export class LastTree {
  readonly #panel: Panel;
  /** The latest generation: of the text, of an answer or of a comparison. */
  #run: Pick<Generation, "trace"> | undefined;
  #tree: EventTree | undefined;

  constructor(panel: Panel) {
    this.#panel = panel;
    panel.onTree = () => void this.recall();
    this.draw();
  }

  /** Whether rounds should come with their trees. */
  get wanted(): boolean {
    return this.#panel.showsTree;
  }

  follow<R extends Pick<Generation, "trace">>(run: R): R {
    this.#run = run;
    this.#tree = undefined;
    return run;
  }

  add({ tree }: Pick<RoundEvent, "tree">): void {
    if (tree && tree.tokens.length > 1) this.#tree = tree;
  }

  draw(): void {
    this.#panel.drawTree(this.#tree);
  }

  /** Returns the rounds of the latest generation with their trees, once it has ended; see {@link Generation.trace}. */
  async trace(): Promise<Uint8Array> {
    if (!this.#run) throw new ForetokenError("disposed", "the widget has generated nothing");
    return this.#run.trace();
  }

  /** Draws the last tree of a generation whose rounds came without, once it has ended. */
  async recall(): Promise<void> {
    const run = this.#run;
    if (!run || this.#tree || !this.wanted) return;
    try {
      const [{ readTrace }, bytes] = await Promise.all([import("../protocol/trace.ts"), run.trace()]);
      if (run !== this.#run) return;
      readTrace(bytes).rounds.forEach((round) => this.add(round));
    } catch {
      return; // the engine went on to other work
    }
    this.draw();
  }
}
