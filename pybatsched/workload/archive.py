"""Logs of the Parallel Workloads Archive: their addresses, and the SHA-256 of the uncompressed text."""

from __future__ import annotations

import gzip
import hashlib
import http.client
import io
import urllib.error
import urllib.request
import zlib
from importlib import resources
from pathlib import Path
from typing import Final, NamedTuple

from pybatsched.errors import BrokenPromiseError, InputError, PeerLostError
from pybatsched.results.atomic_files import whole
from pybatsched.workload.formats.files import LimitedReader

ARCHIVE: Final = "https://www.cs.huji.ac.il/labs/parallel/workload"
_MAX_BYTES: Final = 1 << 28
_TIMEOUT_S: Final = 60.0


class ArchiveLog(NamedTuple):
    """A log: its file, its page in the archive, and the SHA-256 of its text."""

    file: str
    page: str
    sha256: str


#: The logs of machines: file, page and digest of each.
_TABLE: Final = resources.files("pybatsched.machines").joinpath("logs.txt").read_text(encoding="utf-8")
LOGS: Final = {log.file: log for log in (ArchiveLog(*line.split()) for line in _TABLE.splitlines())}


def get(file: str, folder: str | Path, base: str = ARCHIVE) -> Path:
    """Download a log, unless it exists; return its path. Raises InputError, PeerLostError, BrokenPromiseError."""
    log = LOGS.get(file)
    if log is None:
        raise InputError(f"unknown log {file!r:.80}; expected one of {', '.join(LOGS)}")
    path = Path(folder) / file
    if path.exists():
        check(path)
        return path
    address = f"{base}/{log.page}/{file}"
    try:
        with urllib.request.urlopen(address, timeout=_TIMEOUT_S) as answer:  # noqa: S310  the default address, or the user's
            content = answer.read(_MAX_BYTES)
    except (OSError, urllib.error.URLError, ValueError, http.client.HTTPException) as error:
        raise PeerLostError(f"{address}: cannot be reached: {getattr(error, 'reason', error)}") from None
    _check_digest(content, log, address)
    with whole(path) as temporary:
        temporary.write_bytes(content)
    return path


def check(path: Path) -> None:
    """Raise BrokenPromiseError if a file is not the log of its name."""
    log = LOGS.get(path.name)
    if log is not None:
        _check_digest(path.read_bytes(), log, str(path))


def _check_digest(content: bytes, log: ArchiveLog, where: str) -> None:
    try:
        text = content
        if content[:2] == b"\x1f\x8b":
            text = LimitedReader(gzip.GzipFile(fileobj=io.BytesIO(content)), lambda: len(content), where).readall()
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise BrokenPromiseError(f"{where}: the gzip data is damaged: {error}") from None
    found = hashlib.sha256(text).hexdigest()
    if found != log.sha256:
        raise BrokenPromiseError(f"{where}: not the expected log: SHA-256 is {found}, expected {log.sha256}")
