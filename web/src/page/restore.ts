/**
 * Keeps prompt, settings, models and conversation over a reload, in the tab's own storage. The address keeps the tab.
 * Files of the visitor's disk cannot be kept. A reload asks no host that a click of this tab did not confirm.
 */
import type { WidgetApp } from "../widget/app.ts";
import type { Talk } from "../widget/chat.ts";
import type { ForetokenWidget } from "../widget/element.ts";
import type { Models } from "../widget/picker.ts";
import { linkOf, readShared } from "./share.ts";
import { isReload, showMessage } from "./toolbar.ts";

const KEY = "foretoken-reload";

interface Kept {
  prompt: string;
  /** The settings as a shared link has them; undefined if one was invalid. */
  settings?: string | undefined;
  chosen?: Models | undefined;
  confirmed: string[];
  /** Whether the models were files of the visitor's disk. */
  local: boolean;
  talk: Talk;
}

/** Restores what a reload left, before the models load, and keeps it for the next one. */
export async function restored(widget: ForetokenWidget): Promise<void> {
  const app = await widget.open();
  try {
    const text = isReload() ? sessionStorage.getItem(KEY) : null;
    if (text) await restore(app, JSON.parse(text) as Kept);
  } catch {
    // Without storage, or from another build: the page starts as on a first visit.
  }
  const keep = (): void => {
    try {
      sessionStorage.setItem(KEY, JSON.stringify(keptOf(app)));
    } catch {
      // No storage, or no space in it.
    }
  };
  addEventListener("pagehide", keep);
  widget.addEventListener("foretoken-done", () => setTimeout(keep)); // after the conversation got the answer
  widget.addEventListener("foretoken-forgot", keep);
}

async function restore(app: WidgetApp, kept: Kept): Promise<void> {
  const { prompt, settings, chosen, confirmed, local, talk } = kept;
  app.models = { chosen, confirmed };
  app.talk = talk;
  app.prompt = prompt;
  if (settings) app.restore(prompt, (await readShared(settings)).settings);
  if (local) showMessage("The models came from your disk. Choose their files again, under Settings, Models.");
}

function keptOf(app: WidgetApp): Kept {
  const { chosen, confirmed } = app.models;
  const local = Object.values(chosen ?? {})
    .flat()
    .some((value) => value instanceof Blob);
  let settings: string | undefined;
  try {
    settings = new URL(linkOf({ ...app.chosen, prompt: "" }, location.href)).hash;
  } catch {
    // The settings of the form are invalid now.
  }
  const { prompt, talk } = app;
  return { prompt, settings, chosen: local ? undefined : chosen, confirmed, local, talk };
}
