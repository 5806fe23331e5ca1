/**
 * Tokenizers beside llama.cpp's, of the package node-llama-cpp in build/llama: how many texts get the same ids.
 *
 *   node scripts/tokenizers.mjs FILE       writes a report: each pre-tokenizer, on the texts of
 *                                          models/tokenizer/testdata/words.json, and each real vocabulary that comes
 *                                          with llama.cpp, on English, Go and text in many languages
 *   node scripts/tokenizers.mjs --record   writes llama.cpp's ids of those texts into words.json
 *
 * The vocabularies are put in build/llama/vocab and the chat templates in build/llama/templates, where the tests find
 * them. English and Go are this repository's, the languages those of Debian's manual pages.
 */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import os from "node:os";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { gunzipSync } from "node:zlib";

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const packages = path.join(root, "build/llama/node_modules");
const vocabularies = path.join(root, "build/llama/vocab");
const templates = path.join(root, "build/llama/templates");
const words = path.join(root, "models/tokenizer/testdata/words.json");
const SHARE = 270_000; // bytes of English, of Go and of other languages
const PIECE = 4_000; // characters: llama.cpp's expressions need much stack

const run = (program, args, options) =>
  execFileSync(program, args, { cwd: root, encoding: "utf8", maxBuffer: 1 << 30, ...options });

/** Clones llama.cpp out of the package, puts its vocabularies and templates in place, and returns the source of its
 * tokenizers. */
