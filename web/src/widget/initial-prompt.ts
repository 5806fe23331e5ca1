/** The prompt that a widget begins with. */
import FIRST_PROMPT from "foretoken:first-prompt";

export { FIRST_PROMPT };

/** Returns the initial prompt of a widget: its attribute, or the first example for the built-in pair. */
export function initialPrompt(host: HTMLElement): string {
  return host.getAttribute("prompt") ?? (host.hasAttribute("target") ? "" : FIRST_PROMPT);
}
