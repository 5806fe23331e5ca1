/**
 * Runs the documentation's commands with bash, in a folder with the files that they name. Programs of the same names
 * replace the real ones, to make commands quick and to keep them off the network.
 */
import { execFile, spawn } from "node:child_process";
import { promises as fs } from "node:fs";
import os from "node:os";
import path from "node:path";
import readline from "node:readline";
import { promisify } from "node:util";
import { FILES, FLAGS, MADE } from "./fixtures.mjs";

const run = promisify(execFile);

/** Builds the program and the models once; `folder` is removed by `stop`. */
export async function workshop(root) {
  const folder = await fs.mkdtemp(path.join(os.tmpdir(), "foretoken-docs-"));
  const binary = path.join(folder, "foretoken");
  const models = path.join(folder, "models");
  await run("go", ["build", "-o", binary, "./cmd/foretoken"], { cwd: root });
  await run("go", ["run", "./web/docs/test/models", models], { cwd: root });
  await run(binary, [
    "convert",
    path.join(models, "big.gguf"),
    "-o",
    path.join(models, "model-f16.gguf"),
    "--type",
    "f16",
  ]);
  const bin = path.join(folder, "bin");
  await fs.mkdir(bin);
  for (const [name, text] of Object.entries(stand(root, binary, bin)))
    await fs.writeFile(path.join(bin, name), text, { mode: 0o755 });
  return { folder, binary, models, bin, root, stop: () => fs.rm(folder, { recursive: true }) };
}

/** The replacement programs, which come first in PATH. */
function stand(root, binary, bin) {
  const cases = FLAGS.map(
    ({ command, flags }) =>
      `  ${command
        .split("*")
        .map((part) => `"${part}"`)
        .join("*")}*) exec "${binary}" "$@" ${flags} ;;`,
  ).join("\n");
  return {
    foretoken: `#!/bin/bash
case " $* " in *" --help "*) exec "${binary}" "$@" ;; esac
case "$*" in
${cases}
  *) exec "${binary}" "$@" ;;
esac
`,
    // Programs of this repository are already built. Other targets run the Go tests, so here they only have to compile.
    go: `#!/bin/bash
real=$(PATH="\${PATH#*:}" command -v go)
case "$1 $2" in
  "run ./cmd/foretoken") shift 2; exec "${bin}/foretoken" "$@" ;;
  "build -o") [ "$4" = ./cmd/foretoken ] || exit 9; exec cp "${bin}/foretoken" "$3" ;;
esac
cd "${root}"
if [ "$1" = test ]; then
  packages=()
  for argument; do case "$argument" in ./*|.) packages+=("$argument") ;; esac; done
  exec "$real" vet "\${packages[@]}"
fi
exec "$real" "$@"
`,
    make: `#!/bin/bash
real=$(PATH="\${PATH#*:}" command -v make)
exec "$real" -n --no-print-directory -C "${root}" "$@"
`,
    curl: `#!/bin/bash
real=$(PATH="\${PATH#*:}" command -v curl)
arguments=()
for argument; do arguments+=("\${argument//127.0.0.1:8080/127.0.0.1:$SERVED_PORT}"); done
exec "$real" --silent --show-error --fail-with-body --max-time 600 "\${arguments[@]}"
`,
  };
}

/** Runs one page's commands in order, in one folder. */
export class Session {
  constructor(shop, page) {
    this.shop = shop;
    this.page = page;
    this.port = "";
  }

  /** Copies the files that the page names into its folder. */
  async open(text) {
    this.folder = await fs.mkdtemp(path.join(this.shop.folder, "page-"));
    for (const [name, { model, text: content }] of Object.entries(FILES)) {
      if (MADE[this.page]?.includes(name) || !(text.includes(name) || name.startsWith("big-"))) continue;
      const place = path.join(this.folder, name);
      if (model) await fs.cp(path.join(this.shop.models, model), place, { recursive: true });
      else await fs.writeFile(place, content);
    }
  }

  get #environment() {
    const { folder } = this;
    return {
      ...process.env,
      GOPATH: process.env.GOPATH ?? path.join(os.homedir(), "go"),
      GOCACHE: process.env.GOCACHE ?? path.join(os.homedir(), ".cache", "go-build"),
      HOME: folder,
      XDG_CACHE_HOME: path.join(folder, ".cache"),
      PATH: `${this.shop.bin}:${process.env.PATH}`,
      SERVED_PORT: this.port,
      NO_COLOR: "1",
    };
  }

  /** Runs a block and returns { code, out, err }. */
  async run(text) {
    try {
      const { stdout, stderr } = await run("bash", ["-c", `set -euo pipefail\n${text}`], {
        cwd: this.folder,
        env: this.#environment,
        timeout: 30 * 60_000,
        maxBuffer: 16 << 20,
      });
      return { code: 0, out: stdout, err: stderr };
    } catch (error) {
      if (typeof error.code !== "number") throw error;
      return { code: error.code, out: error.stdout, err: error.stderr };
    }
  }

  /** Replaces the running server, and waits until the new one answers. */
  async serve(text) {
    await this.close();
    // bash execs the server, so that signals reach it.
    this.child = spawn("bash", ["-c", `exec ${text.trim()}`], {
      cwd: this.folder,
      env: this.#environment,
      stdio: ["ignore", "pipe", "pipe"],
    });
    let err = "";
    this.child.stderr.on("data", (data) => (err += data));
    this.ended = new Promise((resolve) => this.child.once("exit", resolve));
    const ready = (async () => {
      for await (const line of readline.createInterface({ input: this.child.stdout })) {
        const event = JSON.parse(line);
        if (event.event === "ready") return new URL(event.url).port;
      }
      throw new Error(`the server ended before it was ready: ${err}`);
    })();
    this.port = await ready;
    this.child.stdout.resume();
  }

  async close() {
    if (!this.child) return;
    this.child.kill("SIGTERM");
    await this.ended;
    this.child = undefined;
    this.port = "";
  }
}
