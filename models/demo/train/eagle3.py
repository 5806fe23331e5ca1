"""Train an EAGLE-3 head for a target and write it in the published layout.

usage: eagle3.py TARGET.gguf DATA_DIR OUT_PREFIX [--tokens N] [--threads N] [--init RUN.pt]

DATA_DIR holds train.npy, valid.npy and samples.npy, which distill.py makes. OUT_PREFIX.pt keeps the run
every five minutes, and the same command goes on from it. At the end OUT_PREFIX.safetensors and
OUT_PREFIX.json (the head's config.json) are written. --init begins with the head and the count of tokens of
another run, whose vocabulary may be smaller.

The head is that of Li et al., "EAGLE-3: Scaling up Inference Acceleration of Large Language Models via
Training-Time Test" (2025): the residual stream after three of the target's layers goes through one linear
layer (fc); one decoder layer reads [norm(embedding of the next token), norm(feature)] and adds to the
feature; a norm and an own output matrix over the most frequent token ids give the draft's logits.
Training-time test: after the first step, where the features are the target's, each step takes the head's own
output at the position before as its feature and sees the true features of the prefix, as drafting does.
The loss is the cross-entropy to the target's distribution over the draft vocabulary at positions where the
target's best token is in it, each step weighing 0.8 of the one before. Embedding and target stay frozen.

Half of the windows are text that the target wrote itself. The head has more key and value heads than the
target: the embedding of the newest token reaches the output through the values only, so few of them starve it.
"""
import argparse
import dataclasses
import functools
import json
import math
import os
import pathlib
import struct
import time

import numpy as np
import torch
import torch.nn.functional as F

import fused
import gguflib
import model
import train

DECAY = 0.8  # weight of a step relative to the one before it
SHARE = 0.5  # of the windows that the target wrote


