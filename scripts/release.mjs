/**
 * Writes build/release: what a release publishes, from the version of web/package.json and the files of HEAD.
 *
 *   node scripts/release.mjs REPOSITORY    the address of the published repository, https://HOST/OWNER/NAME
 *
 *   foretoken-V-source.tar.gz        the repository
 *   foretoken-V-OS-ARCH-cpu.tar.gz   the program without cgo, which runs models on the cpu device; .zip for Windows
 *   foretoken-V-OS-ARCH.tar.gz       the program of this machine with wgpu-native: it needs a C compiler of its system
 *   foretoken-V.tgz                  the npm package, of the one that `make package` left in build
 *   site                             the page for any static host, under any path
 *   foretoken.rb, Dockerfile         for Homebrew, of the source; for containers, of the Linux programs
 *   SHA256SUMS                       of the archives
 *
 * Every program is built from the unpacked source archive, and every archive is read again before the sums are
 * written: systems, processors, versions, texts, checksums, and whether `go install` takes the module.
 */
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { cpSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const out = path.join(root, "build", "release");
// The underscore keeps Go's tools out of it.
const work = path.join(root, "build", "_release");

/** Systems that programs without cgo are built for: any machine can build them. */
const SYSTEMS = [
  ["linux", "amd64"],
  ["linux", "arm64"],
  ["darwin", "amd64"],
  ["darwin", "arm64"],
  ["windows", "amd64"],
];

const read = (...parts) => readFileSync(path.join(...parts), "utf8");
export const sum = (file) => createHash("sha256").update(readFileSync(file)).digest("hex");
const run = (cwd, program, args, env = {}) =>
  execFileSync(program, args, {
    cwd,
    encoding: "utf8",
    maxBuffer: 1 << 28,
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
const must = (holds, message) => {
  if (!holds) throw new Error(`release: ${message}`);
};

/** The version that everything takes its own from. */
export function versionOf(folder) {
  const { version } = JSON.parse(read(folder, "web", "package.json"));
  must(/^\d+\.\d+\.\d+(-[\w.]+)?$/.test(version), `web/package.json: version ${JSON.stringify(version)} is none`);
  const lock = JSON.parse(read(folder, "web", "package-lock.json"));
  const again = "run npm install --ignore-scripts";
  for (const other of [lock.version, lock.packages[""].version])
    must(other === version, `web/package-lock.json has version ${other}, package.json ${version}: ${again}`);
  return version;
}

/** Complaints about a go.mod, as `go mod edit -json` reads it, that `go install` refuses. */
export const refused = (mod) =>
  ["Exclude", "Replace"].filter((key) => mod[key]?.length).map((key) => `go.mod: go install refuses ${key}`);

export const formula = ({ repository, version, sha256 }) => `class Foretoken < Formula
  desc "Speculative decoding of language models, on the GPU or the processor"
  homepage "${repository}"
  url "${repository}/releases/download/v${version}/foretoken-${version}-source.tar.gz"
  sha256 "${sha256}"
  license "Apache-2.0"

  depends_on "go" => :build

  def install
    # wgpu-native has no library for Linux on ARM: models run on the cpu device there.
    ENV["CGO_ENABLED"] = "0" if OS.linux? && Hardware::CPU.arm?
    system "go", "build", *std_go_args(ldflags: "-s -w -X foretoken/bench.version=#{version}"), "./cmd/foretoken"
    man1.mkpath
    system bin/"foretoken", "man", "--out", man1
    generate_completions_from_executable(bin/"foretoken", "completion")
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/foretoken version")
    said = shell_output("#{bin}/foretoken generate --device cpu --max-tokens 8 --prompt 'func main'")
    assert_match "func main", said
  end
end
`;

export const dockerfile = ({ repository, version }) => `# foretoken serve on the cpu device:
#   docker build -t foretoken build/release
#   docker run --rm -p 127.0.0.1:8080:8080 foretoken
FROM scratch
ARG TARGETARCH
LABEL org.opencontainers.image.source="${repository}" \\
      org.opencontainers.image.version="${version}" \\
      org.opencontainers.image.licenses="Apache-2.0"
ADD foretoken-${version}-linux-\${TARGETARCH}-cpu.tar.gz /
USER 65532:65532
EXPOSE 8080
ENTRYPOINT ["/foretoken-${version}/foretoken", "serve", "--addr", "0.0.0.0:8080"]
`;

/** How files of each kind write addresses. */
const ADDRESSES = {
  ".html": /\s(?:href|src)="([^"]*)"/g,
  ".css": /\burl\(["']?([^"')]*)/g,
  ".webmanifest": /"(?:src|start_url|scope)":\s*"([^"]*)"/g,
};

/** Addresses in the files of a folder that name no file of it, or that begin at the root of the host. */
export function strayLinks(folder) {
  const stray = [];
  for (const name of readdirSync(folder, { recursive: true }).filter((file) => ADDRESSES[path.extname(file)])) {
    for (const [, address] of read(folder, name).matchAll(ADDRESSES[path.extname(name)])) {
      const [file] = address.replaceAll("&amp;", "&").split(/[?#]/);
      if (/^[a-z][a-z0-9+.-]*:/i.test(address) || file === "") continue;
      const place = path.join(folder, path.dirname(name), decodeURI(file));
      if (file.startsWith("/") || !existsSync(place)) stray.push(`${name}: ${address}`);
    }
  }
  return stray;
}

/** Packs a folder as its own archive with git, which writes tar.gz and zip alike on every system. */
function pack(folder, file, prefix) {
  const git = (...args) => run(folder, "git", ["-c", "core.autocrlf=false", "-c", "core.hooksPath=", ...args], STAMP);
  git("init", "--quiet");
  git("add", "--all", "--force");
  git("-c", "commit.gpgsign=false", "commit", "--quiet", "--message=release");
  git("archive", `--prefix=${prefix}`, `--output=${file}`, "HEAD");
  rmSync(path.join(folder, ".git"), { recursive: true });
}

/** The author and the date of what pack commits; the date is that of HEAD, so that an archive is the same each time. */
const STAMP = {};
for (const who of ["AUTHOR", "COMMITTER"])
  Object.assign(STAMP, { [`GIT_${who}_NAME`]: "release", [`GIT_${who}_EMAIL`]: "release@localhost" });

function unpack(file, folder) {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  if (file.endsWith(".zip")) run(folder, "unzip", ["-q", file]);
  else run(folder, "tar", ["-xzf", file]);
  return folder;
}

/** The licences of the modules, and of Go, that a program is built from. */
function licences(source, env) {
  const list = ["list", "-deps", "-f", "{{with .Module}}{{.Path}} {{.Version}}\t{{.Dir}}{{end}}", "./cmd/foretoken"];
  const modules = new Set(run(source, "go", list, env).split("\n").filter((line) => /\S\t/.test(line)));
  const texts = [`The Go distribution\n\n${read(run(source, "go", ["env", "GOROOT"]).trim(), "LICENSE")}`];
  for (const [name, folder] of [...modules].sort().map((line) => line.split("\t"))) {
    if (name.trim() === "foretoken") continue; // LICENSE and NOTICE
    const files = readdirSync(folder).filter((file) => /^(licen[cs]e|notice|copying)/i.test(file));
    must(files.length > 0, `${name} has no licence`);
    for (const file of files) texts.push(`${name}\n\n${read(folder, file)}`);
  }
  return texts.join(`\n${"-".repeat(80)}\n`);
}

/** Builds the program for a system and packs it. */
function program(source, version, { os, arch, cgo }) {
  const env = { GOOS: os, GOARCH: arch, CGO_ENABLED: cgo ? "1" : "0" };
  const name = `foretoken-${version}-${os}-${arch}${cgo ? "" : "-cpu"}`;
  const stage = path.join(work, name);
  mkdirSync(stage);
  const binary = os === "windows" ? "foretoken.exe" : "foretoken";
  const flags = ["-trimpath", "-buildvcs=false", "-ldflags", `-s -w -X foretoken/bench.version=${version}`];
  run(source, "go", ["build", ...flags, "-o", path.join(stage, binary), "./cmd/foretoken"], env);
  for (const file of ["LICENSE", "NOTICE"]) cpSync(path.join(source, file), path.join(stage, file));
  writeFileSync(path.join(stage, "licenses.txt"), licences(source, env));
  const file = path.join(out, `${name}.${os === "windows" ? "zip" : "tar.gz"}`);
  pack(stage, file, `foretoken-${version}/`);
  console.log(`release: ${path.basename(file)}`);
  return { file, binary, os, arch, cgo };
}

/** Reads a packed program again, and runs it if this machine can. */
function tried({ file, binary, os, arch, cgo }, version, host) {
  const folder = path.join(unpack(file, path.join(work, "unpacked")), `foretoken-${version}`);
  const place = path.join(folder, binary);
  const built = run(folder, "go", ["version", "-m", place]);
  for (const setting of [`GOOS=${os}`, `GOARCH=${arch}`, `CGO_ENABLED=${cgo ? 1 : 0}`])
    must(built.includes(`\t${setting}\n`), `${path.basename(file)} was not built with ${setting}`);
  if (os !== host.os || arch !== host.arch) return undefined;
  const json = (...args) => JSON.parse(run(folder, place, [...args, "--json"]));
  must(json("version").version === version, `${path.basename(file)} says version ${json("version").version}`);
  const { devices, note } = json("devices");
  if (!cgo) {
    must(devices.every(({ backend }) => backend === "cpu"), `${path.basename(file)} lists a device besides the cpu`);
    must(/without cgo/.test(note), `${path.basename(file)} does not say why it takes the cpu: ${note}`);
  }
  const cpu = cgo ? ["--device", "cpu"] : []; // without cgo it is what auto takes
  return json("generate", ...cpu, "--max-tokens", "24", "--prompt", "func main() {").text;
}

/** Installs the module, under the path of its repository, from a proxy that has this version only. */
function install(source, module, version) {
  const mod = JSON.parse(run(source, "go", ["mod", "edit", "-json"]));
  must(refused(mod).length === 0, refused(mod).join("; "));
  const copy = path.join(work, "module");
  cpSync(source, copy, { recursive: true });
  run(copy, "go", ["mod", "edit", `-module=${module}`]);
  for (const name of readdirSync(copy, { recursive: true }).filter((file) => file.endsWith(".go"))) {
    const text = read(copy, name);
    const renamed = text.replace(/^(\s*(?:import\s+)?(?:[\w.]+\s+)?)"foretoken(\/[^"]*)?"$/gm, `$1"${module}$2"`);
    if (renamed !== text) writeFileSync(path.join(copy, name), renamed);
  }
  const escaped = module.replace(/[A-Z]/g, (letter) => `!${letter.toLowerCase()}`);
  const versions = path.join(work, "proxy", escaped, "@v");
  mkdirSync(versions, { recursive: true });
  cpSync(path.join(copy, "go.mod"), path.join(versions, `v${version}.mod`));
  writeFileSync(path.join(versions, "list"), `v${version}\n`);
  writeFileSync(path.join(versions, `v${version}.info`), JSON.stringify({ Version: `v${version}` }));
  pack(copy, path.join(versions, `v${version}.zip`), `${module}@v${version}/`);
  const [cache, proxies] = ["GOMODCACHE", "GOPROXY"].map((name) => run(source, "go", ["env", name]).trim());
  const bin = path.join(work, "bin");
  run(work, "go", ["install", "-trimpath", "-ldflags=-s -w", `${module}/cmd/foretoken@v${version}`], {
    GOBIN: bin,
    GOFLAGS: "-modcacherw",
    GOMODCACHE: path.join(work, "modules"),
    GOPROXY: [`file://${path.join(work, "proxy")}`, `file://${cache}/cache/download`, proxies].join(","),
    GONOSUMDB: module,
  });
  const said = JSON.parse(run(bin, path.join(bin, "foretoken"), ["version", "--json"]));
  must(said.version === `v${version}`, `go install built version ${said.version}`);
  console.log(`release: go install ${module}/cmd/foretoken@v${version} works`);
}

/** The npm package with the address of the repository, which npm's provenance is checked against. */
function npm(repository, version) {
  const from = path.join(root, "build", `foretoken-${version}.tgz`);
  must(existsSync(from), `${path.relative(root, from)} is missing: make package writes it`);
  const folder = path.join(unpack(from, path.join(work, "npm")), "package");
  const fields = [`repository.type=git`, `repository.url=git+${repository}.git`, "repository.directory=web"];
  run(folder, "npm", ["pkg", "set", ...fields, `homepage=${repository}#readme`, `bugs.url=${repository}/issues`]);
  run(folder, "npm", ["pack", "--ignore-scripts", "--silent", "--pack-destination", out]);
  const again = unpack(path.join(out, `foretoken-${version}.tgz`), path.join(work, "npm"));
  const packed = JSON.parse(read(again, "package", "package.json"));
  must(packed.version === version, `the npm package has version ${packed.version}`);
  must(packed.repository.url === `git+${repository}.git`, `the npm package is of ${packed.repository.url}`);
  console.log(`release: foretoken-${version}.tgz`);
}

/** The site without the compressed siblings, which hosts of pages make themselves. */
function site() {
  const from = path.join(root, "web", "dist");
  must(existsSync(path.join(from, "docs", "index.html")), "web/dist is not built: make site does it");
  const to = path.join(out, "site");
  cpSync(from, to, { recursive: true, filter: (file) => !/\.(br|gz)$/.test(file) });
  writeFileSync(path.join(to, ".nojekyll"), ""); // GitHub Pages then serves every file as it is
  const stray = strayLinks(to);
  must(stray.length === 0, `the site works under no other path, or lacks files:\n${stray.join("\n")}`);
  console.log("release: site");
}

function release(repository) {
  must(/^https:\/\/[\w.-]+(\/[\w.-]+)+$/.test(repository ?? ""), "want REPOSITORY=https://HOST/OWNER/NAME");
  must(run(root, "git", ["status", "--porcelain"]) === "", "files differ from HEAD, which is what is released: commit");
  const version = versionOf(root);
  for (const folder of [out, work]) {
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true });
  }
  STAMP.GIT_AUTHOR_DATE = STAMP.GIT_COMMITTER_DATE = run(root, "git", ["log", "-1", "--format=%cI"]).trim();
  npm(repository, version);
  site();
  const archive = path.join(out, `foretoken-${version}-source.tar.gz`);
  run(root, "git", ["archive", `--prefix=foretoken-${version}/`, `--output=${archive}`, "HEAD"]);
  const source = path.join(unpack(archive, path.join(work, "source")), `foretoken-${version}`);
  const [os, arch, cgo] = ["GOOS", "GOARCH", "CGO_ENABLED"].map((name) => run(root, "go", ["env", name]).trim());
  const wgpu = run(root, "go", ["list", "-m", "-f", "{{.Dir}}", "github.com/rajveermalviya/go-webgpu/wgpu"]).trim();
  const gpu = cgo === "1" && existsSync(path.join(wgpu, "lib", os, arch));
  const systems = SYSTEMS.map(([os, arch]) => ({ os, arch, cgo: false }));
  if (gpu) systems.push({ os, arch, cgo: true });
  const programs = systems.map((system) => program(source, version, system));
  const texts = programs.map((one) => tried(one, version, { os, arch })).filter((text) => text !== undefined);
  must(texts.length > 0, `nothing was built that runs on ${os}/${arch}`);
  must(texts.every((text) => text.length > 0 && text === texts[0]), `programs differ: ${JSON.stringify(texts)}`);
  install(source, repository.replace("https://", ""), version);

  writeFileSync(path.join(out, "foretoken.rb"), formula({ repository, version, sha256: sum(archive) }));
  writeFileSync(path.join(out, "Dockerfile"), dockerfile({ repository, version }));
  for (const one of ["amd64", "arm64"]) {
    const [, added] = /^ADD (\S+) \/$/m.exec(read(out, "Dockerfile").replace("${TARGETARCH}", one));
    must(existsSync(path.join(out, added)), `the Dockerfile adds ${added}, which is missing`);
  }
  const archives = readdirSync(out).filter((name) => /\.(tar\.gz|tgz|zip)$/.test(name));
  const sums = archives.map((name) => `${sum(path.join(out, name))}  ${name}\n`);
  writeFileSync(path.join(out, "SHA256SUMS"), sums.join(""));
  console.log(`release: version ${version} is in build/release`);
  if (!gpu) console.log(`release: without a program for GPUs: ${os}/${arch} has no cgo or no library of wgpu-native`);
  rmSync(work, { recursive: true, force: true });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  try {
    release(process.argv[2]);
  } catch (error) {
    console.error(error.stderr ? `${error.message}\n${error.stderr}` : error.message);
    process.exit(1);
  }
}
