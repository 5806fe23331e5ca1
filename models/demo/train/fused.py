"""A training step of model.py on the CPU: oneDNN bfloat16 products and the fused element-wise code of fused.c.

loss_and_gradients and losses agree with model.py's to bfloat16 accuracy (test.py compares them).
Norm gains are folded into the next matrix once a step, so a norm only divides by the row's
root mean square, and a gain's gradient follows from its matrix's gradient. Each thread takes whole
micro-batches: products on one thread are faster than shared ones.
"""
import concurrent.futures
import ctypes
import functools
import math
import os
import pathlib
import subprocess

import torch
import torch.nn.functional as F

from model import Shape, rotary

BLOCK = 256  # query positions of one attention product; keys after the block are skipped
HEAD_ROWS = 2048  # tokens whose logits exist at one time


def build():
    here = pathlib.Path(__file__).resolve().parent
    source, library = here / "fused.c", here / "libfused.so"
    if not library.exists() or library.stat().st_mtime < source.stat().st_mtime:
        flags = "-O3 -march=native -mprefer-vector-width=512 -ffast-math -shared -fPIC".split()
        fresh = library.with_suffix(".new")  # a running process keeps the old file
        subprocess.run(["gcc", *flags, str(source), "-o", str(fresh), "-lm"], check=True)
        os.replace(fresh, library)
    # Keep freed blocks in the process: fresh pages cost more than the arithmetic on them.
    libc = ctypes.CDLL("libc.so.6")
    libc.mallopt(-3, 1 << 30)  # M_MMAP_THRESHOLD
    libc.mallopt(-1, 2**31 - 1)  # M_TRIM_THRESHOLD
    return ctypes.CDLL(str(library))


LIBRARY = build()


def call(name, *args):
    """Calls a function of fused.c; tensors pass as pointers, ints as int64, floats as float32."""
    plain = []
    for a in args:
        if isinstance(a, torch.Tensor):
            assert a.is_contiguous()
            plain.append(ctypes.c_void_p(a.data_ptr()))
        elif isinstance(a, float):
            plain.append(ctypes.c_float(a))
        elif isinstance(a, bool):
            plain.append(ctypes.c_int(a))
        else:
            plain.append(ctypes.c_void_p(None) if a is None else ctypes.c_int64(a))
    getattr(LIBRARY, name)(*plain)


def bf(*size):
    return torch.empty(*size, dtype=torch.bfloat16)


class Weights:
    """bfloat16 copies of the matrices, with norm gains folded in."""

    def __init__(self, p):
        self.qkv = (p["qkv"] * p["attn_norm"][:, None]).bfloat16()
        self.gate_up = (p["gate_up"] * p["ffn_norm"][:, None]).bfloat16()
        self.head = (p["embed"] * p["norm"]).bfloat16()
        self.o, self.down = p["o"].bfloat16(), p["down"].bfloat16()


