/** A promise with the functions that settle it. */
export interface Deferred {
  promise: Promise<void>;
  resolve(): void;
  reject(cause: unknown): void;
}

export function deferred(): Deferred {
  let resolve!: () => void;
  let reject!: (cause: unknown) => void;
  const promise = new Promise<void>((yes, no) => {
    resolve = yes;
    reject = no;
  });
  return { promise, resolve, reject };
}
