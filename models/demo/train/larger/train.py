"""Train a model of Go source from a configuration file; start and resume with the same command.

usage: train.py --config target.json [--any-setting VALUE] [--evaluate]

With `teacher` the model is a draft, distilled from that one: see distill.py.

The run lives in the configuration's folder: checkpoint.pt (weights and optimizer), stable.pt
(a copy made when the decay starts) and log.jsonl. A checkpoint is written every five minutes,
on SIGTERM or SIGINT, and at the end. Everything is scheduled in tokens, so pausing the
process (SIGSTOP, SIGCONT) changes nothing, and the batches are a function of the seed and
the token count, so a resumed run reads the batches that an uninterrupted one would.

The learning rate warms up, stays, and falls to zero from decay_from to tokens (WSD). To
finish early, stop the run and restart it with a smaller decay_from and tokens: the settings
may change between two starts, on the command line or in the file.

Matrices are trained by Muon, the embedding and the norms by AdamW.
"""
import argparse
import dataclasses
import functools
import json
import math
import os
import pathlib
import signal
import time

import numpy as np
import torch

import model


@dataclasses.dataclass
class Config:
    shape: dict = dataclasses.field(default_factory=dict)
    folder: str = "../run"
    data: str = "../data"  # train.npy and valid.npy
    vocab: str = "vocab-4096.json"
    teacher: str = ""  # a checkpoint or GGUF file to distill from
    init: str = ""  # a checkpoint or GGUF file to start from when the folder has no checkpoint
    seed: int = 1
    device: str = "cpu"
    threads: int = 1
    tokens: float = 80e6  # end of the run
    warmup: float = 1e6  # tokens
    decay_from: float = 60e6  # tokens
    batch: int = 8192  # tokens a step
    micro: int = 4096  # tokens of one forward and backward pass
    length: int = 256  # window, until long_from
    long_length: int = 1024
    long_from: float = 70e6  # tokens
    lr: float = 2.5e-3
    weight_decay: float = 0.1
    second: str = ""  # a second token file, mixed in from second_from on
    second_from: float = math.inf  # tokens
    second_share: float = 0.5  # of the windows
    save_every: float = 300  # seconds
    held_out: int = 32768  # tokens of each evaluation


def settings() -> tuple:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--config", required=True)
    p.add_argument("--evaluate", action="store_true", help="print the held-out loss over the whole validation set")
    fields = {f.name: f.type for f in dataclasses.fields(Config) if f.name != "shape"}
    for name, kind in fields.items():
        p.add_argument("--" + name.replace("_", "-"), type=kind)
    a = vars(p.parse_args())
    c = Config(**json.load(open(a["config"])))
    for name in fields:
        if a[name] is not None:
            setattr(c, name, a[name])
    here = pathlib.Path(a["config"]).resolve().parent
    for name in ("folder", "data", "vocab", "init", "teacher", "second"):  # paths are relative to the configuration
        if getattr(c, name):
            setattr(c, name, str(here / getattr(c, name)))
    return c, a["evaluate"]


def rate(c: Config, tokens: float) -> float:
    if tokens > c.decay_from:
        return c.lr * max(0.0, 1 - math.sqrt((tokens - c.decay_from) / (c.tokens - c.decay_from)))
    return c.lr * min(1.0, (tokens + c.batch) / c.warmup)


def window(ids: np.ndarray, length: int, number: int, seed: int) -> np.ndarray:
    """Window `number` of an endless stream: each epoch cuts ids at another offset and shuffles the pieces."""
    each = (len(ids) - length) // length
    epoch, k = divmod(number, each)
    if window.order[0] != (id(ids), length, epoch, seed):
        rng = np.random.default_rng([seed, length, epoch])
        offset = rng.integers(length)
        window.order = ((id(ids), length, epoch, seed), offset + length * rng.permutation(each))
    at = window.order[1][k]
    return ids[at : at + length]


window.order = (None, None)


def examples(rows: list) -> tuple:
    """Inputs start with token 0, as a prompt does in the engine; targets are the windows."""
    y = torch.from_numpy(np.stack(rows).astype(np.int64))
    return torch.cat([torch.zeros_like(y[:, :1]), y[:, :-1]], 1), y


