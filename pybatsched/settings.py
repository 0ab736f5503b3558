"""Settings: the fields of frozen records, each with its kind of value, default, unit and help, in one place."""

from __future__ import annotations

import dataclasses
import inspect
import math
import numbers
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Final, ParamSpec, Self, TypeVar, dataclass_transform

import msgspec

from pybatsched.core.instants import A_SPAN, span_of
from pybatsched.errors import InputError, did_you_mean, not_utf8, setting

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound="Checked")


class Kind(msgspec.Struct, frozen=True):
    """A kind of value: what is expected, a function that returns it or None, and the name of a value in the help.

    `of_text` reads it from a word of a command line. `choices` are the allowed values, if they can be listed. `also` is
    the type of other values that are brought into the form of the field.
    """

    expected: str
    of: Callable[[Any], Any]
    metavar: str = ""
    of_text: Callable[[str], Any] = str
    choices: tuple[str, ...] = ()
    unit: str = ""
    also: str = ""

    def read(self, name: str, value: Any) -> Any:
        """Return a checked value of the argument or setting `name`. Raises InputError that names it."""
        found = self.of(value)
        if found is None:
            raise InputError(field=name, expected=self.expected, found=value)
        return found


def _real(value: Any) -> Any:
    """Return a finite number of any type, or in a text, as a float, an integer unchanged; None for anything else."""
    value = _number_of_text(value) if isinstance(value, str) else value
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return int(value) if isinstance(value, numbers.Integral) else found if math.isfinite(found) else None


def _seconds(value: Any) -> float | None:
    found = span_of(value) if isinstance(value, str) else _real(value)
    return None if found is None or found < 0 else float(found)


def _above_zero(value: Any) -> float | None:
    found = _real(value)
    return None if found is None or found <= 0 else found