@dataclasses.dataclass
class Head:
    """Matrices as (1, rows, columns), so that train.Optimizer takes them as a model's."""

    s: model.Shape  # of one layer, with the head's own heads
    vocab: int

    def parts(self) -> dict:
        return self.s.parts() | {"fc": [self.s.dim]}

    def begin(self, target: dict, layers: int, used, seed: int) -> dict:
        """Starts from the target where shapes agree: its output matrix, its last norm, its last feed-forward."""
        s, g = self.s, torch.Generator().manual_seed(seed)
        normal = lambda *size: 0.02 * torch.randn(1, *size, generator=g)
        fc = normal(s.dim, 3 * s.dim)
        fc[0, :, -s.dim :] += torch.eye(s.dim)
        last = layers - 1
        return {
            "fc": fc,
            "qkv": normal(sum(s.rows()), 2 * s.dim),
            "o": normal(s.dim, s.heads * s.head_dim),
            "gate_up": target["gate_up"][last : last + 1].clone(),
            "down": target["down"][last : last + 1].clone(),
            "embed_norm": torch.ones(s.dim),
            "feature_norm": torch.ones(s.dim),
            "ffn_norm": target["ffn_norm"][last].clone(),
            "norm": target["norm"].clone(),
            "head": target["embed"][used].clone(),
        }

    def unroll(self, p: dict, features, embedded, steps: int) -> list:
        """Logits of each step. features is (batch, n, 3 dim); embedded is (batch, n + steps - 1, dim): row
        i + step is the token that step reads at place i. The first step's keys and values are seen causally,
        a later one's at the row's own place only."""
        s, (batch, n, _) = self.s, features.shape
        cos, sin = model.rotary(s, n + steps)
        mask = torch.full((n, n), float("-inf")).triu(1)
        rms = lambda x, gain: model.rms(x, s.eps) * p[gain]

        def heads(x, count, at=None):
            x = x.view(batch, n, count, s.head_dim).transpose(1, 2)
            if at is not None:
                a, b = x.float().chunk(2, -1)
                c, d = cos[at : at + n], sin[at : at + n]
                x = torch.cat([a * c - b * d, b * c + a * d], -1).to(x.dtype)
            return x

        x, cache, out = F.linear(features, p["fc"][0]), [], []
        for step in range(steps):
            h = torch.cat([rms(embedded[:, step : step + n], "embed_norm"), rms(x, "feature_norm")], -1)
            q, k, v = F.linear(h, p["qkv"][0]).split(s.rows(), -1)
            q, k = heads(q, s.heads, step) / math.sqrt(s.head_dim), heads(k, s.kv_heads, step)
            cache.append((k, heads(v, s.kv_heads)))
            scores = [(q @ cache[0][0].transpose(-1, -2)).float() + mask]
            scores += [(q * k).sum(-1, keepdim=True).float() for k, _ in cache[1:]]
            weights = torch.cat(scores, -1).softmax(-1).to(v.dtype)
            mixed = weights[..., :n] @ cache[0][1]
            for i, (_, v) in enumerate(cache[1:]):
                mixed = mixed + weights[..., n + i : n + i + 1] * v
            x = x + F.linear(mixed.transpose(1, 2).reshape(batch, n, -1), p["o"][0])
            gate, up = F.linear(rms(x, "ffn_norm"), p["gate_up"][0]).chunk(2, -1)
            x = x + F.linear(F.silu(gate) * up, p["down"][0])
            out.append(F.linear(rms(x, "norm"), p["head"]))
        return out

    def tensors(self, p: dict) -> dict:
        """Under the names of the published checkpoints."""
        q, k, v = p["qkv"][0].split(self.s.rows())
        gate, up = p["gate_up"][0].chunk(2)
        layer = {
            "hidden_norm": p["feature_norm"], "input_layernorm": p["embed_norm"],
            "post_attention_layernorm": p["ffn_norm"],
            "self_attn.q_proj": q, "self_attn.k_proj": k, "self_attn.v_proj": v, "self_attn.o_proj": p["o"][0],
            "mlp.gate_proj": gate, "mlp.up_proj": up, "mlp.down_proj": p["down"][0],
        }
        named = {"fc": p["fc"][0], "norm": p["norm"], "lm_head": p["head"]}
        named |= {f"midlayer.{name}": t for name, t in layer.items()}
        return {f"{name}.weight": t.numpy().astype(np.float16) for name, t in named.items()}


class Target:
    def __init__(self, path: str, taps: list):
        self.s, self.p = model.load(path)
        self.meta, _ = gguflib.read(path)
        self.weights, self.taps = fused.Weights(self.p), taps

    @torch.no_grad()
    def read(self, ids) -> tuple:
        """Features (batch, length, 3 dim) and logits (batch, length, vocab) in bfloat16."""
        one = fused.Pass(self.s, self.p, self.weights, ids)
        out = one.forward(self.taps)
        return torch.cat(one.tapped, -1).view(*ids.shape, -1), (out @ self.weights.head.t()).view(*ids.shape, -1)


class Divergence(torch.autograd.Function):
    """The mean divergence from the target's distribution over the rows that count, without the target's entropy."""

    @staticmethod
    def forward(ctx, logits, wanted, counts, weight):
        goal = counts.long() - 1  # fused.c skips rows below 0
        losses, scale = torch.empty(len(goal)), weight / max(1, int(counts.sum()))
        ctx.gradient = logits.detach()  # fused.c writes it over the logits, which nothing else reads
        fused.call("distill", ctx.gradient, wanted, goal, losses, *logits.shape, scale, 1.0)
        return losses.sum() * scale

    @staticmethod
    def backward(ctx, _):
        return ctx.gradient, None, None, None


def vocabulary(ids: np.ndarray, vocab: int, size: int) -> tuple:
    """The most frequent ids, ascending, and the share of the text that they cover."""
    counts = np.bincount(ids, minlength=vocab)
    used = np.sort(np.argsort(-counts, kind="stable")[:size])
    return used, counts[used].sum() / counts.sum()