def batch_at(c: Config, tokens: int, train: np.ndarray, second) -> tuple:
    """The batch of the step that starts at `tokens`."""
    late = tokens >= c.long_from
    length = c.long_length if late else c.length
    first = -(-int(c.long_from) // c.batch) * c.batch if late else 0
    count, rng = c.batch // length, np.random.default_rng([c.seed, tokens])
    rows = []
    for r in range(count):
        if second is not None and tokens >= c.second_from and rng.random() < c.second_share:
            at = int(rng.integers(len(second) - length))
            rows.append(second[at : at + length])
        else:
            rows.append(window(train, length, (tokens - first) // length + r, c.seed))
    return examples(rows)


class Optimizer:
    """Muon (Jordan et al. 2024; step size as in Liu et al. 2025) for matrices, AdamW for the rest.

    parts: rows of each matrix of a parameter (layers, rows, columns) that Muon trains.
    """

    def __init__(self, params: dict, parts: dict):
        self.params, self.parts, self.steps = params, parts, 0
        self.first = {k: torch.zeros_like(v) for k, v in params.items()}
        self.second = {k: torch.zeros_like(v) for k, v in params.items() if k not in parts}

    @staticmethod
    def orthogonal(m):
        """Five Newton-Schulz iterations: the nearest semi-orthogonal matrix, roughly."""
        x = m.transpose(1, 2) if m.shape[1] > m.shape[2] else m
        x = (x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)).bfloat16()
        for _ in range(5):
            a = x @ x.transpose(1, 2)
            x = 3.4445 * x + (-4.7750 * a + 2.0315 * (a @ a)) @ x
        x = x.float() * 0.2 * math.sqrt(max(m.shape[1:]))  # the size of a typical AdamW update
        return x.transpose(1, 2) if m.shape[1] > m.shape[2] else x

    @torch.no_grad()
    def step(self, grads: dict, lr: float, weight_decay: float):
        self.steps += 1
        for k, p in self.params.items():
            g, m = grads[k], self.first[k]
            if p.dim() > 2 or k == "embed":
                p.mul_(1 - lr * weight_decay)
            if k in self.parts:
                m.mul_(0.95).add_(g)
                g = g.add(m, alpha=0.95)
                p.add_(torch.cat([self.orthogonal(t) for t in g.split(self.parts[k], 1)], 1), alpha=-lr)
            else:
                v = self.second[k]
                m.lerp_(g, 0.1)
                v.lerp_(g.square(), 0.05)
                bias1, bias2 = 1 - 0.9**self.steps, 1 - 0.95**self.steps
                p.addcdiv_(m, (v / bias2).sqrt_().add_(1e-8), value=-lr / bias1)

    def state(self) -> dict:
        return {"first": self.first, "second": self.second, "steps": self.steps}

    def restore(self, saved: dict):
        self.steps = saved["steps"]
        for own, kept in ((self.first, saved["first"]), (self.second, saved["second"])):
            for k in own:
                own[k].copy_(kept[k])


class Run:
    def __init__(self, c: Config):
        self.c, self.folder = c, pathlib.Path(c.folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        torch.set_num_threads(c.threads)
        self.shape = model.Shape(**c.shape)
        self.tokens, self.seconds, saved = 0, 0.0, None
        checkpoint = self.folder / "checkpoint.pt"
        if checkpoint.exists():
            saved = torch.load(checkpoint, map_location="cpu")
            params = model.from_state(self.shape, saved["state"])
        elif c.init:
            self.shape, params = model.load(c.init)
        else:
            params = model.init(self.shape, c.seed)
        self.params = {k: v.to(c.device).contiguous() for k, v in params.items()}
        self.optimizer = Optimizer(self.params, self.shape.parts())
        if saved:
            self.optimizer.restore(saved["optimizer"])
            self.tokens, self.seconds = saved["tokens"], saved["seconds"]
        if c.device == "cpu":
            import fused

            self.loss_and_gradients = functools.partial(fused.loss_and_gradients, threads=c.threads)
            self.losses = fused.losses
            if c.teacher:
                shape, weights = model.load(c.teacher)
                teacher = (shape, weights, fused.Weights(weights))
                self.loss_and_gradients = functools.partial(self.loss_and_gradients, teacher=teacher)
        elif c.teacher:
            raise SystemExit("a teacher needs --device cpu")
        else:
            self.loss_and_gradients, self.losses = model.loss_and_gradients, model.losses
        self.train = np.load(f"{c.data}/train.npy", mmap_mode="r")
        self.valid = np.load(f"{c.data}/valid.npy", mmap_mode="r")
        self.second = np.load(c.second, mmap_mode="r") if c.second else None
        tokens = json.load(open(c.vocab))["tokens"]
        self.bytes = torch.tensor([1] + [len(t) for t in tokens[1:]])  # one character a byte
        self.grads = {k: torch.zeros_like(v) for k, v in self.params.items()}

    def save(self, name: str = "checkpoint.pt"):
        state = {"shape": dataclasses.asdict(self.shape), "state": model.to_state(self.shape, self.params)}
        state |= {"optimizer": self.optimizer.state(), "tokens": self.tokens, "seconds": self.seconds}
        torch.save(state, self.folder / (name + ".tmp"))
        os.replace(self.folder / (name + ".tmp"), self.folder / name)

    def held_out(self, length: int, limit: int) -> tuple:
        """Nats a token and nats a byte over evenly spaced windows; a window's first token does not count."""
        each = len(self.valid) // length
        picks = np.linspace(0, each - 1, min(each, max(1, limit // length))).astype(int)
        nats = tokens = size = 0.0
        for i in range(0, len(picks), 16):
            x, y = examples([self.valid[k * length : (k + 1) * length] for k in picks[i : i + 16]])
            y[:, 0] = -1
            x, y = x.to(self.c.device), y.to(self.c.device)
            nats += self.losses(self.shape, self.params, x, y, self.c.micro).sum().item()
            tokens += (y >= 0).sum().item()
            size += self.bytes[y[y >= 0].cpu()].sum().item()
        return nats / tokens, nats / size

    def note(self, **facts):
        line = json.dumps({k: round(v, 6) if isinstance(v, float) else v for k, v in facts.items()})
        print(line, flush=True)
        with open(self.folder / "log.jsonl", "a") as f:
            f.write(line + "\n")

    def go(self):
        c, stop = self.c, []
        for s in (signal.SIGTERM, signal.SIGINT):
            signal.signal(s, lambda *_: stop.append(1))
        parameters = sum(p.numel() for p in self.params.values())
        self.note(event="start", tokens=self.tokens, parameters=parameters, pid=os.getpid())
        saved = last = time.time()
        total = count = 0
        while self.tokens < c.tokens and not stop:
            if self.tokens < c.decay_from <= self.tokens + c.batch:
                self.save("stable.pt")
            x, y = batch_at(c, self.tokens, self.train, self.second)
            for g in self.grads.values():
                g.zero_()
            x, y = x.to(c.device), y.to(c.device)
            losses = self.loss_and_gradients(self.shape, self.params, x, y, self.grads, c.micro)
            lr = rate(c, self.tokens)
            self.optimizer.step(self.grads, lr, c.weight_decay)
            self.tokens += x.numel()
            total, count = total + losses.mean().item(), count + 1
            now = time.time()
            self.seconds, last = self.seconds + now - last, now
            if now - saved > c.save_every or self.tokens >= c.tokens or count == 1 == self.tokens // c.batch:
                saved = now
                self.save()
                token, byte = self.held_out(x.shape[1], c.held_out)
                self.note(tokens=self.tokens, seconds=round(self.seconds), cpu_seconds=round(time.process_time()),
                          length=x.shape[1], loss=total / count, held_out_token=token, held_out_byte=byte, lr=lr)
                total = count = 0
        self.save()
        self.note(event="stop", tokens=self.tokens, seconds=round(self.seconds))


def main():
    c, evaluate = settings()
    run = Run(c)
    if evaluate:
        for length in (c.length, c.long_length):
            token, byte = run.held_out(length, 1 << 40)
            print(f"{run.tokens / 1e6:.1f} M tokens, length {length}: {token:.4f} nats a token, {byte:.4f} nats a byte")
    else:
        run.go()


if __name__ == "__main__":
    main()