def _number_of_text(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _path(value: Any) -> str | None:
    return os.fspath(value) if isinstance(value, str | os.PathLike) and os.fspath(value) else None


def _texts(value: Any) -> tuple[str, ...] | None:
    """Return a list of texts, or a single one, as a tuple. Numbers are texts: partitions of SWF have numbers."""
    parts: Any = (value,) if isinstance(value, str | int | os.PathLike) else value
    if isinstance(parts, Mapping) or not isinstance(parts, Sequence):
        return None
    if not all(isinstance(part, str | int | os.PathLike) and not isinstance(part, bool) for part in parts):
        return None
    return tuple(str(part) for part in parts)


def whole(least: int = 1, most: int | None = None) -> Kind:
    """Return the kind of whole numbers in a range."""

    def of(value: Any) -> int | None:
        found = _real(value)
        found = int(found) if isinstance(found, float) and found.is_integer() else found
        return found if isinstance(found, int) and found >= least and (most is None or found <= most) else None

    upto = f", {least} or more" if most is None else f" from {least:,} to {most:,}"
    return Kind(f"a whole number{upto}", of, "N", _number_of_text)


def one_of(*values: str) -> Kind:
    """Return the kind of a value from a list."""

    def of(value: Any) -> str | None:
        return value if isinstance(value, str) and value in values else None

    return Kind(f"one of {', '.join(values)}", of, choices=values)


def record(make: Callable[[Any], Any], expected: str, metavar: str = "", also: str = "") -> Kind:
    """Return the kind of a value that a function makes. It raises InputError for a wrong one."""
    return Kind(expected, make, metavar, also=also)


SWITCH: Final = Kind("true or false", lambda value: value if isinstance(value, bool) else None)
TIME: Final = Kind(A_SPAN, _seconds, "T", unit="s", also="str")
NUMBER: Final = Kind("a number above 0", _above_zero, "F", _number_of_text)
INTEGER: Final = Kind("a whole number", whole(-(2**63)).of, "N", _number_of_text)
TEXT: Final = Kind("a text", lambda value: value if isinstance(value, str) else None, "TEXT")
FILE: Final = Kind("the name of a file", _path, "FILE", also="Path")
TEXTS: Final = Kind("a text, or a list of texts", _texts, "NAME", also="str | Sequence[str]")
FILES: Final = Kind("the name of a file, or a list of them", _texts, "FILE", also="str | Path | Sequence[str | Path]")


class Setting(msgspec.Struct, frozen=True):
    """What is known about a setting. `options` are its names on the command line, the last one in messages.

    `negated` is the help of a switch whose option turns it off. `old` are deprecated options, with the versions since
    which they are. `alias` is another key in campaign files. `metavar` names the value in the help.
    """

    help: str
    kind: Kind
    options: tuple[str, ...]
    old: Mapping[str, str] = {}
    alias: str = ""
    negated: str = ""
    metavar: str = ""


def given(
    help_text: str,
    kind: Kind,
    default: Any = None,
    *options: str,
    old: Mapping[str, str] = {},
    alias: str = "",
    negated: str = "",
    metavar: str = "",
) -> Any:
    """Return a field of a `Checked` dataclass. Without `options`, its option has the name of the field."""
    about = Setting(help_text, kind, options, old, alias, negated, metavar)
    return dataclasses.field(default=default, metadata={"setting": about})


def _as_json(value: Any) -> Any:
    if isinstance(value, Checked):
        return value.as_json()
    return list(value) if isinstance(value, tuple) else value


class Checked:
    """A record of settings. Each value that is not the default is checked and brought into one form.

    A subclass is a `record_of_settings`. Records are immutable. The methods that dataclasses generate for each class
    are here once: generating them takes a tenth of the time to start.
    """

    #: What the record describes, before the names of its settings in errors; empty for settings of a run.
    prefix: ClassVar[str] = ""

    def __init__(self, *values: Any, **named: Any) -> None:
        fields: dict[str, dataclasses.Field[Any]] = self.__dataclass_fields__  # type: ignore[attr-defined]
        given = dict(zip(fields, values, strict=False)) | named
        if len(given) < len(values) + len(named) or not given.keys() <= fields.keys():
            raise TypeError(f"{type(self).__name__}: expected each of {', '.join(fields)} once at most")
        for name, field in fields.items():
            object.__setattr__(self, name, given.get(name, field.default))
        self.__post_init__()

    def __setattr__(self, name: str, value: object) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")

    def __eq__(self, other: object) -> bool:
        names = self.__dataclass_fields__  # type: ignore[attr-defined]
        return type(other) is type(self) and all(getattr(other, name) == getattr(self, name) for name in names)

    def __hash__(self) -> int:
        return hash((type(self), *map(str, self.changed())))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.changed())})"

    def __post_init__(self) -> None:
        for name, about in self.settings().items():
            value, default = getattr(self, name), self.default(name)
            if type(value) is not type(default) or value != default:
                object.__setattr__(self, name, about.kind.read(f"{self.prefix}{name}", value))

    @classmethod
    @cache
    def settings(cls) -> Mapping[str, Setting]:
        """Return the settings by name, in the order of the record."""
        found = {}
        for field in dataclasses.fields(cls):  # type: ignore[arg-type]
            if "setting" in field.metadata:
                about: Setting = field.metadata["setting"]
                options = about.options or (f"--{field.name.replace('_', '-')}",)
                found[field.name] = msgspec.structs.replace(about, options=options)
        return found

    @classmethod
    def default(cls, name: str) -> Any:
        """Return the default of a setting."""
        return cls.__dataclass_fields__[name].default  # type: ignore[attr-defined]

    @classmethod
    def by_name(cls, values: Mapping[str, Any]) -> Self:
        """Return the record with these settings. Raises InputError for an unknown one."""
        known = cls.names()
        for name in values:
            if name not in known:
                names = did_you_mean(str(name), known, f"; expected one of {', '.join(cls.settings())}")
                raise InputError(f"{cls.prefix.replace('.', ': ')}unknown setting {name!r:.40}{names}")
            if known[name] != name and known[name] in values:
                raise InputError(f"{setting(known[name])}: expected one value, found both {name} and {known[name]}")
        return cls(**{known[name]: value for name, value in values.items()})

    @classmethod
    def names(cls) -> dict[str, str]:
        """Return the names of all settings, other names in campaign files included."""
        found = cls.settings()
        return {name: name for name in found} | {one.alias: name for name, one in found.items() if one.alias}

    def changed(self) -> Iterator[tuple[str, Any]]:
        """Yield the settings that differ from their defaults."""
        for name in self.settings():
            value = getattr(self, name)
            if value != self.default(name):
                yield name, value

    def as_json(self) -> dict[str, Any]:
        """Return the settings that differ from their defaults, as JSON values."""
        return {name: _as_json(value) for name, value in self.changed()}

    def works_only_with(self, name: str, others: str) -> InputError:
        """Return the error for a setting that has no effect without another one."""
        return InputError(f"{setting(name)}: works only with {others}")


