/**
 * What is made of the table of settings (foretoken.Settings, as `go run ./wasm` prints it): the type of a request in
 * TypeScript, and the tables of the documentation.
 *
 *   node scripts/settings.mjs write    rewrite them
 *   node scripts/settings.mjs check    fail where one differs
 *
 * A page marks a table, and nothing between the marks is written by hand:
 *
 *   <!-- settings: GROUP ... -->   ends with a line <!-- /settings -->
 */
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { pagesOf } from "./reports.mjs";

const TYPES = "web/src/protocol/settings.ts";
const BLOCK = /^(<!-- settings: (.+) -->)\n[^]*?^<!-- \/settings -->$/gm;

const attribute = (name) => name.replaceAll("_", "-");
const sentence = (text) => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;

/** Breaks a text at spaces into lines of a comment. */
function comment(text) {
  const lines = [""];
  for (const word of text.split(" ")) {
    if (lines.at(-1).length + word.length > 112) lines.push("");
    lines[lines.length - 1] += (lines.at(-1) ? " " : "") + word;
  }
  return lines.length > 1 ? `/**\n${lines.map((line) => `   * ${line}`).join("\n")}\n   */` : `/** ${text} */`;
}

/** Describes the values that a setting takes. */
export function valuesOf({ choices, type, whole, least, most, zero }) {
  if (choices) return choices.map((name) => `\`${name}\``).join(", ");
  if (most > least) {
    const end = most === Number.MAX_VALUE ? "or more" : most === 2 ** 31 - 1 ? "or more" : `to ${most}`;
    return zero === undefined ? `${least} ${end}` : `0 (${zero})${least ? ` or ${least}` : ""} ${end}`;
  }
  const kinds = {
    boolean: "true or false",
    string: "a text",
    number: whole ? "a whole number" : "a number",
    object: "an object",
    "string[]": "texts",
    "number[]": "whole numbers",
    "number[][]": "lists of whole numbers",
    "Record<string, number>": "numbers by token id",
  };
  return kinds[type.replace(" | null", "")];
}

/** Describes a setting that is not set. */
function unsetOf({ name, unset, type }, request) {
  if (unset !== undefined) return unset;
  return type === "boolean" ? "off" : String(request[name] ?? "");
}

/** The type of a request's settings, and the names of the attributes. */
export function typesOf(settings) {
  const members = settings.map((setting) => {
    const { name, type, help, choices, most, least, for: parts } = setting;
    let text = sentence(help);
    if ((choices && choices.length < 9) || most > least) text += ` Takes ${valuesOf(setting).replaceAll("`", "")}.`;
    if (parts) text += ` Read by ${parts.join(", ")}.`;
    return `  ${comment(text)}\n  ${name}?: ${type};`;
  });
  const names = settings.filter(({ name, label }) => label || name === "policy").map(({ name }) => attribute(name));
  return [
    "/** Made of Go's table of settings by `make settings`; nothing in it is written by hand. */",
    "",
    "/** The settings of a request. */",
    `export interface RequestSettings {\n${members.join("\n")}\n}`,
    "",
    "/** The attributes that set them. */",
    "export const SETTINGS = [",
    ...names.map((name) => `  "${name}",`),
    "] as const;",
    "",
  ].join("\n");
}

/** A table of the settings of groups. */
export function tableOf({ settings, default: request }, groups) {
  const rows = settings.filter(({ group }) => groups.includes(group));
  if (rows.length === 0) throw new Error(`no setting is of ${groups.join(" or ")}`);
  const lines = [
    ["setting", "takes", "unless set", ""],
    ["---", "---", "---", "---"],
    ...rows.map((row) => {
      const flag = row.flag === "-" ? undefined : row.flag && `--${row.flag}`;
      const names = [row.name, flag, row.api].filter(Boolean);
      const choices = row.choices?.length > 8 ? "names" : valuesOf(row);
      const by = row.for?.length === 1 ? `${row.for[0]}: ` : "";
      return [names.map((name) => `\`${name}\``).join(", "), choices, unsetOf(row, request), by + row.help];
    }),
  ];
  return lines.map((cells) => `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`).join("\n");
}

/** Rewrites the files, or with `check` only compares. Returns complaints. */
function files(root, check) {
  const catalog = JSON.parse(execFileSync("go", ["run", "./wasm"], { cwd: root, encoding: "utf8" }));
  const wrong = [];
  const put = (file, made) => {
    const full = path.join(root, file);
    if (readFileSync(full, "utf8") === made) return;
    if (check) wrong.push(`${file} differs from the table of settings; run make settings`);
    else writeFileSync(full, made);
  };
  put(TYPES, typesOf(catalog.settings));
  for (const page of pagesOf(root))
    put(
      page,
      readFileSync(path.join(root, page), "utf8").replace(
        BLOCK,
        (_, open, groups) => `${open}\n\n${tableOf(catalog, groups.split(" "))}\n\n<!-- /settings -->`,
      ),
    );
  return wrong;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
  const [command] = process.argv.slice(2);
  if (command !== "write" && command !== "check") throw new Error("want write or check");
  const wrong = files(root, command === "check");
  for (const line of wrong) console.error(`settings: ${line}`);
  process.exitCode = wrong.length ? 1 : 0;
}
