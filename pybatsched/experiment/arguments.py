"""Check the arguments of the functions for experiments, and name settings in errors as keywords."""

from __future__ import annotations

import inspect
import math
import numbers
import re
import types
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, wraps
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, ParamSpec, TypeAlias, TypeVar, Union, get_args, get_origin

from pybatsched.deprecations import warn_user
from pybatsched.errors import InputError, PybatschedError, shown, spelled, with_article
from pybatsched.settings import as_keyword, misspelled

#: A time or a duration: seconds, or a text such as 90m, 12h, 3d or 2w.
Time: TypeAlias = float | str

P = ParamSpec("P")
R = TypeVar("R")

#: The files of a run in its temporary directory (`one_run.Folder`), which the user does not know.
_TEMPORARY: Final = re.compile(r"^\S*[/\\]pybatsched-\w{8}[/\\]run\S*: ")
#: The directory of this package. Errors show lines of other code.
PACKAGE: Final = str(Path(__file__).parents[1])


def in_python(text: str) -> str:
    """Return a text with settings as keyword arguments, and without the name of a temporary file. O(text)."""
    return spelled(_TEMPORARY.sub("", text), as_keyword)


def warn(text: str) -> None:
    """Show a warning at the line of the user's code that called this package."""
    warn_user(in_python(text))


def public(function: Callable[P, R]) -> Callable[P, R]:
    """Check the types of the arguments by their annotations, and name settings in errors as Python does.

    Numbers of other packages, such as numpy, become plain ones. Annotations that cannot be evaluated are not checked,
    nor are settings, which records check. Raises InputError for a wrong type, and for a name that is like a keyword of
    a function which `takes` settings; TypeError for another wrong name, as Python does. O(arguments).
    """
    signature = inspect.signature(function)

    @cache
    def kinds() -> dict[str, Any]:
        own = inspect.get_annotations(function)
        return {name: _evaluated(own.get(name, Any), function) for name in signature.parameters}

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            unknown = str(error).partition("unexpected keyword argument ")[2].strip("'")
            raise misspelled(function, InputError(option=unknown)) or TypeError(
                f"{function.__name__}() {error}"
            ) from None
        try:
            for name, value in bound.arguments.items():
                kind = kinds()[name]
                if signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD or kind is Any:
                    continue
                bound.arguments[name] = checked_type(name, value, kind)
            return function(*bound.args, **bound.kwargs)
        except PybatschedError as error:
            if (better := misspelled(function, error)) is not None:
                raise better from None
            error.args = (in_python(error.text), *error.args[1:])
            raise

    return checked


def _evaluated(annotation: Any, function: Callable[..., Any]) -> Any:
    """Return an annotation as a type; Any if it needs an optional package."""
    try:
        return eval(annotation, function.__globals__) if isinstance(annotation, str) else annotation  # noqa: S307  ours
    except (NameError, AttributeError):
        return Any


def checked_type(name: str, value: Any, kind: Any) -> Any:
    """Return a value of the expected type, a number as a plain one. Raises InputError."""
    if not _fits(value, kind):
        raise InputError(f"{name}: expected {_words(kind)}, found {shown(value)}")
    if type(value) in {int, float, bool} or not isinstance(value, numbers.Number):
        return value
    return int(value) if isinstance(value, numbers.Integral) else float(value)  # type: ignore[arg-type]


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
    return _Check(with_article(kind.__name__), lambda value: isinstance(value, kind))


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
