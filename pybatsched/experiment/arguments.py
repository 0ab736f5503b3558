"""Check the arguments of the functions for experiments, and name them as Python users do.

The code behind these functions also serves the commands, and its errors name options such as `--units`. A function
with `@public` raises the same errors with the names of its own arguments.
"""

from __future__ import annotations

import inspect
import math
import numbers
import re
import types
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, wraps
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, ParamSpec, TypeVar, Union, get_args, get_origin

from pybatsched.errors import BrokenPromiseError, InputError

P = ParamSpec("P")
R = TypeVar("R")

#: Arguments by the options of the commands that they stand for. All other options stay: they are those of Batsim.
_NAMES: Final = {
    "--color": "color",
    "--from": "begin",
    "--journal": "journal=True",
    "--label": "labels",
    "--only": "only",
    "--policy": "policy",
    "--procs": "n_procs",
    "--tau": "tau_s",
    "--to": "end",
} | {
    f"--{name.replace('_', '-')}": name
    for name in (
        "baseline",
        "clock",
        "each",
        "energy",
        "events",
        "format",
        "lenient",
        "mapping",
        "measure",
        "memory_unit",
        "partition",
        "scale",
        "seed",
        "size_in",
        "stop_at",
        "timezone",
        "units",
        "walltimes",
        "width",
    )
}
_OPTION: Final = re.compile(r"(?<![\w-])(--[a-z][a-z-]*)(?: (N|P|DIR|FILE)\b)?|^-e |-o (?='?[A-Za-z_…])")
_COMMAND: Final = re.compile(r"(`[^`]*`)")  # a whole command stays as it is
#: The files of a run in its temporary directory (`running.Folder`), which the user does not know.
_TEMPORARY: Final = re.compile(r"^\S*[/\\]pybatsched-\w{8}[/\\]run\S*: ")
#: The directory of this package. Errors and warnings show lines of other code.
PACKAGE: Final = str(Path(__file__).parents[1])


def in_python(text: str) -> str:
    """Return a text with options of the commands replaced by the names of arguments, and no temporary file. O(text).

    >>> in_python("--units node: expected -p; use `pybatsched platform list --units` or --size-in cores")
    'units node: expected -p; use `pybatsched platform list --units` or size_in cores'
    """
    parts = _COMMAND.split(_TEMPORARY.sub("", text))
    return "".join(part if part.startswith("`") else _OPTION.sub(_renamed, part) for part in parts)


def _renamed(found: re.Match[str]) -> str:
    return _NAMES.get(found[1], found[0]) if found[1] else ""


def check_count(name: str, value: object) -> None:
    """Raise InputError unless a value is a whole number, 1 or more."""
    if not isinstance(value, int) or value < 1:
        raise InputError(f"{name}: expected a whole number, 1 or more, found {value!r:.40}")


def warn(text: str) -> None:
    """Show a warning at the line of the user's code that called this package."""
    frame, level = inspect.currentframe(), 1
    while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame, level = frame.f_back, level + 1
    warnings.warn(in_python(text), stacklevel=level)


def public(function: Callable[P, R]) -> Callable[P, R]:
    """Check the types of the arguments by their annotations, and name arguments in errors as Python does.

    Numbers of other packages, such as numpy, become plain ones. Annotations that cannot be evaluated are not checked.
    Raises InputError for a wrong type, and TypeError for a wrong name, as Python does. O(arguments).
    """
    signature = inspect.signature(function)

    @cache
    def kinds() -> dict[str, Any]:
        return {name: _evaluated(one.annotation, function) for name, one in signature.parameters.items()}

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{function.__name__}() {error}") from None
        try:
            for name, value in bound.arguments.items():
                kind = kinds()[name]
                if signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD or kind is Any:
                    continue
                bound.arguments[name] = checked_type(name, value, kind)
            return function(*bound.args, **bound.kwargs)
        except (InputError, BrokenPromiseError) as error:
            error.args = tuple(in_python(part) if isinstance(part, str) else part for part in error.args)
            raise

    return checked


