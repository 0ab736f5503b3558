"""Batsim's workload files: read with the checks of Batsim, and written reproducibly."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NoReturn

import msgspec

from pybatsched.errors import InputError, setting
from pybatsched.workload import progress
from pybatsched.workload.formats import batsim5, files
from pybatsched.workload.formats.checks import FileLocation, check_job, check_profiles, is_count, is_text, shown
from pybatsched.workload.formats.conversion import gc_paused
from pybatsched.workload.model import Workload

#: A string, or one of the tokens that are searched outside of strings.
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|\}|-?(?:NaN|Infinity)|-?[0-9][0-9.eE+-]*', re.DOTALL)
#: The escape of a surrogate. Two of them are a character, one alone is invalid.
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")

_OWN_MEMBERS: Final = ("nb_res", "jobs", "profiles")


def read(path: str | Path) -> Workload:
    """Read a workload file (.json, or gzip of it) and check everything that Batsim checks.

    A file of Batsim 5 is recognised by its profile types and translated (`formats.batsim5`).
    Cost is linear in the file: about 4 µs a job. Raises InputError naming the file, the job or profile, the field,
    what was expected and what was found. For invalid JSON it names line and column.
    """
    source = str(path)
    with gc_paused():
        with progress.part(0, 0.1):
            text = files.read_bytes(path)
        with progress.part(0.4, 1):  # parsing the text cannot report its progress
            return _read(source, text)


def _read(source: str, text: bytes) -> Workload:
    content = parse_fast(text)
    if content is None:
        content = Parser(source, text).parse()
    top = FileLocation(source)
    if type(content) is not dict:
        top.fail("", "an object with nb_res, jobs and profiles", content)
    n_procs, jobs, profiles = (content.get(member) for member in _OWN_MEMBERS)
    if not is_count(n_procs, 1):
        _fail_member(top, content, "nb_res", "a whole number of processors, more than 0")
    if type(profiles) is not dict:
        _fail_member(top, content, "profiles", "an object of profiles by name")
    if type(jobs) is not list:
        _fail_member(top, content, "jobs", "an array of jobs")
    is_batsim5 = batsim5.is_batsim5(profiles)
    if is_batsim5:
        jobs, profiles = batsim5.from_batsim5(jobs, profiles, source)
    check_profiles(profiles, source)
    places: dict[str, int] = {}
    for index, job in progress.with_progress(enumerate(jobs), len(jobs)):
        name = check_job(job, index, profiles, source)
        first = places.setdefault(name, index)
        if first != index:
            raise InputError(
                f"{source}: job {shown(job['id'])}, field id: expected a unique id, "
                f"found it in jobs[{first}] and jobs[{index}]"
            )
    about = {key: value for key, value in content.items() if key not in _OWN_MEMBERS}
    return Workload(jobs, profiles, n_procs, source, about, 5 if is_batsim5 else 4)


def _fail_member(top: FileLocation, content: dict[str, Any], member: str, expected: str) -> NoReturn:
    if member not in content:
        top.missing(f"member {member}", expected)
    top.fail(f"member {member}", expected, content[member])


def write(workload: Workload, path: str | Path) -> None:
    """Write a workload file, compressed if its name ends in .gz, always as the same bytes. Raises InputError."""
    files.write_text(path, _pieces(workload))


def text_of(workload: Workload) -> str:
    """Return the text of a workload file. O(size)."""
    return "".join(_pieces(workload))


def _pieces(workload: Workload) -> Iterator[str]:
    encode = json.JSONEncoder(allow_nan=False).encode
    workload = batsim5.resolve_profiles(workload)
    yield f'{{"nb_res": {workload.n_procs}'
    for key, value in workload.about.items():
        if key not in _OWN_MEMBERS:
            yield f",\n{encode(key)}: {encode(value)}"
    yield ',\n"jobs": ['
    for index, job in enumerate(workload.jobs):
        yield f"{',' if index else ''}\n{encode(job)}"
    yield '\n],\n"profiles": {'
    for index, (name, profile) in enumerate(workload.profiles.items()):
        yield f"{',' if index else ''}\n{encode(name)}: {encode(profile)}"
    yield "\n}}\n"


def parse_fast(text: bytes) -> Any:
    """Parse valid JSON; return None for text that `Parser` has to read, such as duplicate keys. O(length)."""
    if b"\\u" in text:  # an escape may be a colon
        return None
    try:
        content = msgspec.json.decode(text)
        return content if msgspec.json.encode(content).count(b":") == text.count(b":") else None
    except (msgspec.MsgspecError, ValueError, RecursionError, OverflowError):
        return None


class _InvalidJson(Exception):  # noqa: N818  never leaves this module
    """The text has something that Python's JSON reader accepts, but Batsim does not."""


