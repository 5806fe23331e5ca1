"""The network: GGUF's "llama" (Hugging Face LlamaForCausalLM), as a dictionary of tensors.

RMSNorm (eps 1e-5), rotary embedding in the half-split layout, grouped-query attention,
SwiGLU, no biases, tied embeddings. Layers are stacked along the first dimension, so that
the optimizer handles all layers of one kind in one call:

    embed (vocab, dim)            norm (dim)
    attn_norm, ffn_norm (layers, dim)
    qkv (layers, (heads + 2 kv_heads) * head_dim, dim)     o (layers, dim, heads * head_dim)
    gate_up (layers, 2 * ffn, dim)                         down (layers, dim, ffn)

hidden() is the plain PyTorch forward pass for any device; fused.py has a faster one for the CPU.
"""
import dataclasses
import math

import torch
import torch.nn.functional as F

import gguflib

@dataclasses.dataclass
class Shape:
    vocab: int
    dim: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    context: int = 1024
    theta: float = 10000.0
    eps: float = 1e-5

    def rows(self) -> list:
        """Rows of q, k and v in qkv."""
        return [self.heads * self.head_dim, self.kv_heads * self.head_dim, self.kv_heads * self.head_dim]

    def parts(self) -> dict:
        """Rows of each matrix of a parameter that holds matrices of layers."""
        return {"qkv": self.rows(), "o": [self.dim], "gate_up": 2 * [self.ffn], "down": [self.dim]}


def init(s: Shape, seed: int) -> dict:
    g = torch.Generator().manual_seed(seed)
    normal = lambda std, *size: torch.randn(*size, generator=g) * std
    out = 0.02 / math.sqrt(2 * s.layers)
    return {
        "embed": normal(0.02, s.vocab, s.dim),
        "norm": torch.ones(s.dim),
        "attn_norm": torch.ones(s.layers, s.dim),
        "ffn_norm": torch.ones(s.layers, s.dim),
        "qkv": normal(0.02, s.layers, sum(s.rows()), s.dim),
        "o": normal(out, s.layers, s.dim, s.heads * s.head_dim),
        "gate_up": normal(0.02, s.layers, 2 * s.ffn, s.dim),
        "down": normal(out, s.layers, s.dim, s.ffn),
    }


def to_state(s: Shape, p: dict) -> dict:
    """Returns one tensor a projection, under the names that convert.py reads."""
    state = {"embed.weight": p["embed"], "norm.weight": p["norm"]}
    for i in range(s.layers):
        q, k, v = p["qkv"][i].split(s.rows())
        gate, up = p["gate_up"][i].chunk(2)
        parts = {"attn_norm": p["attn_norm"][i], "ffn_norm": p["ffn_norm"][i], "q": q, "k": k, "v": v}
        parts |= {"o": p["o"][i], "gate": gate, "up": up, "down": p["down"][i]}
        state |= {f"blocks.{i}.{name}.weight": t for name, t in parts.items()}
    return {k: v.clone() for k, v in state.items()}


def from_state(s: Shape, state: dict) -> dict:
    def stack(*names):
        return torch.stack([
            torch.cat([state[f"blocks.{i}.{n}.weight"].float() for n in names]) for i in range(s.layers)])

    p = {"embed": state["embed.weight"].float(), "norm": state["norm.weight"].float()}
    p |= {n: stack(n) for n in ("attn_norm", "ffn_norm", "o", "down")}
    return p | {"qkv": stack("q", "k", "v"), "gate_up": stack("gate", "up")}


def half_split(weight, heads: int):
    """Rows of a query or key projection in half-split order; GGUF's llama interleaves them."""
    rows, dim = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, dim).transpose(1, 2).reshape(rows, dim)


