"""A word to the compiler: which classes may have subclasses in plain Python.

Installations that ask for it compile the hot modules with mypyc; a class that authors of policies may subclass says so
by ``@mypyc_attr(allow_interpreted_subclasses=True)``. Uncompiled, that does nothing and needs nothing installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["mypyc_attr"]

if TYPE_CHECKING:
    from mypy_extensions import mypyc_attr
else:

    def mypyc_attr(*_words: str, **_settings: Any) -> Any:
        """Give the class as it is."""
        return lambda cls: cls
