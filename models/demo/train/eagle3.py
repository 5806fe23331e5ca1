"""Train an EAGLE-3 head for a target and write it in the published layout.

usage: eagle3.py TARGET.gguf DATA_DIR OUT_PREFIX --minutes M [--drafted FILE.npy]

DATA_DIR holds train.npy and valid.npy, as bpe.py encodes what corpus.py collects.
OUT_PREFIX.safetensors and OUT_PREFIX.json (the head's config.json) are written
every minute and at the end, so that a run can be cut short, and gone on with by
--resume. Minutes are those of the processor, so that a busy machine trains as long as an idle one, only later.

The head is that of Li et al., "EAGLE-3: Scaling up Inference Acceleration of Large
Language Models via Training-Time Test" (2025): the residual stream after three of
the target's layers goes through one linear layer (fc); one decoder layer reads
[norm(embedding of the next token), norm(feature)] and adds to the feature; a norm
and an own output matrix over the most frequent token ids give the draft's logits.
Training-time test: after the first step, where the features are the target's, each
step takes the head's own output at the position before as its feature and sees
the true features of the prefix, as drafting does. The loss is the cross-entropy to the
target's distribution over the draft vocabulary at positions where the target's
best token is in it, each step weighing 0.8 of the one before. Embedding and target stay frozen.

With --drafted, every fourth batch is the target's own text from that file (made
by eagle3_text.py).

The head has more key and value heads than the target: the embedding of the newest
token reaches the output through the values only, so few of them starve it.
"""
import argparse
import dataclasses
import json
import math
import pathlib
import struct
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import gguflib as G  # noqa: E402
import train as T  # noqa: E402

DECAY = 0.8  # weight of a step relative to the one before it


def read_gguf(path: str):
    """Metadata and dequantised tensors (numpy, shape as PyTorch has it)."""
    raw, at = pathlib.Path(path).read_bytes(), 0

    def take(fmt: str):
        nonlocal at
        values = struct.unpack_from("<" + fmt, raw, at)
        at += struct.calcsize("<" + fmt)
        return values[0] if len(values) == 1 else values

    def text() -> str:
        nonlocal at
        n = take("Q")
        at += n
        return raw[at - n : at].decode()

    def value(kind: int):
        if kind == 8:
            return text()
        if kind == 9:
            inner, n = take("IQ")
            return [value(inner) for _ in range(n)]
        return take({0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}[kind])

    magic, version, tensors, fields = take("4sIQQ")
    if magic != b"GGUF" or version != 3:
        sys.exit(f"{path}: not a GGUF v3 file")
    meta = {}
    for _ in range(fields):
        key = text()
        meta[key] = value(take("I"))
    infos = []
    for _ in range(tensors):
        name = text()
        dims = [take("Q") for _ in range(take("I"))]
        infos.append((name, dims[::-1], *take("IQ")))
    align = meta.get("general.alignment", 32)
    base, out = (at + align - 1) // align * align, {}
    for name, shape, kind, offset in infos:
        n = int(np.prod(shape))
        size = n // G.BLK[kind] * {G.F32: 4, G.F16: 2, G.Q4_0: 18, G.Q8_0: 34, G.Q4_K: 144, G.Q6_K: 210}[kind]
        out[name] = G.deq(kind, raw[base + offset : base + offset + size], shape)
    return meta, out


def half_split(weight: np.ndarray, heads: int) -> np.ndarray:
    """Undo convert.py's interleave: rows of a projection in train.py's order."""
    rows, dim = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, dim).swapaxes(1, 2).reshape(rows, dim)


def load_target(path: str):
    meta, w = read_gguf(path)
    a = {k.split(".", 1)[1]: v for k, v in meta.items() if k.startswith("llama.")}
    s = T.Shape(a["vocab_size"], a["embedding_length"], a["block_count"], a["attention.head_count"],
                a["attention.head_count_kv"], a["attention.key_length"], a["feed_forward_length"],
                a["rope.freq_base"], a["attention.layer_norm_rms_epsilon"])
    if "output.weight" in w:
        sys.exit(f"{path}: untied output matrices are not handled by train.py")
    state = {"embed.weight": w["token_embd.weight"], "norm.weight": w["output_norm.weight"]}
    names = {"attn_norm": "attn_norm", "ffn_norm": "ffn_norm", "q": "attn_q", "k": "attn_k", "v": "attn_v",
             "o": "attn_output", "gate": "ffn_gate", "up": "ffn_up", "down": "ffn_down"}
    for i in range(s.layers):
        for ours, theirs in names.items():
            x = w[f"blk.{i}.{theirs}.weight"]
            if ours in "qk":
                x = half_split(x, s.heads if ours == "q" else s.kv_heads)
            state[f"blocks.{i}.{ours}.weight"] = x
    model = T.Llama(s)
    model.load_state_dict({k: torch.from_numpy(np.array(v)) for k, v in state.items()})
    for p in model.parameters():
        p.requires_grad = False
    return model.eval(), meta