@dataclass_transform(frozen_default=True, field_specifiers=())
def record_of_settings(cls: type[C]) -> type[C]:
    """Make a record of a subclass of `Checked`."""
    return dataclasses.dataclass(init=False, eq=False, repr=False)(cls)


def takes(
    *records: type[Checked], without: Collection[str] = (), instead: Mapping[str, str] = {}
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Give a function with ``**settings`` the settings of these records as keywords: defaults, types and help.

    Errors say what to write `instead` of keywords that the function does not take.
    """

    def described(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)
        own = {name: one for name, one in signature.parameters.items() if name != "settings"}
        about: dict[str, tuple[Setting, Any, str]] = {}
        for record in reversed(records):  # the first record with a name has it
            for name, one in record.settings().items():
                field = record.__dataclass_fields__[name]  # type: ignore[attr-defined]
                about[name] = one, field.default, f"{one.kind.also} | {field.type}".removeprefix(" | ")
        made = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
            for name, (_, default, kind) in about.items()
            if name not in without and name not in own
        ]
        plain = [one for one in own.values() if one.kind is not one.VAR_KEYWORD]
        rest = [one for one in own.values() if one.kind is one.VAR_KEYWORD]
        function.__signature__ = signature.replace(parameters=[*plain, *made, *rest])  # type: ignore[attr-defined]
        lines = [f"{one.name}: {about[one.name][0].help}." for one in made]
        function.__doc__ = f"{inspect.cleandoc(function.__doc__ or '')}\n\nSettings:\n\n" + "\n".join(lines)
        function.settings = {one.name for one in made}  # type: ignore[attr-defined]
        function.other_names = records, instead  # type: ignore[attr-defined]
        return function

    return described


def taken(function: Any, keywords: dict[str, Any]) -> dict[str, Any]:
    """Move the settings that a function `takes` out of its keywords, and return them."""
    return {name: keywords.pop(name) for name in list(keywords) if name in function.settings}


def check_exists(name: str, path: str) -> None:
    """Raise InputError with the setting if the file that it names does not exist."""
    try:
        Path(path).stat()
    except OSError as error:
        raise InputError(f"{setting(name, path)}: cannot be read: {error.strerror}") from None


def text_of(name: str, path: str) -> str:
    """Read the text file that a setting names. Raises InputError with the setting."""
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"{setting(name, path)}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{setting(name, path)}: {not_utf8(error)}") from None


def misspelled(function: Callable[..., Any], error: Exception) -> InputError | None:
    """Return the error about an unknown option that is like a keyword of a function which `takes` settings, else None.

    Options of commands and keys of campaigns are also like keywords; options of the policy may be more similar.
    """
    if not isinstance(error, InputError) or not error.option or not hasattr(function, "other_names"):
        return None
    import difflib  # noqa: PLC0415  rarely needed

    records, instead = function.other_names
    own = [name for name, one in inspect.signature(function).parameters.items() if one.kind is one.KEYWORD_ONLY]
    others = {
        other.lstrip("-").replace("-", "_"): f"{name}=…"
        for record in records
        for name, one in record.settings().items()
        for other in (one.alias, *one.options, *one.old)
        if name in own and other
    }
    keywords = {**others, **instead, **{name: f"{name}=…" for name in own}}
    name = error.option
    near = name if name in keywords else next(iter(difflib.get_close_matches(name, [*error.known, *own], 1)), "")
    called = function.__qualname__.removesuffix(".__init__")
    text = f"{called}: unknown keyword {name!r}; did you mean {keywords.get(near)}?"
    return InputError(text) if near in keywords else None


def as_keyword(name: str, value: str) -> str:
    """Write a setting as a keyword argument, and perhaps its value.

    >>> as_keyword("stop_at", ""), as_keyword("end", "60"), as_keyword("failures.mtbf", "30d")
    ('stop_at=', 'end=60', "failures={'mtbf': '30d'}")
    """
    record, _, key = name.rpartition(".")
    is_plain = not value or value in {"True", "False"} or name == "options" or _number_of_text(value) != value
    shown = value if is_plain else repr(value)
    if record:
        return f"{record}={{{key!r}: {shown or '…'}}}"
    return value if name == "options" and value else f"{name}={shown}"
