"""Texts of validation errors of pydantic models."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from pybatsched import pydantic_errors


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str
    sizes: tuple[Annotated[int, Field(ge=1)], ...] = ()


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid")

    flag: bool = False
    n: Annotated[int, Field(ge=0, le=10_000)] | None = None
    share: float = Field(default=0.5, gt=0, lt=1, allow_inf_nan=False)
    kind: Literal["a", "b c"] = "a"
    version: Literal[1] = 1
    text: str = Field(default="x", min_length=1)
    part: tuple[Inner, ...] = ()
    each: tuple[str, ...] = Field(default=("x",), min_length=1)
    where: dict[str, Any] = {}
    since: int = Field(default=0, alias="from")

    @field_validator("each")
    @classmethod
    def _distinct(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(names)) < len(names):
            raise ValueError("expected each name once")
        return names


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"flag": "maybe"}, "flag: expected true or false, found 'maybe'"),
        ({"n": "x"}, "n: expected a whole number, found 'x'"),
        ({"n": -1}, "n: expected 0 or more, found -1"),
        ({"n": 20_000}, "n: expected at most 10,000, found 20000"),
        ({"share": 0}, "share: expected more than 0, found 0"),
        ({"share": 1}, "share: expected less than 1, found 1"),
        ({"share": float("inf")}, "share: expected a finite number, found inf"),
        ({"share": "x"}, "share: expected a number, found 'x'"),
        ({"kind": "c"}, "kind: expected one of a, b c, found 'c'"),
        ({"version": 2}, "version: expected 1, found 2"),
        ({"text": True}, "text: expected a text, found true"),
        ({"text": ""}, "text: expected a text that is not empty, found ''"),
        ({"part": 5}, "part: expected a list of tables, found 5"),
        (
            {"part": [{"name": "x", "sizes": "3"}]},
            "part 1: sizes: expected a list of whole numbers such as [1, 2, 3], ",
        ),
        ({"part": [{"name": "x", "sizes": [3, 0]}]}, "part 1: sizes 2: expected 1 or more, found 0"),
        ({"part": [{}]}, "part 1: name is missing; expected a text"),
        ({"part": [{"name": "x"}, {"name": "x", "size": 3}]}, "part 2: unknown key 'size'; did you mean 'sizes'?"),
        ({"part": [{"name": "x", "zork": 3}]}, "part 1: unknown key 'zork'; expected one of name, sizes"),
        ({"form": 3}, "unknown key 'form'; did you mean 'from'?"),
        ({"each": []}, "each: expected a list of at least 1 value, found []"),
        ({"each": ["a", "a"]}, "each: expected each name once, found ['a', 'a']"),
        ({"where": 5}, "where: expected a table of keys and values, found 5"),
        ({"text": None}, "text: expected a text, found nothing"),
    ],
)
def test_errors_name_the_place_the_expected_value_and_the_value_found(given: dict[str, Any], text: str) -> None:
    with pytest.raises(ValidationError) as error:
        Model.model_validate(given)
    (line,) = pydantic_errors.lines(error.value, Model)
    assert line.startswith(text)


def test_at_most_five_errors_are_listed() -> None:
    with pytest.raises(ValidationError) as error:
        Model.model_validate({f"x{number}": 1 for number in range(8)})
    lines = list(pydantic_errors.lines(error.value, Model))
    assert (len(lines), lines[-1]) == (6, "and 3 more")
