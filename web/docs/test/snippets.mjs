/** Type-checks code of the documentation: TypeScript against web/src, Go in a separate module. */
import { execFile } from "node:child_process";
import { promises as fs } from "node:fs";
import path from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);

/** @param {{ name: string, language: string, text: string }[]} snippets @returns {Promise<string>} errors, or "" */
export async function checkTypes(root, snippets) {
  // Below web/, so that imports find what web/package.json installs.
  const folder = path.join(root, "web", "docs", "node_modules", ".cache", "snippets");
  await fs.rm(folder, { recursive: true, force: true });
  await fs.mkdir(folder, { recursive: true });
  const source = path.join(root, "web", "src");
  const config = {
    extends: path.join(root, "web", "tsconfig.json"),
    compilerOptions: {
      typeRoots: [path.join(root, "web", "node_modules", "@types")],
      noUnusedLocals: false,
      noUnusedParameters: false,
      jsx: "react-jsx",
      paths: { foretoken: [path.join(source, "foretoken.ts")], "foretoken/react": [path.join(source, "react.ts")] },
    },
    include: ["*.ts", "*.tsx", path.join(source, "assets.d.ts")],
  };
  await fs.writeFile(path.join(folder, "tsconfig.json"), JSON.stringify(config));
  await fs.writeFile(
    path.join(folder, "foretoken-frame.ts"),
    `export * from ${JSON.stringify(path.join(source, "embed", "frame.ts"))};\n`,
  );
  await fs.writeFile(
    path.join(folder, "foretoken.ts"),
    `export * from ${JSON.stringify(path.join(source, "foretoken.ts"))};\n`,
  );
  for (const { name, language, text } of snippets) {
    const file = `${name.replace(/\W+/g, "-")}.${language === "tsx" ? "tsx" : "ts"}`;
    await fs.writeFile(path.join(folder, file), `${text}\nexport {};\n`);
  }
  const tsc = path.join(root, "web", "node_modules", ".bin", "tsc");
  return output(run(tsc, ["--noEmit", "-p", "tsconfig.json"], { cwd: folder }));
}

/** @param {{ name: string, text: string }[]} snippets complete programs */
export async function checkGo(root, folder, snippets) {
  const requires = (await fs.readFile(path.join(root, "go.mod"), "utf8")).replace(/^module .*$/m, "module example");
  await fs.mkdir(folder, { recursive: true });
  await fs.writeFile(
    path.join(folder, "go.mod"),
    `${requires}\nrequire foretoken v0.0.0\nreplace foretoken => ${root}\n`,
  );
  await fs.copyFile(path.join(root, "go.sum"), path.join(folder, "go.sum"));
  for (const { name, text } of snippets) {
    const place = path.join(folder, name.replace(/\W+/g, "-"));
    await fs.mkdir(place);
    await fs.writeFile(path.join(place, "main.go"), text);
  }
  return output(
    run("go", ["vet", "./..."], {
      cwd: folder,
      env: { ...process.env, GOFLAGS: "-mod=mod", GOPROXY: "off", GOWORK: "off" },
    }),
  );
}

async function output(running) {
  try {
    await running;
    return "";
  } catch (error) {
    return `${error.stdout}${error.stderr}` || String(error);
  }
}
