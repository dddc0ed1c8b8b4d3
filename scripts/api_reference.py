"""Prints docs/api.md, made of the docstrings of the package:

    PYTHONPATH=build/release/python .venv/bin/python scripts/api_reference.py > docs/api.md
"""

import ast
import importlib
import inspect
import re
import textwrap

HEAD = """# API reference

Made of the docstrings of the package by `scripts/api_reference.py`; the tests hold it up to date and run the examples.
[python.md](python.md) is the introduction, [from-other-code.md](from-other-code.md) is for those who know the released RTF, S4, SciPy or torchaudio."""
# Where names are defined, and under which name they are public.
MODULES = {
    "functions": "rtf",
    "response": "rtf",
    "toolbox": "rtf",
    "forms": "rtf",
    "filter_file": "rtf",
    "stream": "rtf",
    "sequences": "rtf",
    "plot": "rtf.plot",
    "released": "rtf",
    "layer": "rtf.nn",
    "s4_block": "rtf.nn",
    "sequence_model": "rtf.nn",
    "checkpoint": "rtf",
    "deployment": "rtf",
}
SECTIONS = ("Parameters", "Returns", "Raises", "Warns", "Attributes", "Examples")


def signature(name, value):
    """As one calls it: without the types, which the docstring has in words."""
    found = inspect.signature(value)
    plain = [p.replace(annotation=p.empty) for p in found.parameters.values() if p.name != "self"]
    return name + str(found.replace(parameters=plain, return_annotation=found.empty))


def public(module):
    """Functions and classes that the module itself defines, in the order of the source."""
    names = getattr(module, "__all__", [name for name in vars(module) if not name.startswith("_")])
    found = {name: inspect.unwrap(vars(module)[name]) for name in names}
    defined = {
        name: value for name, value in found.items()
        if (inspect.isfunction(value) or inspect.isclass(value)) and value.__module__ == module.__name__
    }  # fmt: skip
    return sorted(defined.items(), key=lambda item: inspect.getsourcelines(item[1])[1])


def entries(text):
    """A line that is not indented begins an entry, `name : kind`; what is indented below tells of it."""
    listed = []
    for head, below in re.findall(r"^(\S.*)\n?((?:[ ]+.*\n?|\n)*)", text.strip(), re.MULTILINE):
        name, colon, kind = head.partition(" : ")
        more = " ".join(below.split())
        listed.append((f"- `{name}`: {kind}" if colon else f"- {head}") + (f". {more}" if more else ""))
    return "\n".join(listed)


def examples(text):
    """Prose as it is, what is typed and printed in blocks."""
    pieces = []
    for piece in re.sub(r"  # doctest:.*", "", text).strip().split("\n\n"):
        pieces.append(f"```pycon\n{piece}\n```" if piece.startswith(">>>") else piece)
    return "\n\n".join(pieces)


def described(text):
    """A docstring as Markdown: the opening, then its sections."""
    opening, *rest = re.split(rf"^({'|'.join(SECTIONS)})\n-+\n", inspect.cleandoc(text), flags=re.MULTILINE)
    parts = [opening.strip()]
    for title, body in zip(rest[::2], rest[1::2]):
        parts.append(examples(body) if title == "Examples" else f"**{title}**\n\n{entries(body)}")
    return "\n\n".join(parts)


def fields(value):
    """Those of a class that have a string of their own below them."""
    body = ast.parse(textwrap.dedent(inspect.getsource(value))).body[0].body
    return [
        f"- `{statement.target.id}`: {after.value.value}" for statement, after in zip(body, body[1:])
        if isinstance(statement, ast.AnnAssign) and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
    ]  # fmt: skip


def members(value):
    """Methods and properties that the class itself has and says something about."""
    listed = []
    for name, member in vars(value).items():
        known = inspect.isfunction(member) or isinstance(member, property)
        if known and member.__doc__ and not name.startswith("_"):
            head = name if isinstance(member, property) else signature(name, member)
            listed.append(f"- `{head}`: {' '.join(member.__doc__.split())}")
    return listed


def reference():
    parts = [HEAD]
    for module_name, prefix in MODULES.items():
        module = importlib.import_module(f"rtf.{module_name}")
        parts += [f"## {module_name}", inspect.cleandoc(module.__doc__)]
        for name, value in public(module):
            parts += [f"### `{signature(f'{prefix}.{name}', value)}`", described(value.__doc__)]
            if inspect.isclass(value):
                parts.append("\n".join(fields(value) + members(value)))
    return "\n\n".join(part for part in parts if part) + "\n"


if __name__ == "__main__":
    print(reference(), end="")
