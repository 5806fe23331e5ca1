"""Makes models of the size that people run, four gigabytes in all: largemodels.py SHARED OUT

x1b-q8_0      stories260K, a third party's model, in the shape of Llama 3.2 1B: it writes the same text
llama1b-q4_k  random weights in the shape of Llama 3.2 1B
qwen4b-q4_k   random weights in the shape of Qwen3 4B

OUT has the models that testmodels.sh makes; their tokenizers are used. Needs numpy.
"""

import os
import struct
import sys

import numpy as np

shared, out = sys.argv[1:]
os.environ["OUT"] = out
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "models", "demo", "train"))
import gguflib as gguf  # noqa: E402

BLOCKS = {gguf.F32: (1, 4), gguf.Q4_K: (256, 144), gguf.Q6_K: (256, 210)}  # weights and bytes


def random_model(name, tokenizer, arch, width, layers, heads, kv, dim, hidden, vocabulary):
    meta, _ = gguf.read(os.path.join(out, tokenizer + ".gguf"))
    old = meta["general.architecture"] + "."
    meta = {arch + "." + k[len(old) :] if k.startswith(old) else k: v for k, v in meta.items()}
    tokens = list(meta["tokenizer.ggml.tokens"])
    more = vocabulary - len(tokens)
    sizes = dict(embedding_length=width, block_count=layers, feed_forward_length=hidden, vocab_size=vocabulary,
                 context_length=2048)
    sizes.update({"attention.head_count": heads, "attention.head_count_kv": kv})
    if arch == "llama":
        sizes["rope.dimension_count"] = dim
    else:
        sizes.update({"attention.key_length": dim, "attention.value_length": dim})
    meta.update({f"{arch}.{k}": v for k, v in sizes.items()})
    meta.update({
        "general.architecture": arch, "general.name": name,
        "tokenizer.ggml.tokens": tokens + [f"<more {i}>" for i in range(more)],
        "tokenizer.ggml.token_type": np.array(list(meta["tokenizer.ggml.token_type"]) + [4] * more, np.int32),
    })
    if "tokenizer.ggml.scores" in meta:
        scores = list(meta["tokenizer.ggml.scores"]) + [-1e4] * more
        meta["tokenizer.ggml.scores"] = np.array(scores, np.float32)
    meta = {k: v.item() if isinstance(v, np.generic) else v for k, v in meta.items()}

    tensors = [("token_embd.weight", (vocabulary, width), gguf.Q6_K), ("output_norm.weight", (width,), gguf.F32)]
    for i in range(layers):
        large = gguf.Q6_K if i % 2 else gguf.Q4_K  # as in the files that people load
        shapes = [("attn_norm", (width,), gguf.F32), ("attn_q", (heads * dim, width), gguf.Q4_K),
                  ("attn_k", (kv * dim, width), gguf.Q4_K), ("attn_v", (kv * dim, width), large),
                  ("attn_output", (width, heads * dim), gguf.Q4_K), ("ffn_norm", (width,), gguf.F32),
                  ("ffn_gate", (hidden, width), gguf.Q4_K), ("ffn_up", (hidden, width), gguf.Q4_K),
                  ("ffn_down", (width, hidden), large)]
        if arch == "qwen3":
            shapes += [("attn_q_norm", (dim,), gguf.F32), ("attn_k_norm", (dim,), gguf.F32)]
        tensors += [(f"blk.{i}.{part}.weight", shape, kind) for part, shape, kind in shapes]

    def size(shape, kind):
        weights, bytes_ = BLOCKS[kind]
        return int(np.prod(shape)) // weights * bytes_

    head, at = b"", 0
    for tensor, shape, kind in tensors:
        head += gguf._s(tensor) + struct.pack("<I", len(shape))
        head += b"".join(struct.pack("<Q", n) for n in shape[::-1]) + struct.pack("<IQ", kind, at)
        at += size(shape, kind) + -size(shape, kind) % 32
    keys = b"".join(gguf._s(k) + struct.pack("<I", gguf._val(v)[0]) + gguf._val(v)[1] for k, v in meta.items())
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(meta)) + keys + head

    rng, deviation = np.random.default_rng(1), 1 / np.sqrt(width)

    def half(x):
        return np.array([x], np.float16).view(np.uint8)

    with open(os.path.join(out, name + ".gguf"), "wb") as f:
        f.write(head + b"\0" * (-len(head) % 32))
        for _, shape, kind in tensors:
            weights, bytes_ = BLOCKS[kind]
            blocks = np.frombuffer(rng.bytes(size(shape, kind)), np.uint8).reshape(-1, bytes_).copy()
            if kind == gguf.F32:
                blocks = np.ones(shape, np.float32)
            elif kind == gguf.Q4_K:
                blocks[:, 0:2], blocks[:, 2:4] = half(deviation / 250), half(deviation / 33)
            else:
                blocks[:, 208:] = half(deviation / 1200)
            data = blocks.tobytes()
            f.write(data + b"\0" * (-len(data) % 32))
    print(name)


random_model("llama1b-q4_k", "x26m-q4_k", "llama", 2048, 16, 32, 8, 64, 8192, 128256)
random_model("qwen4b-q4_k", "rnd-qwen3-d256-q4_k", "qwen3", 2560, 36, 32, 8, 128, 9728, 151936)

# The third party's writer has a gguflib of its own.
del sys.modules["gguflib"]
sys.path.insert(0, os.path.join(shared, "testmodels"))
import mkmodels as made  # noqa: E402

weights = os.path.join(shared, "testmodels", "weights")
story = made.load_l2c(os.path.join(weights, "stories260K.bin"))
tokens = made.spm_kv(made.spm(os.path.join(weights, "tok512.model")))
made.gguf("x1b-q8_0", made.inflate(story, 2048, 32, 8, 64, 8192, extra=11), tokens, made.Q8_0)
