"""Prepare and judge a draft distilled from the target.

usage: distill.py sample TARGET DATA_DIR TOKENS [THREADS]   writes DATA_DIR/samples.npy
       distill.py agree TARGET DRAFT DATA_DIR             prints how often the draft is right

A sample begins with text of the corpus or, one in eight, of the questions and answers. Between the
two: train.py --config draft.json. Its batches are corpus windows and windows of the samples, on which
the draft sees the target's own style; its loss is nine tenths the divergence from the target's distribution.
"""
import functools
import math
import sys

import numpy as np
import torch
import torch.nn.functional as F

import fused
import model

PROMPT, LENGTH, ROWS = 32, 256, 64  # tokens of a prompt, tokens of a sample with it, samples at a time


class Decoder:
    """Reads one token of each row a call, with a KV cache."""

    def __init__(self, s, p, w, rows, length):
        self.s, self.p, self.w, self.at = s, p, w, 0
        self.cos, self.sin = model.rotary(s, length)
        self.keys, self.values = (torch.zeros(s.layers, rows, s.kv_heads, length, s.head_dim) for _ in range(2))

    def turn(self, x):
        a, b = x.chunk(2, -1)
        c, s = self.cos[self.at], self.sin[self.at]
        return torch.cat([a * c - b * s, b * c + a * s], -1)

    def step(self, ids):
        """Returns the logits (rows, vocab) of the next token."""
        s, w, n = self.s, self.w, len(ids)
        times = lambda x, matrix: F.linear(x.bfloat16(), matrix).float()
        x = self.p["embed"][ids]
        for i in range(s.layers):
            q, k, v = times(model.rms(x, s.eps), w.qkv[i]).split(s.rows(), -1)
            self.keys[i, :, :, self.at] = self.turn(k.view(n, s.kv_heads, s.head_dim))
            self.values[i, :, :, self.at] = v.view(n, s.kv_heads, s.head_dim)
            q = self.turn(q.view(n, s.heads, s.head_dim)).view(n, s.kv_heads, -1, s.head_dim)
            keys, values = self.keys[i, :, :, : self.at + 1], self.values[i, :, :, : self.at + 1]
            mix = (q @ keys.transpose(-1, -2) / math.sqrt(s.head_dim)).softmax(-1) @ values
            x = x + times(mix.reshape(n, -1), w.o[i])
            gate, up = times(model.rms(x, s.eps), w.gate_up[i]).chunk(2, -1)
            x = x + times(F.silu(gate) * up, w.down[i])
        self.at += 1
        return times(model.rms(x, s.eps), w.head)


@torch.no_grad()
def block(s, p, w, texts: list, number: int) -> np.ndarray:
    """ROWS samples one after the other. The number of the block seeds it."""
    rng, g = np.random.default_rng([3, number]), torch.Generator().manual_seed(number)
    prompts = []
    for row in range(ROWS):
        text = texts[row % 16 in (6, 7)]  # greedily and not
        at = rng.integers(0, len(text) - PROMPT)
        prompts.append(text[at : at + PROMPT].astype(np.int64))
    prompts = np.stack(prompts)
    decoder, ids, rows = Decoder(s, p, w, ROWS, LENGTH), torch.zeros(ROWS, dtype=torch.long), []
    for t in range(LENGTH - 1):  # token 0 comes first, as in training
        out = decoder.step(ids)
        if t < PROMPT:
            ids = torch.from_numpy(prompts[:, t])
        else:  # every second row greedily, the others at temperature 1
            ids = out.argmax(-1)
            ids[1::2] = torch.multinomial(out[1::2].softmax(-1), 1, generator=g)[:, 0]
        rows.append(ids)
    made = torch.stack(rows, 1).numpy().astype(np.uint16)
    print("block", number, flush=True)
    return np.concatenate([made, np.zeros_like(made[:, :1])], 1).flatten()


def sample(target: str, data: str, tokens: str, threads: str = "2") -> None:
    s, p = model.load(target)
    texts = [np.load(f"{data}/{name}.npy", mmap_mode="r") for name in ("train", "qa")]
    make = functools.partial(block, s, p, fused.Weights(p), texts)
    blocks = fused.pool(int(threads)).map(make, range(math.ceil(float(tokens) / (ROWS * LENGTH))))
    np.save(f"{data}/samples.npy", np.concatenate(list(blocks)))


@torch.no_grad()
def agree(target: str, draft: str, data: str, length: int = 256, windows: int = 64) -> None:
    pair, valid = [model.load(target), model.load(draft)], np.load(f"{data}/valid.npy")
    same = overlap = count = 0
    for k in np.linspace(0, len(valid) // length - 1, windows).astype(int):
        y = torch.from_numpy(valid[k * length : (k + 1) * length].astype(np.int64))[None]
        x = torch.cat([torch.zeros_like(y[:, :1]), y[:, :-1]], 1)
        a, b = (model.logits(s, p, x)[0].softmax(-1) for s, p in pair)
        same += (a.argmax(-1) == b.argmax(-1)).sum().item()
        overlap += torch.minimum(a, b).sum().item()
        count += length
    print(f"same most likely token: {same / count:.3f}; acceptance of a sampled token: {overlap / count:.3f}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    {"sample": sample, "agree": agree}[sys.argv[1]](*sys.argv[2:])