class Pass:
    """One micro-batch: forward keeps what backward reads."""

    def __init__(self, s: Shape, p: dict, w: Weights, ids):
        self.s, self.w, self.ids = s, w, ids
        self.batch, self.length = ids.shape
        self.n = ids.numel()
        self.block = BLOCK if self.length % BLOCK == 0 else self.length
        self.cos, self.sin = rotary(s, self.length)
        self.x = F.embedding(ids.flatten(), p["embed"])  # the residual stream, float32

    def norm(self, delta):
        out, inv = bf(self.n, self.s.dim), torch.empty(self.n)
        call("add_norm", self.x, delta, out, inv, self.n, self.s.dim, self.s.eps)
        return out, inv

    def split(self, qkv, q, k, v, back):
        s = self.s
        sizes = (self.batch, self.length, s.heads, s.kv_heads, s.head_dim, self.block)
        call("split_heads", qkv, q, k, v, self.cos, self.sin, *sizes, 1 / math.sqrt(s.head_dim), back)

    def merge(self, a, b, back):
        s = self.s
        call("merge_heads", a, b, self.batch, self.length, s.heads, s.kv_heads, s.head_dim, self.block, back)

    def blocks(self):
        """Yields (index, first position, keys seen) of each block of queries."""
        for j in range(self.length // self.block):
            yield j, j * self.block, (j + 1) * self.block

    def new_heads(self):
        s, pairs = self.s, self.batch * self.s.kv_heads
        rows = s.heads // s.kv_heads * self.block
        return (bf(pairs, self.length // self.block, rows, s.head_dim),
                bf(pairs, self.length, s.head_dim), bf(pairs, self.length, s.head_dim))

    def forward(self, taps=()):
        """Returns the normalised output (tokens, dim), without the last norm's gain.

        taps: layers whose output, the residual stream (tokens, dim), goes to self.tapped.
        """
        s, w, delta, self.saved, self.tapped = self.s, self.w, None, [], []
        for i in range(s.layers):
            a, a_inv = self.norm(delta)
            if i - 1 in taps:
                self.tapped.append(self.x.clone())
            qkv = a @ w.qkv[i].t()
            q, k, v = self.new_heads()
            self.split(qkv, q, k, v, False)
            out, probs = torch.empty_like(q), []
            for j, first, keys in self.blocks():
                scores = torch.bmm(q[:, j], k[:, :keys].transpose(1, 2))
                call("causal_softmax", scores, scores.numel() // keys, keys, self.block, first)
                out[:, j] = torch.bmm(scores, v[:, :keys])
                probs.append(scores)
            mixed = bf(self.n, s.heads * s.head_dim)
            self.merge(out, mixed, False)
            f, f_inv = self.norm(mixed @ w.o[i].t())
            gu = f @ w.gate_up[i].t()
            h = bf(self.n, s.ffn)
            call("swiglu", gu, h, self.n, s.ffn)
            delta = h @ w.down[i].t()
            self.saved.append((a, a_inv, q, k, v, probs, mixed, f, f_inv, gu, h))
        self.out, self.out_inv = self.norm(delta)
        if s.layers - 1 in taps:
            self.tapped.append(self.x)
        return self.out

    def backward(self, dout, grads, folded):
        """dout: gradient of forward's result. Adds to grads (embed, o, down) and folded (qkv, gate_up)."""
        s, w = self.s, self.w
        dx, d = torch.zeros(self.n, s.dim), bf(self.n, s.dim)
        call("norm_back", dout, self.out, self.out_inv, dx, d, self.n, s.dim)

        def gather(total, dy, x):
            g = dy.t() @ x
            call("accumulate", total, g, g.numel())

        while self.saved:
            a, a_inv, q, k, v, probs, mixed, f, f_inv, gu, h = self.saved.pop()
            i = len(self.saved)
            gather(grads["down"][i], d, h)
            call("swiglu_back", gu, d @ w.down[i], self.n, s.ffn)
            gather(folded["gate_up"][i], gu, f)
            call("norm_back", gu @ w.gate_up[i], f, f_inv, dx, d, self.n, s.dim)
            gather(grads["o"][i], d, mixed)
            dq, dk, dv = self.new_heads()
            da = torch.empty_like(q)
            self.merge(da, d @ w.o[i], True)
            for j, first, keys in reversed(list(self.blocks())):
                dp = torch.bmm(da[:, j], v[:, :keys].transpose(1, 2))
                call("softmax_back", probs[j], dp, dp.numel() // keys, keys, self.block, first)
                dq[:, j] = torch.bmm(dp, k[:, :keys])
                if keys == self.length:
                    dk, dv = torch.bmm(dp.transpose(1, 2), q[:, j]), torch.bmm(probs[j].transpose(1, 2), da[:, j])
                else:
                    dk[:, :keys] += torch.bmm(dp.transpose(1, 2), q[:, j])
                    dv[:, :keys] += torch.bmm(probs[j].transpose(1, 2), da[:, j])
            dqkv = bf(self.n, sum(s.rows()))
            self.split(dqkv, dq, dk, dv, True)
            gather(folded["qkv"][i], dqkv, a)
            call("norm_back", dqkv @ w.qkv[i], a, a_inv, dx, d, self.n, s.dim)
        grads["embed"].index_add_(0, self.ids.flatten(), dx)


TEACHER_PART = 0.9  # of the loss; the text's next token has the rest


def head(w, out, y, scale, total=None, teacher=None):
    """Cross-entropy of each token in nats; with total also the gradient of out, and adds to total (vocab, dim).

    teacher: (weights, output) of a model whose distribution is the goal instead.
    """
    losses, dout = torch.empty(len(y)), torch.empty_like(out)
    for i in range(0, len(y), HEAD_ROWS):
        part = out[i : i + HEAD_ROWS]
        logits = part @ w.head.t()
        goal, loss = y[i : i + HEAD_ROWS].contiguous(), losses[i : i + HEAD_ROWS]
        if teacher is None:
            call("cross_entropy", logits, goal, loss, *logits.shape, float(scale))
        else:
            wanted = teacher[1][i : i + HEAD_ROWS] @ teacher[0].head.t()
            call("distill", logits, wanted, goal, loss, *logits.shape, float(scale), TEACHER_PART)
        if total is not None:
            dout[i : i + HEAD_ROWS] = logits @ w.head
            g = logits.t() @ part
            call("accumulate", total, g, g.numel())
    return losses, dout


@functools.lru_cache
def pool(threads: int):
    return concurrent.futures.ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))


@torch.no_grad()
def micro_batch(s: Shape, p: dict, w: Weights, x, y, scale, teacher) -> tuple:
    """Each token's loss in nats, and the gradients; those of "embed", "qkv" and "gate_up" with norm gains folded in."""
    grads = {k: torch.zeros_like(p[k]) for k in ("embed", "o", "down")}
    folded = {k: torch.zeros_like(p[k]) for k in ("embed", "qkv", "gate_up")}
    one = Pass(s, p, w, x)
    goal = (teacher[2], Pass(*teacher, x).forward()) if teacher else None
    loss, dout = head(w, one.forward(), y.flatten(), scale, folded["embed"], goal)
    one.backward(dout, grads, folded)
    return loss, grads, folded


@torch.no_grad()
def loss_and_gradients(s: Shape, p: dict, x, y, grads: dict, micro: int, teacher=None, threads=1) -> torch.Tensor:
    """Adds the gradient of the mean loss to grads; returns each token's loss in nats. A target below 0 does not count.

    teacher: (shape, parameters, Weights) of a model to distill from.
    """
    w, scale, losses = Weights(p), 1 / int((y >= 0).sum()), []
    rows = max(1, micro // x.shape[1])
    parts = zip(x.split(rows), y.split(rows))
    for loss, plain, folded in pool(threads).map(lambda part: micro_batch(s, p, w, *part, scale, teacher), parts):
        losses.append(loss)
        for k, g in plain.items():
            grads[k] += g
        for matrix, gain in (("embed", "norm"), ("qkv", "attn_norm"), ("gate_up", "ffn_norm")):
            grads[matrix] += folded[matrix] * p[gain].unsqueeze(-2)
            grads[gain] += (folded[matrix] * p[matrix]).sum(-2)
    return torch.cat(losses)


@torch.no_grad()
def losses(s: Shape, p: dict, x, y, micro: int) -> torch.Tensor:
    """Each token's loss in nats."""
    w, rows = Weights(p), max(1, micro // x.shape[1])
    return torch.cat([head(w, Pass(s, p, w, a).forward(), b.flatten(), 0.0)[0]
                      for a, b in zip(x.split(rows), y.split(rows))])