@torch.no_grad()
def tapped(model: T.Llama, ids, layers):
    """Residual stream after the given layers (batch, length, 3·dim), and the logits."""
    length = ids.shape[1]
    cos, sin = T.rotary(model.s, length)
    mask = torch.full((length, length), float("-inf")).triu(1)
    x, taps = model.embed(ids), []
    for i, block in enumerate(model.blocks):
        x = block(x, cos, sin, mask)
        if i in layers:
            taps.append(x)
    return torch.cat(taps, -1), F.linear(model.norm(x), model.embed.weight)


class Attention(nn.Module):
    def __init__(self, s: T.Shape):
        super().__init__()
        self.s = s
        self.q_proj = nn.Linear(2 * s.dim, s.heads * s.head_dim, bias=False)
        self.k_proj = nn.Linear(2 * s.dim, s.kv_heads * s.head_dim, bias=False)
        self.v_proj = nn.Linear(2 * s.dim, s.kv_heads * s.head_dim, bias=False)
        self.o_proj = nn.Linear(s.heads * s.head_dim, s.dim, bias=False)

    def forward(self, h, cos, sin, mask, cache):
        """One step. cache holds the keys and values of the steps before: the first
        step's are seen causally, a later one's at the row's own place only."""
        s, (batch, length, _) = self.s, h.shape
        split = lambda y, n: y.view(batch, length, n, s.head_dim).transpose(1, 2)
        group, step = s.heads // s.kv_heads, len(cache)
        cos, sin = cos[step : step + length], sin[step : step + length]
        q = T.rotate(split(self.q_proj(h), s.heads), cos, sin) / math.sqrt(s.head_dim)
        k = T.rotate(split(self.k_proj(h), s.kv_heads), cos, sin).repeat_interleave(group, 1)
        v = split(self.v_proj(h), s.kv_heads).repeat_interleave(group, 1)
        cache.append((k, v))
        scores = [q @ cache[0][0].transpose(-1, -2) + mask]
        scores += [(q * k).sum(-1, keepdim=True) for k, _ in cache[1:]]
        weights = torch.cat(scores, -1).softmax(-1)
        out = weights[..., :length] @ cache[0][1]
        for i, (_, v) in enumerate(cache[1:]):
            out = out + weights[..., length + i : length + i + 1] * v
        return self.o_proj(out.transpose(1, 2).reshape(batch, length, -1))


class MLP(nn.Module):
    def __init__(self, s: T.Shape):
        super().__init__()
        self.gate_proj = nn.Linear(s.dim, s.ffn, bias=False)
        self.up_proj = nn.Linear(s.dim, s.ffn, bias=False)
        self.down_proj = nn.Linear(s.ffn, s.dim, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, s: T.Shape):
        super().__init__()
        self.self_attn, self.mlp = Attention(s), MLP(s)
        self.hidden_norm = T.RMSNorm(s.dim, s.eps)
        self.input_layernorm = T.RMSNorm(s.dim, s.eps)
        self.post_attention_layernorm = T.RMSNorm(s.dim, s.eps)

    def forward(self, embedded, feature, cos, sin, mask, cache):
        h = torch.cat([self.input_layernorm(embedded), self.hidden_norm(feature)], -1)
        x = feature + self.self_attn(h, cos, sin, mask, cache)
        return x + self.mlp(self.post_attention_layernorm(x))