def write_safetensors(path: str, tensors: dict) -> None:
    """8 bytes of header length, the JSON header, the data; see safetensors' format."""
    names = {"float16": "F16", "float32": "F32", "int64": "I64", "bool": "BOOL"}
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, x in tensors.items():
        header[name] = {"dtype": names[x.dtype.name], "shape": list(x.shape), "data_offsets": [at, at + x.nbytes]}
        at += x.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for x in tensors.values():
            f.write(np.ascontiguousarray(x).tobytes())


def export(head: Head, p: dict, used, target: Target, facts: dict, prefix: str) -> None:
    s, meta = head.s, target.meta
    tensors = {"d2t": (used - np.arange(len(used))).astype(np.int64), "t2d": np.isin(np.arange(s.vocab), used)}
    write_safetensors(prefix + ".safetensors", tensors | head.tensors(p))
    config = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "hidden_act": "silu",
        "hidden_size": s.dim,
        "target_hidden_size": s.dim,
        "intermediate_size": s.ffn,
        "num_hidden_layers": 1,
        "num_attention_heads": s.heads,
        "num_key_value_heads": s.kv_heads,
        "head_dim": s.head_dim,
        "max_position_embeddings": s.context,
        "rms_norm_eps": round(float(s.eps), 12),
        "rope_theta": s.theta,
        "attention_bias": False,
        "tie_word_embeddings": False,
        "torch_dtype": "float16",
        "bos_token_id": meta["tokenizer.ggml.bos_token_id"],
        "eos_token_id": meta["tokenizer.ggml.eos_token_id"],
        "vocab_size": s.vocab,
        "draft_vocab_size": len(used),
        # The layers, counted from 0, after which the residual stream is tapped.
        "eagle_config": {"eagle_aux_hidden_state_layer_ids": target.taps, "use_aux_hidden_state": True},
        "training": facts,
    }
    pathlib.Path(prefix + ".json").write_text(json.dumps(config, indent=2) + "\n")


@torch.no_grad()
def measure(target: Target, head: Head, p: dict, used, rows, steps: int) -> dict:
    """The share of places where a step's best token is the target's own best, and the mean length of the run of
    such steps, the bonus token included."""
    n, length, hits = rows.shape[1] - steps, 1.0, []
    features, logits = target.read(rows)
    best, run = logits.argmax(-1), torch.ones(rows.shape[0], n)
    for step, out in enumerate(head.unroll(p, features[:, :n], target.p["embed"][rows][:, 1:], steps)):
        hit = (used[out.argmax(-1)] == best[:, step + 1 : step + 1 + n]).float()
        run = run * hit
        hits.append(round(hit.mean().item(), 4))
        length += run.mean().item()
    return {"agreement": hits, "run": round(length, 4)}


def loss_and_gradients(target: Target, head: Head, p: dict, used, known, steps: int, rows) -> tuple:
    """Of windows (batch, length): the loss over all steps, and the gradient of each parameter."""
    n = rows.shape[1] - steps
    features, logits = target.read(rows)
    goal, counts = logits[..., used], known[logits.argmax(-1)]
    leaves, loss = {k: v.detach().requires_grad_() for k, v in p.items()}, 0.0
    with torch.enable_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        outs = head.unroll(leaves, features[:, :n], target.p["embed"][rows][:, 1:], steps)
        for i, out in enumerate(outs):
            wanted, counted = (x[:, i + 1 : i + 1 + n].flatten(0, 1).contiguous() for x in (goal, counts))
            loss = loss + Divergence.apply(out.flatten(0, 1), wanted, counted, DECAY**i)
    loss.backward()
    return loss.item(), {k: v.grad for k, v in leaves.items()}


