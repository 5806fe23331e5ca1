/** The part of React that react.ts uses, for this repository's checks; users of the package have React's own types. */
declare module "react" {
  type Next<S> = S | ((before: S) => S);
  export function useState<S>(initial: S): [S, (next: Next<S>) => void];
  export function useRef<T>(initial: T): { current: T };
  export function useEffect(effect: () => void | (() => void), dependencies?: readonly unknown[]): void;
  export function useMemo<T>(make: () => T, dependencies: readonly unknown[]): T;
  export interface HTMLAttributes<T> {
    children?: unknown;
    className?: string | undefined;
    onClick?: ((event: { currentTarget: T }) => void) | undefined;
  }
  export type DetailedHTMLProps<A extends HTMLAttributes<T>, T> = A & {
    key?: string;
    ref?: { current: T | null } | ((element: T | null) => void | (() => void));
  };
  export namespace JSX {
    interface IntrinsicElements {
      button: HTMLAttributes<HTMLButtonElement> & { type?: string; disabled?: boolean };
      main: HTMLAttributes<HTMLElement>;
      p: HTMLAttributes<HTMLParagraphElement>;
      pre: HTMLAttributes<HTMLPreElement>;
    }
  }
}

declare module "react/jsx-runtime" {
  export { JSX } from "react";
  export const jsx: (type: unknown, props: unknown) => unknown;
  export const jsxs: typeof jsx;
}
