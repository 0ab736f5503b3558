"""Check the fields of jobs against models, without pydantic as long as no job has a field to check."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Set as AbstractSet
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from pybatsched.core.model_refs import ModelRef

if TYPE_CHECKING:
    from pybatsched.core.fields import Fault, FieldModel, ModelCheck

#: A model of job fields, imported or not.
FieldsLike: TypeAlias = "type[FieldModel] | ModelRef"


class FieldCheck:
    """Checks the jobs of one run against a model, in order of submission. `owner` is the policy with this model.

    `context` is what is known before the run starts: `clusters`, the names of the machine's clusters.

    O(1) for jobs without the model's fields. The estimate, which most jobs have, is checked without pydantic first:
    this is thirty times as fast.
    """

    def __init__(self, model: FieldsLike, owner: str = "", context: Mapping[str, Any] = MappingProxyType({})) -> None:
        self._model = model
        self._owner = owner
        self._context = context
        self._check: ModelCheck | None = None  # made when a job has a field to check
        if isinstance(model, ModelRef):
            names, self._plans, self._always = frozenset(model.defaults), "estimate" in model.defaults, False
        else:
            self._check = self._loaded()
            names, self._plans, self._always = self._check.names, self._check.plans, self._check.has_required
        #: The fields of the model.
        self.names = names
        self._own = names - {"estimate"} if self._plans else names

    def _loaded(self) -> ModelCheck:
        from pybatsched.core.fields import ModelCheck  # noqa: PLC0415  imports pydantic

        model = self._model.load() if isinstance(self._model, ModelRef) else self._model
        return ModelCheck(model, self._owner, self._context)

    def faults(self, fields: Mapping[str, Any]) -> Iterator[Fault]:
        """Return all errors in a job's fields. Raises PolicyError for an exception of a validator."""
        if self.needs_no_check(fields):
            return
        if self._check is None:
            self._check = self._loaded()
        yield from self._check.faults(fields)

    def concerns(self, names: AbstractSet[str], estimates: Callable[[], Iterable[Any]]) -> bool:
        """Return whether a job with some of these fields, and these estimates, can have an error. O(jobs)."""
        if self._always or not names.isdisjoint(self._own):
            return True
        return self._plans and "estimate" in names and not all(map(_is_estimate, estimates()))

    def needs_no_check(self, fields: Mapping[str, Any]) -> bool:
        """Return whether a job has no field that the model must check, as most jobs. O(fields of the model)."""
        if self._always or not fields.keys().isdisjoint(self._own):
            return False
        return not self._plans or _is_estimate(fields.get("estimate", 1))

    def error_text(self, job_id: str, fields: Mapping[str, Any]) -> str | None:
        """Return the first error in the fields of a job of a message; None if there is none."""
        return next((fault.text_for(job_id) for fault in self.faults(fields)), None)


def _is_estimate(value: Any) -> bool:
    """Return whether a value is a usual estimate, which the model accepts."""
    if type(value) is float:
        return 0 < value < math.inf
    return type(value) is int and 0 < value < 1 << 63
