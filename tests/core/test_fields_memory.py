"""The memory class of a job: the smallest memory that holds its need."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, strategies as st

from pybatsched.core.fields import memory_class, memory_need_gb


@given(need=st.floats(0, 2000), classes=st.lists(st.integers(1, 1024), unique=True).map(sorted))
def test_the_least_memory_that_holds_it(need: float, classes: list[int]) -> None:
    assert memory_class(need, classes) == min((memory for memory in classes if memory >= need), default=None)


@pytest.mark.parametrize(
    ("fields", "need"),
    [
        ({}, 0),
        ({"input_size_gb": 0}, 0),
        ({"input_file": "a", "input_size_gb": 6.4}, 6.4),
        ({"node_memory_gb": 0.5, "input_size_gb": 6.4}, 0.5),
        ({"node_memory_gb": None, "input_size_gb": None}, 0),
    ],
)
def test_what_a_job_needs(fields: dict[str, Any], need: float) -> None:
    assert memory_need_gb(fields) == need


@pytest.mark.parametrize("field", ["node_memory_gb", "input_size_gb"])
@pytest.mark.parametrize("value", [-1, -1e-9, math.nan, math.inf, True, "12", [1]])
def test_invalid_memory_needs_are_rejected(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"^field {field}: expected"):
        memory_need_gb({field: value})


def test_a_memory_need_of_zero_is_rejected() -> None:
    with pytest.raises(ValueError, match="^field node_memory_gb: expected more than 0 GB, found 0$"):
        memory_need_gb({"node_memory_gb": 0})
