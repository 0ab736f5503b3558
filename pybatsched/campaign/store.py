"""Where a campaign keeps what it has: a directory with a file for each finished cell.

    manifest.json       what the campaign is: spec, versions, digests, all cells with their addresses
    cells/ADDRESS.json  figures of a finished cell, or the error of a failed one
    jobs/ADDRESS.parquet, runs/ADDRESS/…   with keep = "jobs" or "files"
    ends/ADDRESS.json.gz  with a baseline: when the compared jobs of a cell were submitted, and when they ended
    prepared/           workloads made ready
    results.parquet     one row for each point of the campaign, written when all cells are done

A file is there whole or not at all, so that a campaign may be killed at any moment.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, Final, Self, TextIO

import msgspec

from pybatsched.errors import InputError
from pybatsched.metrics.paired import Stay
from pybatsched.results.atomic_files import temporary_files
from pybatsched.workload.formats.files import read_bytes, write_text

FORMAT: Final = "pybatsched-campaign"
FORMAT_VERSION: Final = 1
#: Directories that every campaign has, and the file whose lock its process holds.
_MADE_FIRST: Final = ("cells", "prepared")
_LOCK: Final = ".lock"
#: Directories of files that this process writes; in those of runs, workers do.
_WRITTEN: Final = ("cells", "ends", "jobs", "prepared")

#: What is the name of a file is a word, and leads nowhere else.
_Address = Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9_-]{1,128}\\Z")]
#: As columns of tables have them.
_Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class _Point(msgspec.Struct):
    """What every point of a manifest has."""

    address: _Address
    workload: str
    platform: str
    policy: str
    options: dict[str, Any]
    seed: _Int64
    repeat: _Int64


class _Named(msgspec.Struct):
    """What every workload of a manifest has."""

    name: str


class _Described(msgspec.Struct):
    """What a manifest has of its campaign's file, of what is read again."""

    workload: list[_Named]
    baseline: str = ""


class _Manifest(msgspec.Struct):
    """What a manifest has."""

    name: str
    spec: _Described
    points: list[_Point]


def _is_name(text: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in text)  # half of a character can be in no table


def _is_figure(value: Any) -> bool:
    return value is None or type(value) is float or (type(value) is int and abs(value) < 1 << 63)


class Store:
    """The directory of a campaign. Open it with `with` to write: nobody else may at the same time."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).resolve()  # other processes may work elsewhere
        self._lock: TextIO | None = None
        self._made: list[Path] = []

    def __enter__(self) -> Self:
        wanted = [self.folder / name for name in _MADE_FIRST]
        self._made = [path for path in (*wanted, self.folder, *self.folder.parents) if not path.exists()]
        try:
            for path in wanted:
                path.mkdir(parents=True, exist_ok=True)
            self._lock = (self.folder / _LOCK).open("w")
        except OSError as error:
            raise InputError(f"{self.folder}: cannot make the campaign's directory: {error.strerror}") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The campaign that held the lock before may have removed the file meanwhile.
            is_taken = not os.path.samestat(os.fstat(self._lock.fileno()), (self.folder / _LOCK).stat())
        except OSError:
            is_taken = True
        if is_taken:
            self._lock.close()
            raise InputError(f"{self.folder}: another campaign is running there")
        self._tidy()
        return self

    def _tidy(self) -> None:
        """Take away what a campaign was just writing here when it was killed. O(files)."""
        with suppress(OSError):  # whoever writes there will be told
            for folder in (self.folder, *(self.folder / name for name in _WRITTEN)):
                for path in temporary_files(folder):
                    path.unlink(missing_ok=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lock is not None:
            if isinstance(error, InputError) and self._made and not self.has_manifest:
                self._remove_made()
            self._lock.close()

    def _remove_made(self) -> None:
        """Remove the directories that this campaign has made, because its inputs cannot be read. O(files).

        The lock must be held: the file of the lock goes first, so that no other campaign takes a directory that goes.
        """
        with suppress(OSError):
            if self.folder / "cells" in self._made:  # else it is the directory of an earlier campaign
                (self.folder / _LOCK).unlink()
            for path in self._made:
                if path == self.prepared:
                    shutil.rmtree(path)
                else:
                    path.rmdir()

    @property
    def prepared(self) -> Path:
        """The directory of prepared workloads."""
        return self.folder / "prepared"

    def run_folder(self, address: str) -> str:
        """Give where a cell may keep its files."""
        return str(self.folder / "runs" / address)

    def result(self, address: str) -> dict[str, Any] | None:
        """Give what a cell came to; None if it has not been run, or its file is damaged."""
        try:
            content = json.loads((self.folder / "cells" / f"{address}.json").read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return None
        if not isinstance(content, dict) or content.get("address") != address:
            return None
        figures = content.get("figures")
        is_done = isinstance(figures, dict) and all(map(_is_figure, figures.values())) and all(map(_is_name, figures))
        return content if is_done or (figures is None and isinstance(content.get("error"), str)) else None

    def results(self, addresses: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Give what all of these cells came to, by address; those that have not been run are missing."""
        found = {address: self.result(address) for address in dict.fromkeys(addresses)}
        return {address: result for address, result in found.items() if result is not None}

    def save(self, result: Mapping[str, Any]) -> None:
        """Keep what a cell came to. The file is there whole or not at all."""
        if "ends" in result:  # before the cell itself, which is done when its file is there
            write_text(self._ends_file(result["address"]), [json.dumps(result["ends"])])
        content = {key: value for key, value in result.items() if key not in {"jobs", "ends"}}
        write_text(self.folder / "cells" / f"{result['address']}.json", [json.dumps(content, indent=1), "\n"])

    def ends(self, address: str) -> dict[str, Stay] | None:
        """Give when the compared jobs of a cell were submitted and ended, by id; None if that was not kept. O(jobs)."""
        try:
            return {name: Stay(*times) for name, *times in json.loads(read_bytes(self._ends_file(address)))}
        except (InputError, ValueError, TypeError, RecursionError):
            return None

    def has_ends(self, address: str) -> bool:
        """Whether the ends of a cell's jobs were kept."""
        return self._ends_file(address).exists()

    def _ends_file(self, address: str) -> Path:
        return self.folder / "ends" / f"{address}.json.gz"

    def write_manifest(self, manifest: Mapping[str, Any]) -> None:
        """Write what the campaign is."""
        about = {"format": FORMAT, "format_version": FORMAT_VERSION, **manifest}
        write_text(self.folder / "manifest.json", [json.dumps(about, indent=1), "\n"])

    @property
    def has_manifest(self) -> bool:
        """Whether a campaign was begun here."""
        return (self.folder / "manifest.json").exists()

    def files_read(self) -> list[str]:
        """Give the files that tables and pages of the campaign are made from. O(files)."""
        cells = (path for name in ("cells", "ends") for path in (self.folder / name).glob("*"))
        return [str(self.folder / "manifest.json"), *map(str, cells)]

    def manifest(self) -> dict[str, Any]:
        """Read what the campaign is. Raises InputError if there is none."""
        path = self.folder / "manifest.json"
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise InputError(f"{path}: no campaign here: {error.strerror}") from None
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}: expected JSON; {error}") from None
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise InputError(f"{path}: expected an object with format {FORMAT!r}")
        try:
            msgspec.convert(content, _Manifest)
        except (msgspec.ValidationError, UnicodeEncodeError) as error:  # halves of characters can be in no table
            raise InputError(f"{path}: {error}") from None
        return content