class Parser:
    """A strict JSON parser: it rejects duplicate keys, NaN, numbers out of range and single surrogates.

    Python's reader does not pass positions to its hooks. So the hooks count objects, and after an error the text is
    scanned up to that count to find the position.
    """

    def __init__(self, source: str, content: bytes) -> None:
        self.source = source
        self.n_objects = 0
        try:
            self.text = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            raise InputError(
                f"{source}: line {line}: expected JSON in UTF-8, found an invalid byte at {error.start}"
            ) from None

    def parse(self) -> Any:
        """Return the content of the text. Raises InputError."""
        if not self.text.strip():
            raise InputError(f"{self.source}: expected a JSON object, found an empty file")
        try:
            content = json.loads(
                self.text, object_pairs_hook=self._pairs, parse_constant=self._constant, parse_float=self._number
            )
            self._check_texts()
        except json.JSONDecodeError as error:
            where = f"{self.source}: line {error.lineno}:{error.colno}"
            hint = (
                f"; a table with an object on each line needs {setting('mapping')}" if error.msg == "Extra data" else ""
            )
            raise InputError(f"{where}: broken JSON: {error.msg}{hint}") from None
        except RecursionError:
            raise InputError(f"{self.source}: broken JSON: too many levels of brackets") from None
        except _InvalidJson as error:
            raise InputError(f"{self.source}: {error}") from None
        except ValueError:  # Python does not read whole numbers of thousands of digits
            raise InputError(f"{self.source}: expected numbers below 1e308, found one of thousands of digits") from None
        return content

    def _check_texts(self) -> None:
        """Reject single surrogates, which cannot be written as UTF-8 and which Batsim does not read."""
        if _SURROGATE.search(self.text) is None:
            return
        for token in _TOKEN.finditer(self.text):
            if _SURROGATE.search(token[0]) is not None and not is_text(text := json.loads(token[0])):
                raise _InvalidJson(
                    f"{self._line(token.start())}: expected valid characters, found a single surrogate in {shown(text)}"
                )

    def _pairs(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        self.n_objects += 1
        made = dict(pairs)
        if len(made) != len(pairs):
            seen: set[str] = set()
            for key, _ in pairs:
                if key in seen:
                    raise _InvalidJson(f"{self._end_of_object()}: expected unique keys, found {shown(key)} twice")
                seen.add(key)
        return made

    def _constant(self, name: str) -> Any:
        raise _InvalidJson(f"{self._first(name)}: expected a number, found {name}")

    def _number(self, text: str) -> float:
        value = float(text)
        if not math.isfinite(value):
            raise _InvalidJson(f"{self._first(text)}: expected a number below 1e308, found {text}")
        return value

    def _end_of_object(self) -> str:
        """Return the position of the end of the object read last: the closing brace number `n_objects`."""
        left = self.n_objects
        for token in _TOKEN.finditer(self.text):
            if token[0] == "}":
                left -= 1
                if not left:
                    return f"object that ends at {self._line(token.start())}"
        return "object"

    def _first(self, wanted: str) -> str:
        for token in _TOKEN.finditer(self.text):
            if token[0] == wanted:
                return self._line(token.start())
        return "somewhere"

    def _line(self, position: int) -> str:
        line = self.text.count("\n", 0, position) + 1
        return f"line {line}:{position - self.text.rfind(chr(10), 0, position)}"
