/** Checks that commands, flags, targets, tests, files and folders in the inline code of the documentation exist. */
import { execFile } from "node:child_process";
import { existsSync, promises as fs } from "node:fs";
import path from "node:path";
import { promisify } from "node:util";
import { OTHERS_FLAGS } from "./fixtures.mjs";

const run = promisify(execFile);

/** Returns the flags of each command by name ("bench verify-cost"), from the manual pages. */
export async function commandsOf(binary, folder) {
  await run(binary, ["man", "--out", folder]);
  const commands = new Map();
  for (const name of await fs.readdir(folder)) {
    const page = (await fs.readFile(path.join(folder, name), "utf8")).replaceAll("\\-", "-");
    commands.set(name, new Set(page.match(/--[a-z][a-z0-9-]*/g)));
  }
  const named = new Map();
  for (const [name, flags] of commands) named.set(name.replace(/^foretoken-?/, "").replace(/\.1$/, ""), flags);
  return named;
}

/** @returns {Promise<string>} the error of a piece of inline code, or "" */
export async function complaint(text, { commands, tests, root }) {
  const words = text.split(/\s+/);
  if (words[0] === "foretoken" && /^[a-z]/.test(words[1] ?? "")) {
    let name = words[1];
    if (commands.has(`${name}-${words[2]}`)) name += `-${words[2]}`;
    if (!commands.has(name) && name !== "help") return `unknown command ${words[1]}`;
    const flags = commands.get(name);
    for (const word of words)
      if (/^--[a-z]/.test(word) && flags && !flags.has(word.split("=")[0]))
        return `foretoken ${name.replace("-", " ")} has no flag ${word}`;
  } else if (text.startsWith("--foretoken-")) {
    const styles = await fs.readFile(path.join(root, "web", "src", "styles", "theme.css"), "utf8");
    if (!styles.includes(`var(${text},`)) return "the widget has no such custom property";
  } else if (/^--[a-z]/.test(words[0])) {
    const flag = words[0].split("=")[0];
    if (!OTHERS_FLAGS.includes(flag) && ![...commands.values()].some((flags) => flags.has(flag)))
      return `no command has the flag ${flag}`;
  } else if (words[0] === "make" && words.length > 1) {
    return run(
      "make",
      [
        "-n",
        ...text
          .match(/(?:[^\s"]|"[^"]*")+/g)
          .slice(1)
          .map((word) => word.replaceAll('"', "")),
      ],
      { cwd: root },
    ).then(
      () => "",
      (error) => `make: ${error.stderr.trim()}`,
    );
  } else if (/\bgo test\b/.test(text)) {
    for (const [, pattern] of text.matchAll(/-(?:run|bench|fuzz)[ =]'?([^\s']+)/g)) {
      for (const part of pattern.split(/[|/]/).filter((part) => /^\w+$/.test(part) && part !== "xxx")) {
        if (!tests.some((name) => name.includes(part))) return `no test is named ${part}`;
      }
    }
  } else if (
    /^(bench|fit|web|webgpu|models|spec|cmd|wasm|docs|scripts)(\/[\w.-]+)+$/.test(text) &&
    !text.startsWith("web/dist/")
  ) {
    if (!existsSync(path.join(root, text))) return "no such file or folder";
  }
  return "";
}

/** Returns the names of all tests, benchmarks and fuzz targets, and of their literal cases. */
export async function testsOf(root) {
  const { stdout } = await run("git", ["grep", "-hoE", "func (Test|Benchmark|Fuzz)[A-Za-z0-9_]+", "--", "*_test.go"], {
    cwd: root,
    maxBuffer: 16 << 20,
  });
  return stdout.split("\n").map((line) => line.replace("func ", ""));
}
