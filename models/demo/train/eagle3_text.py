"""Have the target write text for eagle3.py: beginnings from the corpus, continued.

usage: eagle3_text.py TARGET.gguf DATA_DIR OUT.npy --minutes M

Heads are judged on what the target itself writes, so half of their training is on it
(Li et al., EAGLE-3 2025, train on the target's answers). Each window of 256 tokens
begins with 16 to 128 tokens of DATA_DIR/train.npy after the beginning-of-text token; half
of the windows go on greedily, half are sampled at temperature 0.8.
"""
import argparse
import math
import pathlib
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import eagle3 as E  # noqa: E402
import train as T  # noqa: E402

BOS = 0


class Decoder:
    """The target with a KV cache, a batch of rows in step."""

    def __init__(self, model: T.Llama, batch: int):
        self.model, s = model, model.s
        self.cos, self.sin = T.rotary(s, T.CONTEXT)
        shape = (s.layers, batch, s.kv_heads, T.CONTEXT, s.head_dim)
        self.keys, self.values = torch.zeros(shape), torch.zeros(shape)

    def step(self, ids, position: int):
        s, batch = self.model.s, ids.shape[0]
        cos, sin = self.cos[position], self.sin[position]
        x, group = self.model.embed(ids), s.heads // s.kv_heads
        for i, b in enumerate(self.model.blocks):
            h = b.attn_norm(x)
            q = T.rotate(b.q(h).view(batch, s.heads, s.head_dim), cos, sin)
            self.keys[i, :, :, position] = T.rotate(b.k(h).view(batch, s.kv_heads, s.head_dim), cos, sin)
            self.values[i, :, :, position] = b.v(h).view(batch, s.kv_heads, s.head_dim)
            keys, values = self.keys[i, :, :, : position + 1], self.values[i, :, :, : position + 1]
            q = q.view(batch, s.kv_heads, group, s.head_dim) / math.sqrt(s.head_dim)
            x = x + b.o((q @ keys.transpose(-1, -2)).softmax(-1).matmul(values).reshape(batch, -1))
            h = b.ffn_norm(x)
            x = x + b.down(F.silu(b.gate(h)) * b.up(h))
        return F.linear(self.model.norm(x), self.model.embed.weight)


@torch.no_grad()
def main() -> None:
    p = argparse.ArgumentParser()
    p.add_argument("target")
    p.add_argument("data")
    p.add_argument("out")
    p.add_argument("--minutes", type=float, required=True)
    p.add_argument("--batch", type=int, default=128)
    p.add_argument("--temperature", type=float, default=0.8)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--threads", type=int, default=1)
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    torch.manual_seed(a.seed)
    model, _ = E.load_target(a.target)
    corpus, rng = np.load(f"{a.data}/train.npy"), np.random.default_rng(a.seed)
    decoder, rows, begun = Decoder(model, a.batch), [], time.time()
    while time.time() - begun < 60 * a.minutes:
        at = rng.integers(0, len(corpus) - T.CONTEXT, a.batch)
        given = torch.from_numpy(rng.integers(16, 129, a.batch))
        ids = torch.from_numpy(np.stack([corpus[i : i + T.CONTEXT] for i in at]).astype(np.int64))
        ids[:, 0] = BOS
        for position in range(T.CONTEXT - 1):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                logits = decoder.step(ids[:, position], position).float()
            drawn = torch.multinomial((logits / a.temperature).softmax(-1), 1)[:, 0]
            drawn[::2] = logits[::2].argmax(-1)
            ids[:, position + 1] = torch.where(given > position + 1, ids[:, position + 1], drawn)
        rows.append(ids.numpy().astype(np.uint16))
        np.save(a.out, np.concatenate(rows).ravel())
        took = time.time() - begun
        print(f"{took:6.0f}s {len(rows) * ids.numel()} tokens, {len(rows) * ids.numel() / took:.0f} tok/s", flush=True)


if __name__ == "__main__":
    main()