function source() {
  const folder = mkdtempSync(path.join(os.tmpdir(), "foretoken-llama-"));
  try {
    const git = (...args) => run("git", ["-C", folder, ...args], { encoding: "buffer" });
    const bundle = path.join(packages, "node-llama-cpp/llama/gitRelease.bundle");
    run("git", ["clone", "--quiet", "--bare", bundle, folder]);
    for (const [to, from, pattern] of [
      [vocabularies, "models/", /ggml-vocab-/],
      [templates, "models/templates/", /\.jinja$/],
    ]) {
      mkdirSync(to, { recursive: true });
      for (const name of git("ls-tree", "--name-only", "HEAD", from).toString().split("\n")) {
        const file = path.join(to, path.basename(name));
        if (pattern.test(name) && !existsSync(file)) writeFileSync(file, git("show", `HEAD:${name}`));
      }
    }
    return git("show", "HEAD:src/llama-vocab.cpp").toString();
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** A function that tokenizes texts by llama.cpp with the vocabulary of a file. */
async function llama() {
  const at = createRequire(path.join(packages, "x.js")).resolve("node-llama-cpp");
  const { getLlama } = await import(pathToFileURL(at));
  const engine = await getLlama({ gpu: false, build: "never", logLevel: "disabled" });
  return async (file, texts) => {
    const model = await engine.loadModel({ modelPath: file, vocabOnly: true });
    const ids = texts.map((text) => [...model.tokenize(text)]);
    await model.dispose();
    return ids;
  };
}

/** One value of a GGUF file: its type and bytes. */
function gguf(value) {
  const number = (size, write, n) => {
    const b = Buffer.alloc(size);
    b[write](n);
    return b;
  };
  const u32 = (n) => number(4, "writeUInt32LE", n);
  const u64 = (n) => number(8, "writeBigUInt64LE", BigInt(n));
  const text = (s) => Buffer.concat([u64(Buffer.byteLength(s)), Buffer.from(s)]);
  if (typeof value === "string") return Buffer.concat([u32(8), text(value)]);
  if (typeof value === "boolean") return Buffer.concat([u32(7), Buffer.from([Number(value)])]);
  if (typeof value === "number")
    return Buffer.concat(Number.isInteger(value) ? [u32(4), u32(value)] : [u32(6), number(4, "writeFloatLE", value)]);
  const strings = typeof value[0] === "string";
  const parts = strings ? value.map(text) : value.map((n) => number(4, "writeInt32LE", n));
  return Buffer.concat([u32(9), u32(strings ? 8 : 5), u64(value.length), ...parts]);
}

function writeGGUF(file, metadata) {
  const head = Buffer.alloc(24);
  head.write("GGUF");
  head.writeUInt32LE(3, 4);
  head.writeBigUInt64LE(BigInt(Object.keys(metadata).length), 16);
  const parts = Object.entries(metadata).flatMap(([key, value]) => {
    const length = Buffer.alloc(8);
    length.writeBigUInt64LE(BigInt(Buffer.byteLength(key)));
    return [length, Buffer.from(key), gguf(value)];
  });
  writeFileSync(file, Buffer.concat([head, ...parts]));
}

/** GPT-2's spelling of bytes. */
const alphabet = (() => {
  let next = 256;
  return Array.from({ length: 256 }, (_, b) =>
    String.fromCodePoint((b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174 ? b : next++),
  );
})();

const byteTokens = Array.from({ length: 256 }, (_, b) => `<0x${b.toString(16).toUpperCase().padStart(2, "0")}>`);

/** Merges that make each row one token: pairs of ids, of which the nth gives the id first + n. */
function train(rows, first) {
  const merges = [];
  for (;;) {
    const counts = new Map();
    for (const row of rows)
      for (let i = 1; i < row.length; i++) {
        const pair = `${row[i - 1]} ${row[i]}`;
        counts.set(pair, (counts.get(pair) ?? 0) + 1);
      }
    if (counts.size === 0) return merges;
    const [best] = [...counts].reduce((a, b) => (b[1] > a[1] ? b : a));
    const [left, right] = best.split(" ").map(Number);
    const id = first + merges.length;
    merges.push([left, right]);
    for (const row of rows)
      for (let i = 1; i < row.length; i++)
        if (row[i - 1] === left && row[i] === right) row.splice(i - 1, 2, id);
  }
}

/** Two vocabularies over the texts: of bytes in GPT-2's spelling, and of characters with byte tokens. */
function vocabulariesOf(texts) {
  const characters = [...new Set(texts.join("").replaceAll(" ", "▁"))];
  const plain = new Map(characters.map((c, i) => [c, 256 + i]));
  const made = {
    bytes: { tokens: [...alphabet], rows: texts.map((text) => [...Buffer.from(text)]) },
    characters: {
      tokens: [...byteTokens, ...characters],
      rows: texts.map((text) => [...text.replaceAll(" ", "▁")].map((c) => plain.get(c))),
    },
  };
  return Object.fromEntries(
    Object.entries(made).map(([name, { tokens, rows }]) => [name, { tokens, merges: train(rows, tokens.length) }]),
  );
}

/** The metadata of a vocabulary for a pre-tokenizer. */
function metadata({ tokens, merges }, pre) {
  const all = [...tokens];
  const lines = merges.map(([left, right]) => {
    all.push(all[left] + all[right]);
    return `${all[left]} ${all[right]}`;
  });
  all.push("<end>");
  return {
    "general.architecture": "llama",
    "llama.context_length": 8,
    "llama.embedding_length": 8,
    "llama.block_count": 1,
    "llama.feed_forward_length": 8,
    "llama.attention.head_count": 1,
    "llama.attention.layer_norm_rms_epsilon": 1e-5,
    "tokenizer.ggml.model": pre === "whitespace" ? pre : "gpt2",
    "tokenizer.ggml.pre": pre,
    "tokenizer.ggml.tokens": all,
    "tokenizer.ggml.token_type": all.map((text, id) => (id === all.length - 1 ? 3 : /^<0x..>$/.test(text) ? 6 : 1)),
    "tokenizer.ggml.merges": lines,
    "tokenizer.ggml.bos_token_id": all.length - 1,
    "tokenizer.ggml.eos_token_id": all.length - 1,
    "tokenizer.ggml.add_bos_token": false,
  };
}

const PLAIN = ["gemma4", "granite-embed-multi-311m", "sarvam-moe", "whitespace"]; // over characters

/** Writes words.json: the vocabularies, and llama.cpp's ids of each text by pre-tokenizer. */
async function record(names, tokenize) {
  const { texts } = JSON.parse(readFileSync(words, "utf8"));
  const made = vocabulariesOf(texts);
  const folder = mkdtempSync(path.join(os.tmpdir(), "foretoken-words-"));
  const answers = texts.map(() => ({ ids: [], of: [] }));
  try {
    for (const name of names) {
      const file = path.join(folder, "vocab.gguf");
      writeGGUF(file, metadata(PLAIN.includes(name) ? made.characters : made.bytes, name));
      for (const [i, ids] of (await tokenize(file, texts)).entries()) {
        const line = ids.join(" ");
        const known = answers[i].ids.indexOf(line);
        answers[i].of.push(known < 0 ? answers[i].ids.push(line) - 1 : known);
      }
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
  const merges = (of) => of.merges.map((pair) => pair.join(" "));
  const out = {
    texts,
    names,
    characters: made.characters.tokens.slice(256).join(""),
    merges: { bytes: merges(made.bytes).join(","), characters: merges(made.characters).join(",") },
    answers: answers.map(({ ids, of }) => ({ ids, of: of.join(" ") })),
  };
  writeFileSync(words, `${JSON.stringify(out, null, 1)}\n`);
}

/** Texts of at most PIECE characters, cut behind line ends. */
function pieces(text) {
  const out = [""];
  for (const line of text.split(/(?<=\n)/)) {
    if (out.at(-1).length + line.length > PIECE) out.push("");
    out[out.length - 1] += line.slice(0, PIECE);
  }
  return out.filter(Boolean);
}

/** The first SHARE bytes of texts, about. */
function share(texts) {
  let left = SHARE;
  return texts.flatMap((text) => (left -= Buffer.byteLength(text)) + Buffer.byteLength(text) > 0 ? pieces(text) : []);
}

/** English, Go, and the languages of manual pages in turns. */
function corpora() {
  const tracked = (...patterns) => run("git", ["ls-files", ...patterns]).trim().split("\n");
  const read = (name) => readFileSync(path.join(root, name), "utf8");
  const man = "/usr/share/man";
  const languages = readdirSync(man).filter((name) => /^[a-z]{2}(_[A-Z]{2})?$/.test(name));
  const pages = languages.map((language) => {
    const folder = path.join(man, language, "man1");
    const names = existsSync(folder) ? readdirSync(folder).filter((name) => name.endsWith(".gz")) : [];
    return names.sort().map((name) => gunzipSync(readFileSync(path.join(folder, name))).toString().slice(0, 3 * PIECE));
  });
  const turns = Array.from({ length: 50 }, (_, i) => pages.flatMap((of) => of[i] ?? []));
  return {
    english: share(tracked("*.md").map(read)),
    go: share(tracked("*.go").map(read)),
    mixed: share(turns.flat()),
  };
}

/** What the program ids makes of each file's texts. */
function ours(questions) {
  const folder = mkdtempSync(path.join(os.tmpdir(), "foretoken-ids-"));
  try {
    const program = path.join(folder, "ids");
    run(process.env.GO || "go", ["build", "-o", program, "./models/tokenizer/ids"]);
    const input = questions.map((question) => JSON.stringify(question)).join("\n");
    return run(program, [], { input }).trim().split("\n").map((line) => JSON.parse(line));
  } finally {
    rmSync(folder, { recursive: true });
  }
}

const equal = (a, b) => a.length === b.length && a.every((id, i) => id === b[i]);

/** The texts that come with a vocabulary, with the ids of the model's own tokenizer. */
function published(file) {
  if (!existsSync(`${file}.inp`)) return { texts: [], ids: [] };
  const end = "\n__ggml_vocab_test__\n";
  const texts = readFileSync(`${file}.inp`, "utf8").replace(new RegExp(`${end}$`), "").split(end);
  const lines = readFileSync(`${file}.out`, "utf8").split("\n").slice(0, texts.length);
  return { texts, ids: lines.map((line) => line.trim().split(" ").filter(Boolean).map(Number)) };
}

async function realVocabularies(tokenize, rows) {
  const texts = corpora();
  const files = readdirSync(vocabularies).filter((name) => name.endsWith(".gguf")).sort();
  for (const name of files) {
    const file = path.join(vocabularies, name);
    const own = published(file);
    const all = Object.values(texts).flat();
    const [of, ofOwn] = ours([{ file, texts: all }, { file, texts: own.texts }]);
    const row = (rows[`tokenizers/vocabulary ${name.slice("ggml-vocab-".length, -".gguf".length)}`] = {});
    if (of.error) {
      row.refused = of.error;
      continue;
    }
    const theirs = await tokenize(file, all);
    const same = (list, is) => `${list.filter(is).length} of ${list.length}`;
    row.vocabulary = of.tokens;
    row.own_texts = own.texts.length ? same(own.texts, (_, i) => equal(ofOwn.ids[i], own.ids[i])) : "none";
    let at = 0;
    for (const [kind, list] of Object.entries(texts)) {
      const from = at;
      row[kind] = same(list, (_, i) => equal(of.ids[from + i], theirs[from + i]));
      at += list.length;
    }
  }
}

/** How many texts of words.json each pre-tokenizer cuts as llama.cpp does. Those that agree in all share a row. */
function preTokenizers(rows) {
  const recorded = JSON.parse(readFileSync(words, "utf8"));
  const base = {
    bytes: { tokens: [...alphabet], merges: recorded.merges.bytes },
    characters: { tokens: [...byteTokens, ...recorded.characters], merges: recorded.merges.characters },
  };
  for (const of of Object.values(base)) of.merges = of.merges.split(",").map((pair) => pair.split(" ").map(Number));
  const folder = mkdtempSync(path.join(os.tmpdir(), "foretoken-words-"));
  try {
    const questions = recorded.names.map((name, n) => {
      const file = path.join(folder, `${n}.gguf`);
      writeGGUF(file, metadata(PLAIN.includes(name) ? base.characters : base.bytes, name));
      return { file, texts: recorded.texts };
    });
    const groups = new Map();
    for (const [n, { ids, error }] of ours(questions).entries()) {
      if (error) throw new Error(`${recorded.names[n]}: ${error}`);
      const theirs = recorded.answers.map(({ ids, of }) => ids[of.split(" ")[n]]);
      const count = ids.filter((row, i) => row.join(" ") === theirs[i]).length;
      const key = JSON.stringify([theirs, ids]);
      if (!groups.has(key)) groups.set(key, { names: [], count });
      groups.get(key).names.push(recorded.names[n]);
    }
    for (const { names, count } of groups.values())
      rows[`tokenizers/pre ${names.join(", ")}`] = { like_llama: `${count} of ${recorded.texts.length}` };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [to] = process.argv.slice(2);
  const names = [...new Set([...source().matchAll(/tokenizer_pre == "([^"]+)"/g)].map(([, name]) => name))].sort();
  const tokenize = await llama();
  if (to === "--record") {
    await record(names, tokenize);
  } else {
    const rows = {};
    preTokenizers(rows);
    await realVocabularies(tokenize, rows);
    writeFileSync(to, JSON.stringify(rows, null, 1));
  }
  process.exit(0); // the engine keeps threads
}