class Head(nn.Module):
    """Parameter names are those of the published checkpoints."""

    def __init__(self, s: T.Shape, draft_vocab: int):
        super().__init__()
        self.s = s
        self.fc = nn.Linear(3 * s.dim, s.dim, bias=False)
        self.midlayer = Layer(s)
        self.norm = T.RMSNorm(s.dim, s.eps)
        self.lm_head = nn.Linear(s.dim, draft_vocab, bias=False)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def unroll(self, features, embedded, steps):
        """Logits of each step. features is (batch, n, 3·dim); embedded is (batch,
        n + steps - 1, dim): row i + step is the token that step reads at place i."""
        n = features.shape[1]
        cos, sin = T.rotary(self.s, n + steps)
        mask = torch.full((n, n), float("-inf")).triu(1)
        x, cache, out = self.fc(features), [], []
        for step in range(steps):
            x = self.midlayer(embedded[:, step : step + n], x, cos, sin, mask, cache)
            out.append(self.lm_head(self.norm(x)))
        return out


def begin(head: Head, target: T.Llama, used) -> None:
    """Start from the target where shapes agree: its output matrix, its last norm and
    its last layer's feed-forward. Saves a tiny budget what pretraining would give."""
    last, mid = target.blocks[-1], head.midlayer
    with torch.no_grad():
        head.lm_head.weight.copy_(target.embed.weight[used])
        head.norm.weight.copy_(target.norm.weight)
        head.fc.weight[:, -head.s.dim :] += torch.eye(head.s.dim)
        if head.s.ffn == last.gate.weight.shape[0]:
            mid.mlp.gate_proj.weight.copy_(last.gate.weight)
            mid.mlp.up_proj.weight.copy_(last.up.weight)
            mid.mlp.down_proj.weight.copy_(last.down.weight)
            mid.post_attention_layernorm.weight.copy_(last.ffn_norm.weight)


def vocabulary(ids: np.ndarray, vocab: int, size: int):
    counts = np.bincount(ids, minlength=vocab)
    used = np.sort(np.argsort(-counts, kind="stable")[:size])
    print(f"draft vocabulary: {size} of {vocab} ids cover {counts[used].sum() / counts.sum():.4f} of the corpus")
    return used


def write_safetensors(path: str, tensors: dict) -> None:
    """8 bytes of header length, the JSON header, the data; see safetensors' format."""
    names = {"float16": "F16", "float32": "F32", "int64": "I64", "bool": "BOOL"}
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, x in tensors.items():
        header[name] = {"dtype": names[x.dtype.name], "shape": list(x.shape), "data_offsets": [at, at + x.nbytes]}
        at += x.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    partial = pathlib.Path(path + ".partial")
    with open(partial, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for x in tensors.values():
            f.write(np.ascontiguousarray(x).tobytes())
    partial.replace(path)


def export(head: Head, used, meta, layers, facts: dict, prefix: str) -> None:
    s = head.s
    tensors = {"d2t": (used - np.arange(len(used))).astype(np.int64), "t2d": np.isin(np.arange(s.vocab), used)}
    tensors |= {k: v.detach().numpy().astype(np.float16) for k, v in head.state_dict().items()}
    write_safetensors(prefix + ".safetensors", tensors)
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
        "max_position_embeddings": meta["llama.context_length"],
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
        "eagle_config": {"eagle_aux_hidden_state_layer_ids": layers, "use_aux_hidden_state": True},
        "training": facts,
    }
    pathlib.Path(prefix + ".json").write_text(json.dumps(config, indent=2) + "\n")


def measure(target, head, layers, used, rows, steps):
    """Per step: the share of places where the head's best token is the target's own best,
    and the mean length of the run of such steps, the bonus token included."""
    n = rows.shape[1] - steps
    with torch.no_grad():
        features, logits = tapped(target, rows, layers)
        outs = head.unroll(features[:, :n], target.embed(rows)[:, 1:], steps)
        best, run, length, hits = logits.argmax(-1), torch.ones(rows.shape[0], n), 1.0, []
        for step, out in enumerate(outs):
            hit = (used[out.argmax(-1)] == best[:, step + 1 : step + 1 + n]).float()
            run = run * hit
            hits.append(hit.mean().item())
            length += run.mean().item()
    return hits, length