def main() -> None:
    a = argparse.ArgumentParser()
    a.add_argument("target")
    a.add_argument("data")
    a.add_argument("out")
    a.add_argument("--tokens", type=float, default=12e6)
    a.add_argument("--threads", type=int, default=1)
    a.add_argument("--layers", type=int, nargs=3, default=[1, 4, 7])
    a.add_argument("--init", type=pathlib.Path)
    a.add_argument("--draft-vocab", type=int, default=3584)
    a.add_argument("--heads", type=int, default=4)
    a.add_argument("--steps", type=int, default=4)
    a.add_argument("--batch", type=int, default=4096, help="tokens a step, in windows of 256")
    a.add_argument("--micro", type=int, default=2048, help="tokens of one forward and backward pass")
    a.add_argument("--lr", type=float, default=2.5e-3)
    a.add_argument("--seed", type=int, default=4)
    a = a.parse_args()
    torch.set_num_threads(1)  # each thread takes whole parts of a batch
    target = Target(a.target, a.layers)
    corpus, valid, own = (np.load(f"{a.data}/{name}.npy", mmap_mode="r") for name in ("train", "valid", "samples"))
    ids, covered = vocabulary(corpus, target.s.vocab, a.draft_vocab)
    used = torch.from_numpy(ids)
    head = Head(dataclasses.replace(target.s, layers=1, heads=a.heads, kv_heads=a.heads), a.draft_vocab)
    p = head.begin(target.p, target.s.layers, used, a.seed)
    optimizer, tokens, seconds = train.Optimizer(p, head.parts()), 0, 0.0
    kept = pathlib.Path(a.out + ".pt")
    if kept.exists() or a.init:
        saved = torch.load(kept if kept.exists() else a.init)
        tokens, seconds = saved["tokens"], saved["seconds"]
        former, _ = vocabulary(corpus, target.s.vocab, len(saved["head"]["head"]))
        p["head"][np.searchsorted(ids, former)] = saved["head"].pop("head")
        p |= {k: p[k].copy_(v) for k, v in saved["head"].items()}
        if kept.exists():
            optimizer.restore(saved["optimizer"])
    known = torch.zeros(target.s.vocab, dtype=torch.bool)
    known[used] = True
    schedule = train.Config(tokens=a.tokens, warmup=0.02 * a.tokens, decay_from=0.6 * a.tokens, lr=a.lr, batch=a.batch,
                            long_from=math.inf, seed=a.seed, second_from=0, second_share=SHARE)
    pick = np.linspace(0, len(valid) // 256 - 1, 64).astype(int)
    check, _ = train.examples([valid[k * 256 : (k + 1) * 256] for k in pick])
    began, saved_at, losses = time.time() - seconds, time.time(), []

    def save() -> dict:
        facts = {"tokens": tokens, "seconds": round(seconds), "steps": a.steps, "seed": a.seed}
        facts["covered"] = round(covered, 4)  # share of the corpus in the draft's vocabulary
        facts |= measure(target, head, p, used, check, a.steps)
        print(json.dumps(facts | {"loss": round(sum(losses) / max(1, len(losses)), 4)}), flush=True)
        state = {"head": p, "optimizer": optimizer.state(), "tokens": tokens, "seconds": seconds}
        torch.save(state, a.out + ".tmp")
        os.replace(a.out + ".tmp", kept)
        losses.clear()
        return facts

    work = functools.partial(loss_and_gradients, target, head, p, used, known, a.steps)
    while tokens < a.tokens:
        rows, _ = train.batch_at(schedule, tokens, corpus, own)
        parts = list(fused.pool(a.threads).map(work, rows.split(a.micro // rows.shape[1])))
        gradients = {k: sum(g[k] for _, g in parts) / len(parts) for k in p}
        optimizer.step(gradients, train.rate(schedule, tokens), 0.05)
        losses.append(sum(loss for loss, _ in parts) / len(parts))
        tokens, seconds = tokens + rows.numel(), time.time() - began
        if time.time() - saved_at > 300:
            saved_at = time.time()
            save()
    export(head, p, ids, target, save(), a.out)


if __name__ == "__main__":
    main()
