"""Make question-and-answer training text from the standard library's doc comments.

usage: qa.py DATA_DIR VOCAB.json PROMPTS.jsonl

Runs qa.go. Writes DATA_DIR/qa.npy (token ids for train.py's `second`), qa.txt and
qa-held.jsonl: one symbol in twenty, chosen by hash, that training never asks about.
Symbols of validation files are held out too, and answers that contain a line of an
evaluation prompt with 40 or more characters. A pair reads, as in convert.py's chat template:

    Q: What does strings.Cut do?
    A: Cut slices s around the first instance of sep, ...<end of text>

Other questions ask for a signature, for the symbol that a doc comment's first sentence is about, and for a
function's test, which is the standard library's own.
"""
import hashlib
import json
import pathlib
import random
import re
import subprocess
import sys

import numpy as np

import bpe

MAX_ANSWER = 700  # characters
ASK = {
    "func": ["What does {n} do?", "What is {n} for?", "Explain {n}.", "How does {n} behave?"],
    "type": ["What is {n}?", "What is a {n}?", "Explain the type {n}.", "What does the type {n} represent?"],
    "value": ["What is {n}?", "What does {n} mean?", "Explain {n}."],
    "package": ["What is package {n} for?", "What does the package {n} do?", "Explain package {n}.", "What is in {n}?"],
}
ASK["method"] = ASK["func"]
TEST = ["Write a test for {n}.", "Write a table test for {n}.", "How can I test {n}?"]
SIGNATURE = ["What is the signature of {n}?", "How is {n} declared?", "Which parameters does {n} take?"]


def hashed(text: str) -> int:
    return int(hashlib.sha256(text.encode()).hexdigest()[:8], 16)


def answer(doc: str) -> str:
    """The first paragraphs of prose that fit, each on one line."""
    kept = []
    for paragraph in doc.split("\n\n"):
        prose = not any(line.startswith((" ", "\t", "#")) for line in paragraph.split("\n"))
        line = " ".join(paragraph.split())
        if not prose or len("\n\n".join([*kept, line])) > MAX_ANSWER:
            break
        kept.append(line)
    while kept and kept[-1].endswith((":", ",")):
        kept.pop()
    return "\n\n".join(kept)


def which(symbol: dict, name: str) -> list:
    """The question that the first sentence answers: "Package zip reads archives." or "Cut slices s around sep."."""
    own = "Package " + symbol["package"].split("/")[-1] if symbol["kind"] == "package" else symbol["name"]
    first = re.match(re.escape(own) + r" ([a-z]+s [^\n]{15,150}?)\.(\s|$)", " ".join(symbol["doc"].split()))
    if not first or symbol["kind"] not in ("package", "func"):
        return []
    asked = "package" if symbol["kind"] == "package" else f"function of {symbol['package']}"
    return [(f"Which {asked} {first[1]}?", f"{name}.")]


def pairs(symbol: dict) -> list:
    """(question, answer) in every wording."""
    name = symbol["package"] + ("." + symbol["name"] if symbol["name"] else "")
    short = symbol["package"].split("/")[-1] + ("." + symbol["name"] if symbol["name"] else "")
    text, found = answer(symbol["doc"]), []
    if len(text) >= 20:
        found += [(q.format(n=n), text) for q in ASK[symbol["kind"]] for n in dict.fromkeys([name, short])]
    if symbol["decl"] and "\n" not in symbol["decl"]:
        found += [(q.format(n=short), symbol["decl"]) for q in SIGNATURE]
    if symbol["test"] and len(symbol["test"]) <= MAX_ANSWER:
        found += [(q.format(n=short), symbol["test"]) for q in TEST]
    return found + which(symbol, name)


def main(data: str, vocab: str, prompts: str) -> None:
    here, folder = pathlib.Path(__file__).resolve().parent, pathlib.Path(data)
    command = ["go", "run", str(here / "qa.go")]
    lines = subprocess.run(command, check=True, capture_output=True, text=True, cwd="/").stdout
    symbols = [json.loads(line) for line in lines.splitlines()]
    manifest = json.loads((folder / "manifest.json").read_text())
    apart = set(manifest["validation files"]) | set(manifest["files dropped for a prompt line"])
    banned = {
        l for row in open(prompts, encoding="utf-8") for l in json.loads(row)["prompt"].split("\n") if len(l) >= 40}
    train, held, skipped = [], [], 0
    for s in symbols:
        if s["package"].startswith("simd/"):  # hundreds of near-identical methods
            skipped += 1
        elif hashed(s["package"] + "." + s["name"]) % 20 == 0:
            named = s["package"] + "." + s["name"]
            held += [{"id": named, "prompt": f"Q: {q}\nA:", "answer": a} for q, a in pairs(s)[:1]]
        elif apart & {"std/" + s["file"], "std/" + s["test_file"]} or any(
            b in text for b in banned for text in (s["doc"], answer(s["doc"]), s["test"])
        ):
            skipped += 1
        else:
            train += [f"Q: {q}\nA: {a}" for q, a in pairs(s)]
    random.Random(0).shuffle(train)
    text = "\0".join(train) + "\0"
    assert not any(b in text for b in banned)
    (folder / "qa.txt").write_text(text, encoding="utf-8")
    (folder / "qa-held.jsonl").write_text("".join(json.dumps(h) + "\n" for h in held))
    ids = bpe.Encoder(json.load(open(vocab))).encode(text)
    np.save(folder / "qa.npy", np.array(ids, np.uint16))
    print(f"{len(symbols)} symbols: {len(train)} training pairs ({len(ids)} tokens), "
          f"{len(held)} held-out symbols, {skipped} skipped")


if __name__ == "__main__":
    main(*sys.argv[1:])