def main() -> None:
    p = argparse.ArgumentParser()
    p.add_argument("target")
    p.add_argument("data")
    p.add_argument("out")
    p.add_argument("--minutes", type=float, required=True)
    p.add_argument("--drafted")
    p.add_argument("--resume", action="store_true", help="go on where OUT_PREFIX.pt was left, to the same end")
    p.add_argument("--layers", type=int, nargs=3, default=[1, 2, 4])
    p.add_argument("--draft-vocab", type=int, default=1536)
    p.add_argument("--heads", type=int, default=4)
    p.add_argument("--steps", type=int, default=3)
    p.add_argument("--batch", type=int, default=3)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--f32", action="store_true", help="matrix products in f32 instead of bf16")
    p.add_argument("--threads", type=int, default=1)
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    torch.manual_seed(a.seed)
    target, meta = load_target(a.target)
    corpus, valid = np.load(f"{a.data}/train.npy"), np.load(f"{a.data}/valid.npy")
    used = vocabulary(corpus, target.s.vocab, a.draft_vocab)
    shape = dataclasses.replace(target.s, heads=a.heads, kv_heads=a.heads)
    head, chosen = Head(shape, a.draft_vocab), torch.from_numpy(used)
    begin(head, target, chosen)
    in_draft = torch.zeros(target.s.vocab, dtype=torch.bool)
    in_draft[chosen] = True
    kept = torch.load(a.out + ".pt") if a.resume else None
    start = kept["step"] if kept else 0  # a run that goes on draws other windows
    sources = [T.batches(corpus, a.batch, a.seed + start)]
    if a.drafted:
        own = np.load(a.drafted)
        sources = 3 * sources + [T.batches(own, a.batch, a.seed + start + 1)]
    check = next(T.batches(valid, 16, 1))[0]
    decay = [q for q in head.parameters() if q.dim() > 1]
    plain = [q for q in head.parameters() if q.dim() == 1]
    groups = [{"params": decay, "weight_decay": 0.05}, {"params": plain, "weight_decay": 0.0}]
    optimiser = torch.optim.AdamW(groups, lr=a.lr, betas=(0.9, 0.95))
    step, spent, smooth = 0, 0.0, None
    if kept:
        head.load_state_dict(kept["head"])
        optimiser.load_state_dict(kept["optimiser"])
        step, spent = kept["step"], kept["spent"]
    begun = saved = time.process_time()
    begun -= spent
    facts = {}

    def save() -> None:
        hits, length = measure(target, head, a.layers, chosen, check, a.steps)
        facts.update(tokens=step * a.batch * T.CONTEXT, steps=step, unrolled=a.steps,
                     agreement=[round(h, 4) for h in hits], run=round(length, 4))
        print(f"valid: agreement by step {[f'{h:.3f}' for h in hits]}, run {length:.3f}", flush=True)
        kept = {"head": head.state_dict(), "optimiser": optimiser.state_dict(), "step": step,
                "spent": time.process_time() - begun}
        torch.save(kept, a.out + ".pt")
        export(head, used, meta, a.layers, facts, a.out)

    while (done := (time.process_time() - begun) / (60 * a.minutes)) < 1:
        rate = a.lr * min(1, (step + 1) / 40) * (0.03 + 0.97 * 0.5 * (1 + math.cos(math.pi * done)))
        for g in optimiser.param_groups:
            g["lr"] = rate
        rows = next(sources[step % len(sources)])[0]
        n = rows.shape[1] - a.steps
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=not a.f32):
            features, logits = tapped(target, rows, a.layers)
            outs = head.unroll(features[:, :n], target.embed(rows)[:, 1:], a.steps)
        known = in_draft[logits.argmax(-1)].float()
        goal = logits[..., chosen].float().softmax(-1)
        loss = 0.0
        for i, out in enumerate(outs):
            at = slice(i + 1, i + 1 + n)
            entropy = -(goal[:, at] * out.float().log_softmax(-1)).sum(-1)
            loss = loss + DECAY**i * (entropy * known[:, at]).sum() / known[:, at].sum()
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(head.parameters(), 1.0)
        optimiser.step()
        smooth = loss.item() if smooth is None else 0.98 * smooth + 0.02 * loss.item()
        step += 1
        if step % 100 == 0:
            took = time.process_time() - begun
            print(f"{took:6.0f}s step {step} tokens {step * rows.numel() / 1e6:.2f}M loss {smooth:.4f} "
                  f"{step * rows.numel() / took:.0f} tok/s", flush=True)
        if time.process_time() - saved > 60:
            saved = time.process_time()
            save()
    save()
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