def _evaluated(annotation: Any, function: Callable[..., Any]) -> Any:
    """Return an annotation as a type; Any if it needs an optional package, or if there is none."""
    if annotation is inspect.Parameter.empty:
        return Any
    try:
        return eval(annotation, function.__globals__) if isinstance(annotation, str) else annotation  # noqa: S307  ours
    except (NameError, AttributeError):
        return Any


def checked_type(name: str, value: Any, kind: Any) -> Any:
    """Return a value of the expected type, a number as a plain one. Raises InputError."""
    if not _fits(value, kind):
        found = f"{value!r:.60}" if value is None or isinstance(value, _SHOWN) else _article(type(value).__name__)
        raise InputError(f"{name}: expected {_words(kind)}, found {found}")
    if type(value) in {int, float, bool} or not isinstance(value, numbers.Number):
        return value
    return int(value) if isinstance(value, numbers.Integral) else float(value)  # type: ignore[arg-type]


_SHOWN: Final = (str, int, float, list, tuple, dict, set, range)


def _parts(kind: Any) -> tuple[Any, ...]:
    """Return the types of a union."""
    if get_origin(kind) in {Union, types.UnionType}:
        return tuple(part for one in get_args(kind) for part in _parts(one))
    return (kind,)


def _fits(value: Any, kind: Any) -> bool:
    """Return whether a value is of a type."""
    return any(_check_of(part).fits(value) for part in _parts(kind))


class _Check(NamedTuple):
    """What is expected, in words, and whether a value is that."""

    words: str
    fits: Callable[[Any], bool]


@cache
def _check_of(kind: Any) -> _Check:
    """Return the check of a type that is not a union."""
    origin, args = get_origin(kind), get_args(kind)
    check = _PLAIN.get(kind)
    if check is not None:
        return check
    if origin is Literal:
        return _Check(f"one of {', '.join(args)}", lambda value: isinstance(value, str) and value in args)
    if origin is type:  # the registry of policies says what is wrong with a class
        return _Check(f"a subclass of {args[0].__name__}", lambda value: isinstance(value, type))
    if origin is Callable:
        return _Check("a function", lambda value: callable(value) and not isinstance(value, type))
    if origin is Mapping or origin in _GROUPS:
        return _check_of_group(origin, args)
    return _Check(_article(kind.__name__), lambda value: isinstance(value, kind))


def _check_of_group(origin: Any, args: tuple[Any, ...]) -> _Check:
    """Return the check of a mapping or a sequence. A text is not a sequence."""
    noun = _check_of(_parts(args[-1] if origin is Mapping else args[0])[0]).words.partition(" ")[2]

    def is_mapping(value: Any) -> bool:
        return isinstance(value, Mapping) and all(
            _fits(key, args[0]) and _fits(one, args[1]) for key, one in value.items()
        )

    def is_group(value: Any) -> bool:
        if isinstance(value, str | bytes | Mapping) or not isinstance(value, Collection):
            return origin is Iterable and isinstance(value, Iterator)  # its values are not known yet
        return all(_fits(one, args[0]) for one in value)

    of = f" of {noun}s" if noun else ""  # values of type Any have no name
    return _Check(f"a dictionary{of}", is_mapping) if origin is Mapping else _Check(f"a list{of}", is_group)


def _is_number(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, numbers.Real) and not math.isnan(value)


#: Checks of plain types.
_PLAIN: Final[dict[Any, _Check]] = {
    Any: _Check("anything", lambda _value: True),
    bool: _Check("True or False", lambda value: isinstance(value, bool)),
    float: _Check("a number", _is_number),
    int: _Check("a whole number", lambda value: _is_number(value) and isinstance(value, numbers.Integral)),
    object: _Check("anything", lambda _value: True),
    str: _Check("a text", lambda value: isinstance(value, str)),
    type(None): _Check("None", lambda value: value is None),
    Path: _Check("a path", lambda value: isinstance(value, Path)),
}
_GROUPS: Final = frozenset({tuple, Sequence, Iterable, Collection})


def _words(kind: Any) -> str:
    """Return what is expected, such as `a text or None`."""
    texts = list(dict.fromkeys(_check_of(part).words for part in _parts(kind)))
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} or {texts[-1]}"


def _article(noun: str) -> str:
    return f"{'an' if noun[:1].lower() in 'aeio' else 'a'} {noun}"
