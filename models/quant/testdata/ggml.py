#!/usr/bin/python3
"""Prints what ggml itself decodes pseudo-random blocks of every type to, as SHA-256 of the floats:
the table `ggml` of ggml_test.go. Usage: ggml.py PATH/TO/libggml-base.so"""
import ctypes, hashlib, sys

# ggml's function, elements and bytes of a block, offsets of its halves. The upper byte of IQ1_M's scale ends in byte
# 55; MXFP4's scale is byte 0.
TYPES = [
    ("F16", "ggml_fp16_to_fp32_row", 1, 2, [0]), ("BF16", "ggml_bf16_to_fp32_row", 1, 2, [0]),
    ("Q4_0", "dequantize_row_q4_0", 32, 18, [0]), ("Q4_1", "dequantize_row_q4_1", 32, 20, [0, 2]),
    ("Q5_0", "dequantize_row_q5_0", 32, 22, [0]), ("Q5_1", "dequantize_row_q5_1", 32, 24, [0, 2]),
    ("Q8_0", "dequantize_row_q8_0", 32, 34, [0]), ("Q2_K", "dequantize_row_q2_K", 256, 84, [80, 82]),
    ("Q3_K", "dequantize_row_q3_K", 256, 110, [108]), ("Q4_K", "dequantize_row_q4_K", 256, 144, [0, 2]),
    ("Q5_K", "dequantize_row_q5_K", 256, 176, [0, 2]), ("Q6_K", "dequantize_row_q6_K", 256, 210, [208]),
    ("IQ1_S", "dequantize_row_iq1_s", 256, 50, [0]), ("IQ1_M", "dequantize_row_iq1_m", 256, 56, [54]),
    ("IQ2_XXS", "dequantize_row_iq2_xxs", 256, 66, [0]), ("IQ2_XS", "dequantize_row_iq2_xs", 256, 74, [0]),
    ("IQ2_S", "dequantize_row_iq2_s", 256, 82, [0]), ("IQ3_XXS", "dequantize_row_iq3_xxs", 256, 98, [0]),
    ("IQ3_S", "dequantize_row_iq3_s", 256, 110, [0]), ("IQ4_NL", "dequantize_row_iq4_nl", 32, 18, [0]),
    ("IQ4_XS", "dequantize_row_iq4_xs", 256, 136, [0]), ("TQ1_0", "dequantize_row_tq1_0", 256, 54, [52]),
    ("TQ2_0", "dequantize_row_tq2_0", 256, 66, [64]), ("MXFP4", "dequantize_row_mxfp4", 32, 17, [-1]),
    ("NVFP4", "dequantize_row_nvfp4", 64, 36, []), ("Q1_0", "dequantize_row_q1_0", 128, 18, [0]),
    ("Q2_0", "dequantize_row_q2_0", 64, 18, [0]),
]
ELEMENTS = 1 << 16


def blocks(name, count, size, halves):
    """SHA-256 of "name counter" as a stream of bytes, each half made finite and below two."""
    b = bytearray()
    while len(b) < count * size:
        b += hashlib.sha256(f"{name} {len(b) // 32}".encode()).digest()
    del b[count * size:]
    for at in range(0, len(b), size):
        for h in halves:
            b[at + h + 1] &= 0xbf
    return bytes(b)


lib = ctypes.CDLL(sys.argv[1])
for name, function, elements, size, halves in TYPES:
    raw = blocks(name, ELEMENTS // elements, size, halves)
    out = (ctypes.c_float * ELEMENTS)()
    getattr(lib, function)(raw, out, ctypes.c_int64(ELEMENTS))
    print(f'\t"{name}": "{hashlib.sha256(bytes(out)).hexdigest()}",')
