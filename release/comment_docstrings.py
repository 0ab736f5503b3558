"""An extension of griffe, which reads the code for the documentation site.

Comments that start with ``#:`` above an attribute become its docstring. Examples in docstrings become code blocks.
"""

from __future__ import annotations

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
