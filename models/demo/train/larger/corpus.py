"""Collect the training corpus: hand-written Go of the Go distribution and of golang.org/x modules (BSD-3-Clause).

usage: corpus.py OUT_DIR PROMPTS.jsonl MODULE@VERSION...

Writes OUT_DIR/train.txt, OUT_DIR/valid.txt and OUT_DIR/manifest.json. A NUL byte ends
each file; the tokenizer maps it to the end-of-text token. Run `go mod download` first.

Left out: generated files, tables, test data, exact duplicates, third-party vendored code,
and module files whose path the distribution vendors. One distribution file in fifty,
chosen by its hash, goes to the validation set. Two rules keep training apart from evaluation:
- no line of an evaluation prompt with 40 or more characters occurs in the training text;
- no training file shares half of its long lines with one validation file.
"""
import collections
import hashlib
import json
import pathlib
import random
import re
import subprocess
import sys

GENERATED = re.compile(r"^// Code generated .* DO NOT EDIT\.$|^// .*DO NOT EDIT", re.M)
LICENSE = re.compile(
    r"\A// Copyright [^\n]*\n// Use of this source code is governed by a BSD-style\n"
    r"// license that can be found in the LICENSE file\.\n+"
)
FOREIGN = re.compile(r"Apache License|GNU General Public|Mozilla Public", re.I)
MAX_BYTES = 150_000
LONG = 40  # characters that make a line telling


def long_lines(text: str) -> set:
    return {line.strip() for line in text.split("\n") if len(line.strip()) >= LONG}


def is_table(text: str) -> bool:
    """Reports whether most of the text stands in lines of numbers."""
    numbers = sum(len(l) for l in text.split("\n") if re.fullmatch(r"[\s0-9a-fA-FxX,.{}\-+:'\"/*]*", l))
    return numbers > 0.4 * len(text)


def read(root: pathlib.Path, skip=lambda relative: False):
    """Yields (path relative to root, text) of each hand-written Go file."""
    for path in sorted(root.rglob("*.go")):
        relative = str(path.relative_to(root))
        if "testdata" in path.parts or not path.is_file() or path.stat().st_size > MAX_BYTES or skip(relative):
            continue
        if path.name.startswith(("zerrors", "zsysnum", "ztypes", "zsyscall", "tables")):
            continue
        text = path.read_text(encoding="utf-8", errors="replace").replace("\0", "")
        if GENERATED.search(text[:2000]):
            continue
        text = LICENSE.sub("", text)
        if len(text) >= 200:
            yield relative, text


def main(out_dir: str, prompts_path: str, *modules: str) -> None:
    go = lambda *a: subprocess.run(["go", *a], check=True, capture_output=True, text=True).stdout.strip()
    goroot, cache = pathlib.Path(go("env", "GOROOT")), pathlib.Path(go("env", "GOMODCACHE"))
    prompts = [json.loads(line)["prompt"] for line in open(prompts_path, encoding="utf-8")]
    seen, train, valid, dropped = set(), {}, {}, collections.Counter()

    def new(text: str) -> str:
        digest = hashlib.sha256(text.encode()).hexdigest()
        if digest in seen:
            return ""
        seen.add(digest)
        return digest

    for relative, text in read(goroot / "src"):
        if not (digest := new(text)):
            continue
        name = "std/" + relative
        if int(digest[:8], 16) % 50 == 0:
            valid[name] = text
        elif "vendor/" in relative and "vendor/golang.org/" not in relative:
            dropped["third-party vendored"] += 1
        elif is_table(text):
            dropped["table"] += 1
        else:
            train[name] = text
    vendored = {re.sub(r".*vendor/", "", n) for n in [*train, *valid] if "vendor/" in n}
    origin = {"std": go("version")}
    for module in modules:
        path, root = module.split("@")[0], cache / module
        license_text = (root / "LICENSE").read_text() if (root / "LICENSE").exists() else ""
        if "Redistribution and use in source and binary forms" not in license_text:
            sys.exit(f"{module}: no BSD licence")
        origin[path] = module
        for relative, text in read(root, lambda r: f"{path}/{r}" in vendored or "vendor/" in r or "third_party/" in r):
            if is_table(text):
                dropped["table"] += 1
            elif FOREIGN.search(text[:2000]):
                dropped["other licence"] += 1
            elif new(text):
                train[f"{path}/{relative}"] = text
            else:
                dropped["duplicate"] += 1

    # Rule 1: evaluation prompts.
    lines = sorted({line for prompt in prompts for line in prompt.split("\n") if len(line) >= LONG})
    hits = {line: [n for n, text in train.items() if line in text] for line in lines}
    quoted = {n for names in hits.values() for n in names}
    verbatim = {n for prompt in prompts for n, text in train.items() if prompt in text}
    # Rule 2: near duplicates of validation files.
    where = collections.defaultdict(set)
    for name, text in valid.items():
        for line in long_lines(text):
            where[line].add(name)
    near = set()
    for name, text in train.items():
        own = long_lines(text)
        shared = collections.Counter(v for line in own for v in where.get(line, ()))
        if shared and max(shared.values()) > 0.5 * len(own):
            near.add(name)
    out = pathlib.Path(out_dir)
    out.mkdir(parents=True, exist_ok=True)
    report = {
        "sources": origin,
        "dropped": dict(dropped) | {
            "prompt line": len(quoted), "prompt verbatim": len(verbatim), "near duplicate of validation": len(near)},
        "prompt lines searched": len(lines),
        "prompt lines found in most files": sorted(((len(v), k) for k, v in hits.items() if v), reverse=True)[:12],
        "files dropped for a prompt line": sorted(quoted | verbatim),
        "files dropped as near duplicates": sorted(near),
    }
    train = {n: t for n, t in train.items() if n not in quoted | verbatim | near}
    by_source = collections.Counter()
    for n, t in train.items():
        by_source[next((m for m in origin if n.startswith(m + "/")), "std")] += len(t.encode())
    report["training bytes by source"] = dict(by_source)
    for label, files in (("train", train), ("valid", valid)):
        texts = [files[n] for n in sorted(files)]
        random.Random(0).shuffle(texts)
        data = "\0".join(texts) + "\0"
        (out / f"{label}.txt").write_text(data, encoding="utf-8")
        report[label] = {
            "files": len(texts), "bytes": len(data.encode()), "sha256": hashlib.sha256(data.encode()).hexdigest()}
    report["validation files"] = sorted(valid)
    text = (out / "train.txt").read_text(encoding="utf-8")
    leaked = [line for line in lines if line in text]
    assert not leaked, leaked
    (out / "manifest.json").write_text(json.dumps(report, indent=1))
    lists = ("validation files", "files dropped as near duplicates")
    print(json.dumps({k: v for k, v in report.items() if k not in lists}, indent=1))


if __name__ == "__main__":
    main(*sys.argv[1:])
