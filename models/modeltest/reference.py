#!/usr/bin/python3
"""Writes reference log-probabilities of models: reference.py OUT_DIR MODEL.gguf...

Reads GGUF, decodes the weights and runs the forward pass in float64, sharing no code with the engine. For each of three
prompts of token ids it writes the greedy continuation and, for each of its steps, the ten best tokens with their
log-probabilities. `go test ./models/modeltest -update` runs it; it needs numpy."""
import hashlib
import json
import pathlib
import struct
import sys

import numpy as np

PROMPTS = {"a line": 9, "one token": 1, "a paragraph": 41}  # how many ids each has
STEPS = 24


def half(b, at):
    return b[:, at:at + 2].copy().view("<f2").astype(np.float64)


def nibbles(b):
    """Low nibbles of a block's bytes, then the high ones."""
    return np.concatenate([b & 15, b >> 4], axis=1).astype(np.float64)


def fifth(b):
    """The 32 bits of a word as 0 or 16, one a weight."""
    return ((b.copy().view("<u4") >> np.arange(32, dtype=np.uint32)) & 1).astype(np.float64) * 16


def six_bits(p):
    """The eight scales and eight minimums in the 12 bytes of Q4_K and Q5_K."""
    low, middle, high = p[:, :4], p[:, 4:8], p[:, 8:]
    scales = np.concatenate([low & 63, (high & 15) | (low >> 6 << 4)], axis=1)
    minimums = np.concatenate([middle & 63, (high >> 4) | (middle >> 6 << 4)], axis=1)
    return scales.astype(np.float64)[:, :, None], minimums.astype(np.float64)[:, :, None]


def q2_k(b):
    d, minimum, n = half(b, 80)[:, :, None], half(b, 82)[:, :, None], len(b)
    scales = b[:, :16].reshape(n, 16, 1)
    quants = b[:, 16:80].reshape(n, 2, 1, 32) >> np.array([0, 2, 4, 6], np.uint8)[:, None] & 3
    return d * (scales & 15) * quants.reshape(n, 16, 16) - minimum * (scales >> 4)


def q3_k(b):
    n = len(b)
    high = b[:, :32].reshape(n, 1, 32) >> np.arange(8, dtype=np.uint8)[:, None] & 1
    low = b[:, 32:96].reshape(n, 2, 1, 32) >> np.array([0, 2, 4, 6], np.uint8)[:, None] & 3
    quants = low.reshape(n, 16, 16).astype(np.float64) - 4 * (1 - high.reshape(n, 16, 16).astype(np.float64))
    packed = b[:, 96:108]
    scales = np.concatenate([packed[:, :8] & 15, packed[:, :8] >> 4], axis=1)
    top = packed[:, 8:].reshape(n, 1, 4) >> np.array([0, 2, 4, 6], np.uint8)[:, None] & 3
    scales = (scales | top.reshape(n, 16) << 4).astype(np.float64) - 32
    return half(b, 108)[:, :, None] * scales[:, :, None] * quants


def q4_k(b):
    scales, minimums = six_bits(b[:, 4:16])
    q = b[:, 16:].reshape(-1, 4, 32)
    quants = np.stack([q & 15, q >> 4], axis=2).reshape(-1, 8, 32)
    return half(b, 0)[:, :, None] * scales * quants - half(b, 2)[:, :, None] * minimums


def q5_k(b):
    scales, minimums = six_bits(b[:, 4:16])
    q = b[:, 48:].reshape(-1, 4, 32)
    quants = np.stack([q & 15, q >> 4], axis=2).reshape(-1, 8, 32).astype(np.float64)
    high = b[:, 16:48].reshape(-1, 1, 32) >> np.arange(8, dtype=np.uint8)[:, None] & 1
    return half(b, 0)[:, :, None] * scales * (quants + 16.0 * high) - half(b, 2)[:, :, None] * minimums


def q6_k(b):
    n = len(b)
    low, high = b[:, :128].reshape(n, 2, 2, 32), b[:, 128:192].reshape(n, 2, 1, 32)
    low = np.concatenate([low & 15, low >> 4], axis=2)
    high = high >> np.array([0, 2, 4, 6], np.uint8)[:, None] & 3
    quants = (low | high << 4).astype(np.float64) - 32
    scales = b[:, 192:208].copy().view(np.int8).astype(np.float64)
    return half(b, 208)[:, :, None] * scales[:, :, None] * quants.reshape(n, 16, 16)


IQ4 = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.float64)

# By ggml's number of a type: the weights and bytes of a block, and what decodes blocks.
TYPES = {
    0: (1, 4, lambda b: b.copy().view("<f4")),
    1: (1, 2, lambda b: b.copy().view("<f2")),
    30: (1, 2, lambda b: (b.copy().view("<u2").astype(np.uint32) << 16).view(np.float32)),
    2: (32, 18, lambda b: half(b, 0) * (nibbles(b[:, 2:]) - 8)),
    3: (32, 20, lambda b: half(b, 0) * nibbles(b[:, 4:]) + half(b, 2)),
    6: (32, 22, lambda b: half(b, 0) * (nibbles(b[:, 6:]) + fifth(b[:, 2:6]) - 16)),
    7: (32, 24, lambda b: half(b, 0) * (nibbles(b[:, 8:]) + fifth(b[:, 4:8])) + half(b, 2)),
    8: (32, 34, lambda b: half(b, 0) * b[:, 2:].copy().view(np.int8)),
    20: (32, 18, lambda b: half(b, 0) * IQ4[nibbles(b[:, 2:]).astype(int)]),
    10: (256, 84, q2_k), 11: (256, 110, q3_k), 12: (256, 144, q4_k), 13: (256, 176, q5_k), 14: (256, 210, q6_k),
}


