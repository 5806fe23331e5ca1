"""Writes bundle.json: what Python's jinja2 makes of the templates that come with llama.cpp.

Usage: python3 bundle.py FOLDER > bundle.json   (jinja2 3.1; FOLDER has the templates, as scripts/tokenizers.mjs puts
them in build/llama/templates)

Each template renders the conversations of ../../testdata, once with contents as texts and once with lists of parts. Its
line has the beginnings of the SHA-256 of what it writes, - for what it or jinja2 refuses.
"""
import hashlib
import json
import pathlib
import sys

from expect import env

HERE = pathlib.Path(__file__).parent


def fed(message, parts):
    message = dict(message)
    content = message.get("content") or ""
    if parts and isinstance(content, str):
        content = [{"type": "text", "text": content}]
    if not parts and isinstance(content, list):
        content = "\n".join(part["text"] for part in content)
    message["content"] = content
    for call in message.get("tool_calls", []):
        arguments = call["function"]["arguments"]
        if isinstance(arguments, str):
            try:
                call["function"]["arguments"] = json.loads(arguments or "{}")
            except ValueError:
                pass
    return message


def main():
    variables = []
    for parts in False, True:
        for c in json.loads((HERE / "../../testdata/conversations.json").read_text()).values():
            variables.append({
                "messages": [fed(m, parts) for m in c["messages"]], "tools": c.get("tools"), "documents": None,
                "add_generation_prompt": c.get("add_generation_prompt", False), "bos_token": "<s>",
                "eos_token": "</s>", **c.get("vars", {})})
    lines = {}
    for file in sorted(pathlib.Path(sys.argv[1]).glob("*.jinja")):
        template = env.from_string(file.read_text())
        hashes = []
        for v in variables:
            try:
                text = template.render(json.loads(json.dumps(v)))
                hashes.append(hashlib.sha256(text.encode()).hexdigest()[:8])
            except Exception:
                hashes.append("-")
        lines[file.name] = " ".join(hashes)
    json.dump({"variables": variables, "templates": lines}, sys.stdout, ensure_ascii=False, indent=0)
    print()


main()
