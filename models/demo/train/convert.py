"""Write a checkpoint of train.py as GGUF (architecture "llama", byte-level BPE).

usage: convert.py CHECKPOINT.pt VOCAB.json NAME OUT.gguf [F32|F16|Q8_0|Q4_0|Q4_K] [--chat]

GGUF's llama architecture rotates interleaved pairs, so the rows of the query and key
projections are permuted from the half-split layout. --chat adds the template of qa.py's
pairs, which has no place for a system message. With Q4_K the embedding, which is also the output matrix, is Q6_K.
"""
import json
import pathlib
import sys

import gguflib as G
import numpy as np
import torch

CHAT = (
    "{% for m in messages %}{% if m.role == 'assistant' %}A: {{ m.content }}{{ eos_token }}"
    "{% elif m.role == 'user' %}Q: {{ m.content }}\n{% endif %}{% endfor %}{% if add_generation_prompt %}A:{% endif %}"
)


def interleave(weight: np.ndarray, heads: int) -> np.ndarray:
    rows, dim = weight.shape
    return weight.reshape(heads, 2, rows // heads // 2, dim).swapaxes(1, 2).reshape(rows, dim)


def main(checkpoint: str, vocab_path: str, name: str, out: str, kind: str = "Q8_0", chat: bool = False) -> None:
    saved = torch.load(checkpoint, map_location="cpu")
    s = saved["shape"]
    w = {k: v.float().numpy() for k, v in saved["state"].items()}
    vocab = json.load(open(vocab_path))
    quant = {"F32": G.F32, "F16": G.F16, "Q8_0": G.Q8_0, "Q4_0": G.Q4_0, "Q4_K": G.Q4_K}[kind]
    kv = {
        "general.architecture": "llama",
        "general.name": name,
        "general.license": "BSD-3-Clause",
        "general.description": "Small Go-code model trained from scratch on the sources of Go and golang.org/x",
        "general.file_type": G.FTYPE[quant],
        "general.quantization_version": 2,
        "general.alignment": 32,
        "llama.context_length": s["context"],
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
    if chat:
        kv["tokenizer.chat_template"] = CHAT
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

    def format_of(n, x):
        if x.ndim == 1:
            return G.F32
        return G.Q6_K if quant == G.Q4_K and n == "token_embd.weight" else quant

    rows = [(n, np.ascontiguousarray(x, np.float32), format_of(n, x)) for n, x in tensors]
    G.write(out, kv, rows)
    print(out, pathlib.Path(out).stat().st_size, "bytes")


if __name__ == "__main__":
    words = [a for a in sys.argv[1:] if a != "--chat"]
    main(*words, chat="--chat" in sys.argv)