def load(path: str) -> tuple:
    """Shape and parameters of a checkpoint of train.py, or of a GGUF file of convert.py, dequantised."""
    if not str(path).endswith(".gguf"):
        saved = torch.load(path, map_location="cpu")
        s = Shape(**saved["shape"])
        return s, from_state(s, saved["state"])
    meta, w = gguflib.read(path)
    a = {k.split(".", 1)[1]: v for k, v in meta.items() if k.startswith("llama.")}
    s = Shape(a["vocab_size"], a["embedding_length"], a["block_count"], a["attention.head_count"],
              a["attention.head_count_kv"], a["attention.key_length"], a["feed_forward_length"], a["context_length"],
              a["rope.freq_base"], a["attention.layer_norm_rms_epsilon"])
    w = {k: torch.from_numpy(v.copy()) for k, v in w.items()}
    names = {"attn_norm": "attn_norm", "ffn_norm": "ffn_norm", "q": "attn_q", "k": "attn_k", "v": "attn_v",
             "o": "attn_output", "gate": "ffn_gate", "up": "ffn_up", "down": "ffn_down"}
    state = {"embed.weight": w["token_embd.weight"], "norm.weight": w["output_norm.weight"]}
    for i in range(s.layers):
        state |= {f"blocks.{i}.{ours}.weight": w[f"blk.{i}.{theirs}.weight"] for ours, theirs in names.items()}
        for ours, heads in (("q", s.heads), ("k", s.kv_heads)):
            name = f"blocks.{i}.{ours}.weight"
            state[name] = half_split(state[name], heads)
    return s, from_state(s, state)


def rotary(s: Shape, length: int, device="cpu"):
    """Cosines and sines (length, head_dim / 2)."""
    freq = s.theta ** (-torch.arange(0, s.head_dim, 2).float() / s.head_dim)
    angle = torch.outer(torch.arange(length).float(), freq)
    return angle.cos().to(device), angle.sin().to(device)


def rms(x, eps):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)


def hidden(s: Shape, p: dict, ids):
    """Final normalised hidden states (batch, length, dim)."""
    batch, length = ids.shape
    cos, sin = rotary(s, length, ids.device)
    mask = torch.full((length, length), float("-inf"), device=ids.device).triu(1)

    def heads(x, n, turn=True):
        x = x.view(batch, length, n, s.head_dim).transpose(1, 2)
        if turn:
            a, b = x.float().chunk(2, -1)
            x = torch.cat([a * cos - b * sin, b * cos + a * sin], -1).to(x.dtype)
        return x

    x = F.embedding(ids, p["embed"])
    for i in range(s.layers):
        q, k, v = F.linear(rms(x, s.eps) * p["attn_norm"][i], p["qkv"][i]).split(s.rows(), -1)
        q, k, v = heads(q, s.heads), heads(k, s.kv_heads), heads(v, s.kv_heads, False)
        k, v = (t.repeat_interleave(s.heads // s.kv_heads, 1) for t in (k, v))
        weights = ((q @ k.transpose(-1, -2)).float() / math.sqrt(s.head_dim) + mask).softmax(-1).to(v.dtype)
        x = x + F.linear((weights @ v).transpose(1, 2).reshape(batch, length, -1), p["o"][i])
        gate, up = F.linear(rms(x, s.eps) * p["ffn_norm"][i], p["gate_up"][i]).chunk(2, -1)
        x = x + F.linear(F.silu(gate) * up, p["down"][i])
    return rms(x, s.eps) * p["norm"]


def logits(s: Shape, p: dict, ids):
    return F.linear(hidden(s, p, ids), p["embed"])


def loss_and_gradients(s: Shape, p: dict, x, y, grads: dict, micro: int) -> torch.Tensor:
    """Adds the gradient of the mean loss to grads; returns each token's loss in nats. Skips targets below 0."""
    count, losses = (y >= 0).sum(), []
    rows = max(1, micro // x.shape[1])
    for xs, ys in zip(x.split(rows), y.split(rows)):
        leaves = {k: v.detach().requires_grad_() for k, v in p.items()}
        with torch.autocast(x.device.type, dtype=torch.bfloat16):
            out = logits(s, leaves, xs).float().flatten(0, 1)
        loss = F.cross_entropy(out, ys.flatten(), reduction="none", ignore_index=-1)
        (loss.sum() / count).backward()
        for k, v in leaves.items():
            grads[k] += v.grad
        losses.append(loss.detach())
    return torch.cat(losses)


@torch.no_grad()
def losses(s: Shape, p: dict, x, y, micro: int) -> torch.Tensor:
    """Each token's loss in nats."""
    with torch.autocast(x.device.type, dtype=torch.bfloat16):
        parts = [logits(s, p, r[None])[0].float() for r in x]
    return F.cross_entropy(torch.cat(parts), y.flatten(), reduction="none", ignore_index=-1)
