"""Pydantic models that are imported when a value has to be checked.

Pydantic takes most of the start of a short run, and most runs have no option and no job field to check. So a policy may
name its models instead of importing them, with the defaults of their fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

#: The defaults of the options of every policy.
COMMON: Final[Mapping[str, Any]] = dict.fromkeys(
    ("predict", "correct", "on_failure", "expected_repair_s", "host_reservations", "node_partitions")
)


def object_at(place: str) -> Any:
    """Import the object at a place ``module:name``."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


class DefaultOptions:
    """The options of a policy if none is given: each has its default, as in the model."""

    def __init__(self, defaults: Mapping[str, Any]) -> None:
        self.__dict__.update(defaults)

    def model_dump(self, *, mode: str = "json") -> dict[str, Any]:  # noqa: ARG002  as in pydantic
        """Return the options for summaries and journals, as the model does."""
        return {name: value for name, value in vars(self).items() if name not in COMMON or value is not None}


class ModelRef:
    """The place (``module:class``) of a model, and the defaults of its fields. `model_of` does not import it."""

    def __init__(self, place: str, defaults: Mapping[str, Any]) -> None:
        self.place = place
        self.defaults = defaults

    def load(self) -> type[Any]:
        """Import the model."""
        return object_at(self.place)  # type: ignore[no-any-return]

    def __get__(self, instance: object, owner: type | None = None) -> type[Any]:
        return self.load()


def model_at(place: str, **defaults: Any) -> Any:
    """Name the `Options` or `JobFields` of a policy, so that they are imported only if a value is given.

    `place` is ``module:class``. `defaults` are those of its own fields, in order; it inherits those of the base class
    of the policy.
    """
    return ModelRef(place, defaults)


def model_of(cls: type, name: str) -> Any:
    """Return the model that a class names: a `ModelRef` with all its defaults, else the model. O(bases)."""
    if cls.__module__.partition(".")[0] not in {"pybatsched", "pybatsched_schedulers"}:
        return getattr(cls, name)
    found = [vars(base)[name] for base in cls.__mro__ if name in vars(base)]
    if not isinstance(found[0], ModelRef):
        return found[0]
    defaults: dict[str, Any] = {}
    for one in reversed(found):
        if not isinstance(one, ModelRef):
            return found[0].load()  # its defaults are not known
        defaults |= one.defaults
    return ModelRef(found[0].place, defaults)