def read(path):
    """The metadata and the weights of a GGUF file."""
    data, at = path.read_bytes(), 24
    _, tensors, fields = struct.unpack("<IQQ", data[4:24])

    def take(form):
        nonlocal at
        values = struct.unpack_from(form, data, at)
        at += struct.calcsize(form)
        return values[0] if len(values) == 1 else values

    def text():
        nonlocal at
        n = take("<Q")
        at += n
        return data[at - n:at].decode()

    def value(kind):
        if kind == 8:
            return text()
        if kind == 9:
            of, n = take("<IQ")
            return [value(of) for _ in range(n)]
        return take("<" + "BbHhIif?"[kind] if kind < 8 else {10: "<Q", 11: "<q", 12: "<d"}[kind])

    metadata = {}
    for _ in range(fields):
        key = text()
        metadata[key] = value(take("<I"))
    places = []
    for _ in range(tensors):
        name, dims = text(), take("<I")
        shape = [take("<Q") for _ in range(dims)]
        places.append((name, shape[::-1], *take("<IQ")))
    align = metadata.get("general.alignment", 32)
    start = -(-at // align) * align
    weights = {}
    for name, shape, kind, offset in places:
        elements, size, decode = TYPES[kind]
        raw = data[start + offset:][:int(np.prod(shape)) // elements * size]
        blocks = np.frombuffer(raw, np.uint8).reshape(-1, size)
        weights[name] = decode(blocks).astype(np.float64).reshape(shape)
    return metadata, weights


class Model:
    def __init__(self, path):
        fields, self.weights = read(path)
        self.arch = fields["general.architecture"]
        field = lambda name: fields[f"{self.arch}.{name}"]
        self.layers = field("block_count")
        optional = lambda name, missing: fields.get(f"{self.arch}.{name}", missing)
        self.heads, self.kv = field("attention.head_count"), field("attention.head_count_kv")
        self.head, self.eps = field("attention.key_length"), field("attention.layer_norm_rms_epsilon")
        self.base, self.rotary = field("rope.freq_base"), optional("rope.dimension_count", self.head)
        self.half_split = self.arch in ("qwen2", "qwen3")
        self.vocab, self.end = field("vocab_size"), fields["tokenizer.ggml.eos_token_id"]

    def norm(self, x, name):
        return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + self.eps) * self.weights[name + ".weight"]

    def turn(self, x, positions):
        """Rotary embedding of (position, head, element)."""
        n = self.rotary
        angle = positions[:, None] * self.base ** (-np.arange(0, n, 2) / n)
        c, s = np.cos(angle)[:, None], np.sin(angle)[:, None]
        out = x.copy()
        first, second = (slice(0, n // 2), slice(n // 2, n)) if self.half_split else (slice(0, n, 2), slice(1, n, 2))
        out[..., first] = x[..., first] * c - x[..., second] * s
        out[..., second] = x[..., first] * s + x[..., second] * c
        return out

    def logits(self, ids):
        """Those after the last of the ids; the pass begins at the first one."""
        w, n, positions = self.weights, len(ids), np.arange(len(ids))
        x = w["token_embd.weight"][ids]
        for layer in range(self.layers):
            p = f"blk.{layer}."
            h = self.norm(x, p + "attn_norm")
            q, k, v = (h @ w[p + f"attn_{c}.weight"].T + w.get(p + f"attn_{c}.bias", 0) for c in "qkv")
            q = q.reshape(n, self.heads, self.head)
            k, v = (y.reshape(n, self.kv, self.head) for y in (k, v))
            if self.arch == "qwen3":
                q, k = self.norm(q, p + "attn_q_norm"), self.norm(k, p + "attn_k_norm")
            q, k = self.turn(q, positions), self.turn(k, positions)
            k, v = (np.repeat(y, self.heads // self.kv, axis=1) for y in (k, v))
            scores = np.einsum("ihd,jhd->hij", q, k) / np.sqrt(self.head)
            scores[:, positions[:, None] < positions] = -np.inf
            scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
            scores /= scores.sum(axis=-1, keepdims=True)
            x = x + np.einsum("hij,jhd->ihd", scores, v).reshape(n, -1) @ w[p + "attn_output.weight"].T
            h = self.norm(x, p + "ffn_norm")
            gate = h @ w[p + "ffn_gate.weight"].T
            x = x + (gate / (1 + np.exp(-gate)) * (h @ w[p + "ffn_up.weight"].T)) @ w[p + "ffn_down.weight"].T
        return w.get("output.weight", w["token_embd.weight"]) @ self.norm(x[-1], "output_norm")


def run(path):
    model, results = Model(path), []
    for prompt, n in PROMPTS.items():
        ids = [(7 + 31 * i + 5 * i * i) % model.vocab for i in range(n)]
        seen, top = list(ids), []
        while len(top) < STEPS and (not top or seen[-1] != model.end):
            z = model.logits(seen)
            z = z - z.max()
            z -= np.log(np.exp(z).sum())
            best = np.argsort(-z, kind="stable")[:10]
            top.append([[int(i), round(float(z[i]), 5)] for i in best])
            seen.append(int(best[0]))
        results.append({"prompt": prompt, "ids": ids, "cont": seen[n:], "top": top})
    return {"sha256": hashlib.sha256(path.read_bytes()).hexdigest(), "results": results}


if __name__ == "__main__":
    out = pathlib.Path(sys.argv[1])
    for name in map(pathlib.Path, sys.argv[2:]):
        (out / (name.stem + ".json")).write_text(json.dumps(run(name), separators=(",", ":")) + "\n")
