"""Describe errors of pydantic models in the words of this project: place, expected value, value found."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType, NoneType, UnionType
from typing import Annotated, Any, Final, Literal, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from pybatsched.errors import InputError, did_you_mean

_Parameters = Mapping[str, Any]
_TABLE: Final = "a table of keys and values"
_KINDS: Final[dict[Any, str]] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    dict: _TABLE,
}
_LISTS: Final[dict[Any, str]] = {
    int: "a list of whole numbers such as [1, 2, 3]",
    float: "a list of numbers such as [1, 2.5]",
    str: 'a list of texts such as ["a", "b"]',
}


@contextmanager
def for_pydantic() -> Iterator[None]:
    """Turn an InputError inside the `with` block into a ValueError, which pydantic expects of validators."""
    try:
        yield
    except InputError as error:
        raise ValueError(str(error)) from None


def _number(value: Any) -> str:
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        value = int(value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def _choices(parameters: _Parameters) -> str:
    names = re.findall(r"'((?:[^'\\]|\\.)*)'|([^\s,']+)", str(parameters["expected"]))
    found = [quoted or plain for quoted, plain in names if plain != "or"]
    return found[0] if len(found) == 1 else f"one of {', '.join(found)}"


def _length(parameters: _Parameters, bound: str, word: str) -> str:
    n = parameters[bound]
    return f"a list of {word} {n} value{'' if n == 1 else 's'}"


def _text_of_length(parameters: _Parameters) -> str:
    n = parameters["min_length"]
    return "a text that is not empty" if n == 1 else f"a text of at least {n} characters"


def _says(text: str) -> Callable[[_Parameters], str]:
    return lambda _parameters: text


#: The expected value for each type of pydantic's errors, from the parameters of the error.
_EXPECTED: Final[dict[str, Callable[[_Parameters], str]]] = {
    "bool_parsing": _says(_KINDS[bool]),
    "bool_type": _says(_KINDS[bool]),
    "int_parsing": _says(_KINDS[int]),
    "int_parsing_size": _says("a whole number with fewer digits"),
    "int_type": _says(_KINDS[int]),
    "int_from_float": _says(_KINDS[int]),
    "float_parsing": _says(_KINDS[float]),
    "float_type": _says(_KINDS[float]),
    "finite_number": _says("a finite number"),
    "string_type": _says(_KINDS[str]),
    "string_unicode": _says("a text in UTF-8"),
    "string_too_short": _text_of_length,
    "string_too_long": lambda parameters: f"a text of at most {parameters['max_length']} characters",
    "string_pattern_mismatch": lambda parameters: f"a text that matches {parameters['pattern']}",
    "literal_error": _choices,
    "enum": _choices,
    "greater_than": lambda parameters: f"more than {_number(parameters['gt'])}",
    "greater_than_equal": lambda parameters: f"{_number(parameters['ge'])} or more",
    "less_than": lambda parameters: f"less than {_number(parameters['lt'])}",
    "less_than_equal": lambda parameters: f"at most {_number(parameters['le'])}",
    "multiple_of": lambda parameters: f"a multiple of {_number(parameters['multiple_of'])}",
    "too_short": lambda parameters: _length(parameters, "min_length", "at least"),
    "too_long": lambda parameters: _length(parameters, "max_length", "at most"),
    "tuple_type": _says("a list"),
    "list_type": _says("a list"),
    "set_type": _says("a list"),
    "frozen_set_type": _says("a list"),
    "dict_type": _says(_TABLE),
    "mapping_type": _says(_TABLE),
    "model_type": _says(_TABLE),
    "model_attributes_type": _says(_TABLE),
    "none_required": _says("nothing"),
}
#: Errors of a type. The model's annotation says more than pydantic: a list of what.
_OF_LISTS: Final = frozenset({"tuple_type", "list_type"})


class Problem(NamedTuple):
    """One error: its place in the model, the text, and whether a value is missing or an unknown key is given."""

    place: tuple[str | int, ...]
    text: str
    is_missing: bool = False
    is_unknown: bool = False

    def __str__(self) -> str:
        where = place_text(self.place)
        if not where:
            return self.text
        return f"{where} {self.text}" if self.is_missing else f"{where}: {self.text}"


def problems(error: ValidationError, model: type[BaseModel]) -> list[Problem]:
    """Return all errors that pydantic found in a value for `model`. O(errors)."""
    found: list[Mapping[str, Any]] = [dict(one) for one in error.errors(include_url=False)]
    return [_problem(one, model) for one in found if not _is_consequence(one, found)]


def lines(error: ValidationError, model: type[BaseModel]) -> Iterator[str]:
    """Yield a line for each of the first five errors, then how many others there are."""
    found = problems(error, model)
    yield from map(str, found[:5])
    if len(found) > 5:
        yield f"and {len(found) - 5} more"


def message(problem: Mapping[str, Any]) -> str:
    """Return what was expected, without the value found, or the message of the model's own validator."""
    expected = _EXPECTED.get(problem["type"])
    if expected is not None:
        return f"expected {expected(problem.get('ctx', {}))}"
    text: str = problem["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
    return re.sub("^Input should (be|have) ", "expected ", text)


def shown(value: Any) -> str:
    """Return a value in an error message, as TOML and JSON write it, at most 80 characters."""
    return "nothing" if value is None else str(value).lower() if isinstance(value, bool) else f"{value!r:.80}"


def place_text(place: Sequence[str | int]) -> str:
    """Return a place in a model; members of lists are counted from 1.

    >>> place_text(("workload", 0, "files", "gap_s")), place_text(("seeds", 2))
    ('workload 1: files.gap_s', 'seeds 3')
    """
    text = ""
    after_number = False
    for part in place:
        is_number = isinstance(part, int)
        between = (
            ""
            if not text
            else " "
            if is_number and not after_number
            else ": "
            if not is_number and after_number
            else "."
        )
        text += f"{between}{part + 1 if isinstance(part, int) else part}"
        after_number = is_number
    return text


def close_to(key: str, known: Iterable[str]) -> str:
    """Return a hint for an unknown key: the known key that is most like it, else all known keys."""
    names = list(known)
    return did_you_mean(key, names, "").removeprefix("; ") or f"expected one of {', '.join(names)}"


def _problem(problem: Mapping[str, Any], model: type[BaseModel]) -> Problem:
    place = tuple(problem["loc"])
    kind, value = problem["type"], problem["input"]
    if kind == "extra_forbidden":
        around = model_in(_annotation(model, place[:-1]))
        hint = "" if around is None else f"; {close_to(str(place[-1]), _keys(around))}"
        return Problem(place[:-1], f"unknown key {str(place[-1])!r:.60}{hint}", is_unknown=True)
    annotation = _annotation(model, place)
    if kind == "missing":
        expected = _kind_text(annotation)
        return Problem(place, "is missing" + (f"; expected {expected}" if expected else ""), is_missing=True)
    text = message(problem)
    if kind in _OF_LISTS and (expected := _kind_text(annotation)):
        text = f"expected {expected}"
    if place and place[-1] in getattr(model_in(_annotation(model, place[:-1])), "SETTINGS", ()):
        return Problem(place[:-1], text)  # the text names the key
    if place and "found " not in text and not isinstance(value, Mapping):
        text += f", found {shown(value)}"
    return Problem(place, text)


def _is_consequence(problem: Mapping[str, Any], others: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether a list is too short only because of an error in its members, which pydantic leaves out."""
    place = problem["loc"]
    return problem["type"] == "too_short" and any(
        len(other["loc"]) > len(place) and other["loc"][: len(place)] == place for other in others
    )


def members(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return the fields of a model by their names in files and in jobs."""
    found = {}
    for name, info in model.model_fields.items():
        alias = info.validation_alias or info.alias
        found[alias if isinstance(alias, str) else name] = info
    return found


def _keys(model: type[BaseModel]) -> list[str]:
    """Return the keys of a table. A member in `SETTINGS` is not a key: it holds the values of other keys."""
    held: Mapping[str, Sequence[str]] = getattr(model, "SETTINGS", {})
    return list(dict.fromkeys(key for name in members(model) for key in held.get(name, (name,))))


_UNKNOWN: Final = object()


def _annotation(model: type[BaseModel], place: Sequence[str | int]) -> Any:
    """Return the declared type at a place of a model."""
    kind: Any = model
    for part in place:
        kind = plain(kind)
        if isinstance(part, int):
            inner = get_args(kind)
            kind = inner[min(part, len(inner) - 1)] if inner and inner[-1] is not ... else inner[0] if inner else None
        else:
            within = model_in(kind)
            info = None if within is None else members(within).get(part)
            kind = _UNKNOWN if info is None else info.annotation
    return plain(kind)


def plain(kind: Any) -> Any:
    """Return a type without its constraints and without None."""
    while True:
        origin = get_origin(kind)
        if origin is Annotated:
            kind = get_args(kind)[0]
        elif origin in {Union, UnionType}:
            parts = [part for part in get_args(kind) if part is not NoneType]
            if len(parts) != 1:
                return kind
            kind = parts[0]
        else:
            return kind


def model_in(kind: Any) -> type[BaseModel] | None:
    """Return a type if it is a model, else None."""
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def _kind_text(kind: Any) -> str:
    """Return a declared type in words; empty if it has none."""
    origin = get_origin(kind)
    if origin is Literal:
        return _choices(MappingProxyType({"expected": ", ".join(map(repr, get_args(kind)))}))
    if origin in {tuple, list}:
        inner = plain(get_args(kind)[0])
        return _LISTS.get(inner, "a list of tables" if model_in(inner) else "a list")
    if model_in(kind) is not None:
        return _TABLE
    return _KINDS.get(origin or kind, "") if isinstance(origin or kind, type) else ""
