"""Compares fused.py with model.py, and times a step. usage: test.py [SECONDS_TO_TIME]"""
import sys
import time

import torch

import fused
import model

torch.set_num_threads(1)


def compare(length, rows):
    s = model.Shape(vocab=512, dim=128, layers=3, heads=4, kv_heads=2, head_dim=32, ffn=192)
    p = model.init(s, 0)
    g = torch.Generator().manual_seed(1)
    p = {k: v + 0.1 * torch.randn(v.shape, generator=g) * (1 if v.dim() < 3 and k != "embed" else 0.3)
         for k, v in p.items()}
    ids = torch.randint(0, s.vocab, (rows, length + 1), generator=g)
    x, y = ids[:, :-1].contiguous(), ids[:, 1:].contiguous()
    y[0, 3] = -1
    results = []
    for kind in (model, fused):
        grads = {k: torch.zeros_like(v) for k, v in p.items()}
        results.append((kind.loss_and_gradients(s, p, x, y, grads, 512), grads))
    (la, ga), (lb, gb) = results
    assert (la - lb).abs().max() < 0.1, (la - lb).abs().max()
    assert abs(la.mean() - lb.mean()) < 2e-3
    assert torch.allclose(fused.losses(s, p, x, y, 512), lb)
    for k in ga:
        error = (ga[k] - gb[k]).norm() / ga[k].norm()
        print(f"length {length} {k}: relative error {error:.4f}")
        assert error < 0.03


def compare_distill():
    """The loss of distill() and its gradient, against PyTorch's."""
    g = torch.Generator().manual_seed(2)
    student, teacher = (torch.randn(6, 512, generator=g).mul(3).bfloat16() for _ in range(2))
    y, loss, part = torch.arange(6), torch.empty(6), fused.TEACHER_PART
    leaf = student.float().requires_grad_()
    logp, goal = leaf.log_softmax(-1), part * teacher.float().softmax(-1)
    goal[torch.arange(6), y] += 1 - part
    wanted = -(goal * logp).sum(-1)
    wanted.sum().backward()
    fused.call("distill", student, teacher, y, loss, 6, 512, 1.0, part)
    assert torch.allclose(loss, wanted, rtol=1e-4) and torch.allclose(student.float(), leaf.grad, atol=2e-3)


compare_distill()
compare(64, 4)
compare(512, 2)
if len(sys.argv) > 1:
    for length, micro in ((256, 2048), (256, 4096), (256, 8192), (1024, 4096), (1024, 8192)):
        s = model.Shape(vocab=4096, dim=256, layers=8, heads=4, kv_heads=2, head_dim=64, ffn=1024)
        p = model.init(s, 0)
        grads = {k: torch.zeros_like(v) for k, v in p.items()}
        ids = torch.randint(0, s.vocab, (8192 // length, length))
        fused.loss_and_gradients(s, p, ids, ids, grads, micro)
        begin, steps = time.process_time(), 0
        while time.process_time() - begin < float(sys.argv[1]):
            fused.loss_and_gradients(s, p, ids, ids, grads, micro)
            steps += 1
        speed = 8192 * steps / (time.process_time() - begin)
        print(f"length {length} micro-batch {micro}: {speed:.0f} tokens a second of CPU time")
