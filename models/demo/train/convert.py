"""Write a checkpoint of train.py as GGUF (architecture "llama", byte-level BPE).

usage: convert.py CHECKPOINT.pt VOCAB.json NAME OUT.gguf [F32|F16|Q8_0]

GGUF's llama architecture rotates interleaved pairs, so the rows of the query and
key projections are permuted from train.py's half-split layout.
"""
import json
import pathlib
import sys

import numpy as np
import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import gguflib as G  # noqa: E402


def interleave(weight: np.ndarray, heads: int) -> np.ndarray:
    rows, dim = weight.shape
    return weight.reshape(heads, 2, rows // heads // 2, dim).swapaxes(1, 2).reshape(rows, dim)


def main(checkpoint: str, vocab_path: str, name: str, out: str, kind: str = "Q8_0") -> None:
    saved = torch.load(checkpoint)
    s = saved["shape"]
    w = {k: v.numpy() for k, v in saved["state"].items()}
    vocab = json.load(open(vocab_path))
    quant = {"F32": G.F32, "F16": G.F16, "Q8_0": G.Q8_0}[kind]
    kv = {
        "general.architecture": "llama",
        "general.name": name,
        "general.license": "BSD-3-Clause",
        "general.description": "Tiny Go-code model trained from scratch on the Go distribution's source",
        "general.file_type": G.FTYPE[quant],
        "general.quantization_version": 2,
        "general.alignment": 32,
        "llama.context_length": 256,
        "llama.embedding_length": s["dim"],
        "llama.block_count": s["layers"],
        "llama.feed_forward_length": s["ffn"],
        "llama.attention.head_count": s["heads"],
        "llama.attention.head_count_kv": s["kv_heads"],
        "llama.attention.key_length": s["head_dim"],
        "llama.attention.value_length": s["head_dim"],
        "llama.attention.layer_norm_rms_epsilon": float(s["eps"]),
        "llama.rope.freq_base": float(s["theta"]),
        "llama.rope.dimension_count": s["head_dim"],
        "llama.vocab_size": s["vocab"],
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": vocab["tokens"],
        "tokenizer.ggml.token_type": np.array([3] + [1] * (s["vocab"] - 1), np.int32),
        "tokenizer.ggml.merges": vocab["merges"],
        "tokenizer.ggml.bos_token_id": 0,
        "tokenizer.ggml.eos_token_id": 0,
        "tokenizer.ggml.add_bos_token": True,
    }
    tensors = [("token_embd.weight", w["embed.weight"])]
    for i in range(s["layers"]):
        src, dst = f"blocks.{i}.", f"blk.{i}."
        tensors += [
            (dst + "attn_norm.weight", w[src + "attn_norm.weight"]),
            (dst + "attn_q.weight", interleave(w[src + "q.weight"], s["heads"])),
            (dst + "attn_k.weight", interleave(w[src + "k.weight"], s["kv_heads"])),
            (dst + "attn_v.weight", w[src + "v.weight"]),
            (dst + "attn_output.weight", w[src + "o.weight"]),
            (dst + "ffn_norm.weight", w[src + "ffn_norm.weight"]),
            (dst + "ffn_gate.weight", w[src + "gate.weight"]),
            (dst + "ffn_up.weight", w[src + "up.weight"]),
            (dst + "ffn_down.weight", w[src + "down.weight"]),
        ]
    tensors.append(("output_norm.weight", w["norm.weight"]))
    rows = [(n, np.ascontiguousarray(x, np.float32), G.F32 if x.ndim == 1 else quant) for n, x in tensors]
    G.write(out, kv, rows)
    print(out, pathlib.Path(out).stat().st_size, "bytes")


if __name__ == "__main__":
    main(*sys.argv[1:])
