/** Trusted Types: a page that requires them starts scripts from addresses that a policy has approved. */

/** An address that a policy approved. */
export interface TrustedAddress {
  toString(): string;
  toJSON(): string;
}

interface Policies {
  createPolicy(
    name: string,
    rules: { createScriptURL(address: string): string },
  ): { createScriptURL(address: string): TrustedAddress };
  isScriptURL(value: unknown): value is TrustedAddress;
}

/** Undefined where the browser has no Trusted Types. */
const types = (): Policies | undefined => (globalThis as { trustedTypes?: Policies }).trustedTypes;

let policy: ReturnType<Policies["createPolicy"]> | undefined;

/**
 * Approves the address of one of the library's own scripts by the policy "foretoken". The policy passes every address,
 * so it never leaves this module, and callers never pass an address that the library was given. Where the page does not
 * allow the policy, the address stays a text, which the page's default policy may approve.
 */
export function trusted(address: string): string {
  try {
    policy ??= types()?.createPolicy("foretoken", { createScriptURL: String });
  } catch {
    return address;
  }
  return (policy?.createScriptURL(address) ?? address) as string; // DOM's types know strings only
}

/** Whether a policy of the page approved the address. */
export const isTrusted = (address: unknown): boolean => types()?.isScriptURL(address) ?? false;
