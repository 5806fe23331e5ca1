"""Measure what the training made, as a report of docs/reports.

usage: facts.py FOLDER OUT.json NAME=FILE.gguf ...

FOLDER is where the models were trained: its data, and the log of each run in FOLDER/NAME/log.jsonl, or in
FOLDER/run for the target. A file is read with its own vocabulary, so nats a byte compare models whose tokens differ.
"""
import hashlib
import json
import pathlib
import sys

import numpy as np
import torch

import bpe
import fused
import gguflib
import model
import train


def held_out(path: str, shape: model.Shape, params: dict, valid: str) -> dict:
    """Nats a byte over all windows of the validation text, by their length."""
    meta, _ = gguflib.read(path)
    tokens = meta["tokenizer.ggml.tokens"]
    ids = np.array(bpe.Encoder({"tokens": tokens, "merges": meta["tokenizer.ggml.merges"]}).encode(valid))
    losses = lambda x, y: fused.losses(shape, params, x, y, 4096)
    return {f"held_out_{n}": train.held_out(losses, ids, train.sizes(tokens), n)[1]
            for n in (256, 1024) if n <= shape.context}


def trained(folder: pathlib.Path, corpus: int) -> dict:
    """Tokens, epochs and hours of a run, of its log."""
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    last = [line for line in lines if "seconds" in line][-1]
    return {"trained": last["tokens"], "epochs": last["tokens"] / corpus, "hours": last["seconds"] / 3600}


def main(folder: str, out: str, *files: str) -> None:
    folder, facts = pathlib.Path(folder), {}
    valid = (folder / "data" / "valid.txt").read_text()
    corpus = len(np.load(folder / "data" / "train.npy", mmap_mode="r"))
    for name, path in (f.split("=", 1) for f in files):
        shape, params = model.load(path)
        row = {"parameters": sum(p.numel() for p in params.values()),
               "sha256": hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()}
        run = folder / ("run" if name == "target" else name)
        if (run / "log.jsonl").exists():
            row |= trained(run, corpus)
        facts[name] = row | held_out(path, shape, params, valid)
        print(name, facts[name], flush=True)
    pathlib.Path(out).write_text(json.dumps(facts))


if __name__ == "__main__":
    torch.set_num_threads(2)
    main(*sys.argv[1:])
