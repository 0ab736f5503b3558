"""An extension of griffe, which reads the code for the documentation site.

Comments that start with ``#:`` above an attribute become its docstring. Examples in docstrings become code blocks.
Records and enumerations show their fields: griffe knows the parameters of dataclasses only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import griffe
from site_pages import comment_above, fenced_examples  # imported by site_hooks.py before


class CommentDocstrings(griffe.Extension):
    """Adapt the docstrings of this project to Markdown."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Handle each class, function, attribute and module that griffe has read."""
        if obj.docstring is None and obj.is_attribute and obj.lineno is not None:
            text = comment_above(list(obj.lines_collection[obj.filepath]), obj.lineno)
            if text:
                obj.docstring = griffe.Docstring(text, lineno=obj.lineno, parent=obj)
        if obj.docstring is not None:
            obj.docstring.value = fenced_examples(obj.docstring.value)

    def on_class_members(self, *, cls: griffe.Class, **_: Any) -> None:
        """Show the fields of a record, or the members of an enumeration, after the first paragraph of its docstring."""
        fields = list(_fields(cls))
        if cls.docstring is None or not fields:
            return
        first, _, rest = cls.docstring.value.partition("\n\n")
        lines = "\n".join(f"    {field}," for field in fields)
        call = f"```python\n{cls.name}(\n{lines}\n)\n```"
        if any("Enum" in str(base) for base in cls.bases):
            call = "```python\n" + "\n".join(fields) + "\n```"
        cls.docstring.value = "\n\n".join(part for part in (first, call, rest) if part)


def _fields(cls: griffe.Class) -> Iterator[str]:
    """Yield the fields of a class without `__init__`, as they are written. Those of a dataclass are known to griffe."""
    if "__init__" in cls.members or "dataclass" in cls.labels:
        return
    is_enum = any("Enum" in str(base) for base in cls.bases)
    for name, member in cls.members.items():
        if name.startswith("_") or not member.is_attribute or "property" in member.labels or name == "model_config":
            continue
        if is_enum:
            yield f"{name} = {member.value}"
        elif member.annotation is not None and "instance-attribute" in member.labels:
            default = str(member.value) if member.value is not None else ""
            default = "…" if default.startswith("Field(") else default
            yield f"{name}: {member.annotation}" + f" = {default}" * bool(default)
