"""The decorator `mypyc_attr`, for classes that may have subclasses in plain Python.

Compiled installations compile the hot modules with mypyc. A class that authors of policies may subclass has
``@mypyc_attr(allow_interpreted_subclasses=True)``. Without compilation the decorator does nothing and needs no package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["mypyc_attr"]

if TYPE_CHECKING:
    from mypy_extensions import mypyc_attr
else:

    def mypyc_attr(*_names: str, **_settings: Any) -> Any:
        """Return a decorator that returns the class unchanged."""
        return lambda cls: cls
