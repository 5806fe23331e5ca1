"""Writes expected.json: the conversations of conversations.json through the families' templates, by Python's jinja2.

Usage: python3 expect.py > expected.json   (jinja2 3.1, set up as Transformers sets it up)
null stands for a conversation that the template or jinja2 refuses.

Contents and arguments come in every form that OpenAI's API allows. A template gets them as vLLM and llama.cpp feed
theirs: in the form that it was written for, which is noted here from reading it.
"""
import datetime
import json
import pathlib
import sys

import jinja2
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

HERE = pathlib.Path(__file__).parent
NOW = datetime.datetime(2026, 3, 7)
TOKENS = {  # BOS and EOS of each family's instruct model
    "smollm2": ("<|im_start|>", "<|im_end|>"), "qwen2.5": ("", "<|im_end|>"), "qwen3": ("", "<|im_end|>"),
    "llama-3.2": ("<|begin_of_text|>", "<|eot_id|>"), "tinyllama": ("<s>", "</s>"),
    "mistral-7b": ("<s>", "</s>"), "mistral-nemo": ("<s>", "</s>"),
    "functionary-v3.2": ("<|begin_of_text|>", "<|eot_id|>"), "glm-4.6": ("", "<|endoftext|>"),
    "mistral-small-3.2": ("<s>", "</s>"), "qwen3-coder": ("", "<|im_end|>"),
    "deepseek-r1-qwen": ("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"),
}
PARTS = {  # roles whose content the template also takes as a list; all take a text
    "glm-4.6": ["system", "user", "assistant"],
    "mistral-small-3.2": ["user", "assistant"],  # of a system message it writes the first part only
}
TEXT_ARGUMENTS = ["functionary-v3.2"]  # written for arguments as a text, the others for an object


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
env.filters["tojson"] = tojson
env.globals["raise_exception"] = raise_exception
env.globals["strftime_now"] = lambda format: NOW.strftime(format)


def arguments(family, given):
    if isinstance(given, str):
        text = given if given.strip() else "{}"
        if family in TEXT_ARGUMENTS:
            return text
        try:
            return json.loads(text)
        except ValueError:
            return text
    if family in TEXT_ARGUMENTS:
        return json.dumps(given, ensure_ascii=False, separators=(",", ":"))
    return given


def fed(family, message):
    content = message.get("content")
    if isinstance(content, list) and message["role"] not in PARTS.get(family, []):
        content = "\n".join(part["text"] for part in content)
    message = {**message, "content": "" if content is None else content}
    if "tool_calls" in message:
        message["tool_calls"] = [
            {**call, "function": {**call["function"], "arguments": arguments(family, call["function"]["arguments"])}}
            for call in message["tool_calls"]
        ]
    return message


conversations = json.loads((HERE / "conversations.json").read_text())
out = {}
for family, (bos, eos) in TOKENS.items():
    template = env.from_string((HERE / f"{family}.jinja").read_text())
    rows = {}
    for name, c in conversations.items():
        try:
            rows[name] = template.render(
                messages=[fed(family, m) for m in c["messages"]], tools=c.get("tools"), documents=None,
                add_generation_prompt=c.get("add_generation_prompt", False),
                bos_token=bos, eos_token=eos, **c.get("vars", {}))
        except Exception as e:
            print(family, name, type(e).__name__, e, file=sys.stderr)
            rows[name] = None
    out[family] = {"bos": bos, "eos": eos, "texts": rows}
print(json.dumps(out, ensure_ascii=False, indent=1))
