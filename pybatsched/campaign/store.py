"""Store the results of a campaign: a directory with a file for each finished cell.

    manifest.json       the description of the campaign: spec, versions, digests, all cells with their addresses
    cells/ADDRESS.json  figures of a finished cell, or the error of a failed one
    jobs/ADDRESS.parquet, runs/ADDRESS/…   with keep = "jobs" or "files"
    ends/ADDRESS.json.gz  with a baseline: submissions and ends of the compared jobs of a cell
    prepared/           prepared workloads
    results.parquet     one row for each point of the campaign, written when all cells are done

Files are written atomically, so a campaign may be killed at any time.
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
from pybatsched.metrics.compare.paired import JobStay
from pybatsched.results.atomic_files import temporary_files
from pybatsched.workload.formats.files import read_bytes, write_text

FORMAT: Final = "pybatsched-campaign"
FORMAT_VERSION: Final = 1
#: Directories that every campaign has, and the file whose lock its process holds.
_SUBFOLDERS: Final = ("cells", "prepared")
_LOCK: Final = ".lock"
#: Directories of files that this process writes; workers write those of runs.
_WRITTEN: Final = ("cells", "ends", "jobs", "prepared")

#: An address is a file name without separators, so it cannot lead to another directory.
_Address = Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9_-]{1,128}\\Z")]
#: The integers of table columns.
_Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class _Point(msgspec.Struct):
    """The members of a point of a manifest."""

    address: _Address
    workload: str
    platform: str
    policy: str
    options: dict[str, Any]
    seed: _Int64
    repeat: _Int64


class _Named(msgspec.Struct):
    """The members of a workload of a manifest."""

    name: str


class _Described(msgspec.Struct):
    """The members of the campaign's file that are read again from a manifest."""

    workload: list[_Named]
    baseline: str = ""


class _Manifest(msgspec.Struct):
    """The members of a manifest."""

    name: str
    spec: _Described
    points: list[_Point]


def _is_name(text: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in text)  # tables cannot contain half a surrogate pair


def _is_figure(value: Any) -> bool:
    return value is None or type(value) is float or (type(value) is int and abs(value) < 1 << 63)


class Store:
    """The directory of a campaign. Open it with `with` to write; only one process may write at a time."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).resolve()  # other processes may have another working directory
        self._shown = str(folder)
        self._lock: TextIO | None = None
        self._created: list[Path] = []

    def __enter__(self) -> Self:
        wanted = [self.folder / name for name in _SUBFOLDERS]
        self._created = [path for path in (*wanted, self.folder, *self.folder.parents) if not path.exists()]
        try:
            for path in wanted:
                path.mkdir(parents=True, exist_ok=True)
            self._lock = (self.folder / _LOCK).open("w")
        except OSError as error:
            raise InputError(f"{self.folder}: cannot create the campaign's directory: {error.strerror}") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The campaign that held the lock before may have removed the file meanwhile.
            is_taken = not os.path.samestat(os.fstat(self._lock.fileno()), (self.folder / _LOCK).stat())
        except OSError:
            is_taken = True
        if is_taken:
            self._lock.close()
            raise InputError(
                f"{self.folder}: another campaign is running in this directory; wait for its end, or use another "
                "directory"
            )
        self._remove_partial_files()
        return self

    def _remove_partial_files(self) -> None:
        """Remove the partial files of a campaign that was killed. O(files)."""
        with suppress(OSError):  # later writes report the error
            for folder in (self.folder, *(self.folder / name for name in _WRITTEN)):
                for path in temporary_files(folder):
                    path.unlink(missing_ok=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lock is not None:
            if isinstance(error, InputError) and self._created and not self.has_manifest:
                self._remove_created()
            self._lock.close()

    def _remove_created(self) -> None:
        """Remove the directories that this campaign created, after an error in its inputs. O(files)."""
        with suppress(OSError):
            if self.folder / "cells" in self._created:  # else it is the directory of an earlier campaign
                (self.folder / _LOCK).unlink()
            for path in self._created:
                if path == self.prepared:
                    shutil.rmtree(path)
                else:
                    path.rmdir()

    @property
    def prepared(self) -> Path:
        """The directory of prepared workloads."""
        return self.folder / "prepared"

    def run_folder(self, address: str) -> str:
        """Return the directory for the files of a cell."""
        return str(self.folder / "runs" / address)

    def result(self, address: str) -> dict[str, Any] | None:
        """Return the result of a cell; None if it was not run, or its file is damaged."""
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
        """Return the results of cells by address; cells that were not run are missing."""
        found = {address: self.result(address) for address in dict.fromkeys(addresses)}
        return {address: result for address, result in found.items() if result is not None}

    def save(self, result: Mapping[str, Any]) -> None:
        """Write the result of a cell atomically."""
        if "ends" in result:  # before the cell's own file, which marks the cell as done
            write_text(self._ends_file(result["address"]), [json.dumps(result["ends"])])
        content = {key: value for key, value in result.items() if key not in {"jobs", "ends"}}
        write_text(self.folder / "cells" / f"{result['address']}.json", [json.dumps(content, indent=1), "\n"])

    def ends(self, address: str) -> dict[str, JobStay] | None:
        """Return submissions and ends of the compared jobs of a cell by id; None if they were not kept. O(jobs)."""
        try:
            return {name: JobStay(*times) for name, *times in json.loads(read_bytes(self._ends_file(address)))}
        except (InputError, ValueError, TypeError, RecursionError):
            return None

    def has_ends(self, address: str) -> bool:
        """Return whether the ends of a cell's jobs were kept."""
        return self._ends_file(address).exists()

    def _ends_file(self, address: str) -> Path:
        return self.folder / "ends" / f"{address}.json.gz"

    def write_manifest(self, manifest: Mapping[str, Any]) -> None:
        """Write the description of the campaign."""
        about = {"format": FORMAT, "format_version": FORMAT_VERSION, **manifest}
        write_text(self.folder / "manifest.json", [json.dumps(about, indent=1), "\n"])

    @property
    def has_manifest(self) -> bool:
        """Whether a campaign was started in this directory."""
        return (self.folder / "manifest.json").exists()

    def files_read(self) -> list[str]:
        """Return the files that tables and pages of the campaign read. O(files)."""
        cells = (path for name in ("cells", "ends") for path in (self.folder / name).glob("*"))
        return [str(self.folder / "manifest.json"), *map(str, cells)]

    def manifest(self) -> dict[str, Any]:
        """Read the description of the campaign. Raises InputError if there is none."""
        path = self.folder / "manifest.json"
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            if isinstance(error, FileNotFoundError | NotADirectoryError):
                raise InputError(
                    f"{self._shown}: no campaign here (no manifest.json); expected the directory of a "
                    "`pybatsched campaign run`"
                ) from None
            raise InputError(f"{path}: cannot be read: {error.strerror}") from None
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}: expected JSON; {error}") from None
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise InputError(f"{path}: expected an object with format {FORMAT!r}")
        try:
            msgspec.convert(content, _Manifest)
        except (msgspec.ValidationError, UnicodeEncodeError) as error:  # half a surrogate pair
            raise InputError(f"{path}: {error}") from None
        return content
