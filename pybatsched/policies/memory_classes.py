"""Which class of nodes a job belongs to: nodes differ in memory, and a job needs some of it on its node."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any, Final

_MOST: Final = 1e300


def need_of(fields: Mapping[str, Any]) -> float:
    """Give the memory that a job needs on its node, in GB: `node_memory_gb`, else its file, `input_size_gb`, else 0.

    Raises ValueError that names the field for what cannot be one; who calls knows the job. O(1).

    >>> need_of({"node_memory_gb": 256, "input_size_gb": 12.8}), need_of({"input_size_gb": 12.8}), need_of({})
    (256.0, 12.8, 0.0)
    """
    value = fields.get("node_memory_gb")
    if value is not None:
        if not _is_number(value) or value <= 0:
            raise ValueError(f"field node_memory_gb: expected more than 0 GB, got {str(value)[:60]}")
        return float(value)
    value = fields.get("input_size_gb")
    if value is None:
        return 0.0
    if not _is_number(value) or value < 0:
        raise ValueError(f"field input_size_gb: expected GB from 0, got {str(value)[:60]}")
    return float(value)


def _is_number(value: Any) -> bool:
    # Not `isfinite`: whole numbers may be too large even to be asked.
    return type(value) in {int, float} and -_MOST <= value <= _MOST


def class_of(need_gb: float, classes: Sequence[float]) -> float | None:
    """Give the smallest of some memories, in ascending order, that holds a need; None if none does. O(log n).

    >>> class_of(0, [128, 256]), class_of(128, [128, 256]), class_of(128.1, [128, 256]), class_of(300, [128, 256])
    (128, 128, 256, None)
    """
    place = bisect_left(classes, need_gb)
    return classes[place] if place < len(classes) else None
