"""Open, recognise and write workload files, plain or gzip. Errors name the file."""

from __future__ import annotations

import gzip
import io
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, Literal, cast

from pybatsched.errors import InputError
from pybatsched.results.atomic_files import whole
from pybatsched.workload import progress

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_GZIP_MAGIC: Final = b"\x1f\x8b"
#: Limit of the size of a decompressed file: this many bytes, plus this many times the compressed size.
SMALL_BYTES: Final = 2**26
MAX_RATIO: Final = 200


@contextmanager
def opened(path: str | Path) -> Iterator[BinaryIO]:
    """Open a file to read its bytes. It is decompressed if its first two bytes are those of gzip.

    Any error of the file, here or while the caller reads it, is an InputError that names it.
    """
    try:
        with _open(Path(path)) as raw:
            if raw.peek(2)[:2] == _GZIP_MAGIC:
                is_file = stat.S_ISREG(os.fstat(raw.fileno()).st_mode)
                packed = _CountingReader(raw)
                size = os.fstat(raw.fileno()).st_size
                with gzip.GzipFile(fileobj=cast(BinaryIO, raw if is_file else packed)) as content:
                    unpacked = LimitedGzipReader(content, (lambda: size) if is_file else packed.n_bytes, str(path))
                    yield cast(BinaryIO, io.BufferedReader(unpacked, 1 << 18))
            else:
                yield cast(BinaryIO, raw)
    except IsADirectoryError:
        raise InputError(f"{path}: expected a workload file, found a directory") from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{path}: the gzip data is truncated or damaged: {error}") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error


class _CountingReader:
    """A reader that counts its bytes, for pipes, which have no size."""

    def __init__(self, raw: BinaryIO | io.BufferedReader) -> None:
        self._raw = raw
        self._n = 0

    def read(self, n: int = -1) -> bytes:
        """Read up to n bytes, or all."""
        piece = self._raw.read(n)
        self._n += len(piece)
        return piece

    def n_bytes(self) -> int:
        """Return the number of bytes that have been read."""
        return self._n


class LimitedGzipReader(io.RawIOBase):
    """Decompressed data with a limit, against files that would fill the memory. `size()` is the compressed size.

    No log or workload is compressed to less than a hundredth, but gzip can reach a thousandth. Raises InputError.
    """

    def __init__(self, content: gzip.GzipFile, size: Callable[[], int], name: str) -> None:
        self._content = content
        self._size = size
        self._name = name
        self._n = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def readall(self) -> bytes:
        """Read all, in larger pieces than the base class."""
        return b"".join(iter(lambda: self.read(1 << 20) or b"", b""))

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Read into a buffer."""
        n = self._content.readinto(buffer)
        self._n += n
        if self._n > SMALL_BYTES + MAX_RATIO * self._size():
            raise InputError(
                f"{self._name}: the gzip data decompresses to more than {MAX_RATIO} times its size plus 64 MiB; "
                "if this is correct, decompress the file first (gunzip)"
            )
        return n


class _ReportingFile(io.FileIO):
    """A file that reports how much of it has been read."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._size = max(path.stat().st_size, 1)
        self._n_read = 0

    def readinto(self, buffer: WriteableBuffer, /) -> int | None:
        n = super().readinto(buffer)
        self._n_read += n or 0
        progress.report(self._n_read / self._size)
        return n


def _open(path: Path) -> io.BufferedReader:
    return io.BufferedReader(_ReportingFile(path)) if progress.is_reporting() else path.open("rb")


def lines_of(content: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of a text. They end in LF or CR LF, or all of them in CR."""
    first = content.readline()
    yield from [first] if b"\n" in first else first.splitlines(keepends=True)
    yield from content


def is_gzip(path: str | Path) -> bool:
    """Return whether a file is gzip, by its first bytes."""
    with Path(path).open("rb") as raw:
        return raw.read(2) == _GZIP_MAGIC


def read_bytes(path: str | Path) -> bytes:
    """Return the whole content of a file, decompressed."""
    with opened(path) as content:
        return content.read()


def write_text(path: str | Path, pieces: Iterable[str]) -> None:
    """Write a file piece by piece, compressed if its name ends in .gz. The same text is always the same bytes.

    An existing file is replaced only when the new one is complete. Missing directories are created. A pipe or a device
    gets plain text, whatever its name.
    """
    with whole(path) as temporary:
        _write(temporary, pieces, compressed=temporary.suffix == ".gz" and temporary != Path(path))


def _write(path: Path, pieces: Iterable[str], *, compressed: bool = False) -> None:
    with path.open("wb") as raw:
        if not compressed:
            raw.writelines(piece.encode() for piece in pieces)
            return
        # Without a file name and a time, so that equal texts are equal files.
        with gzip.GzipFile("", "wb", 6, raw, mtime=0) as packed, io.BufferedWriter(packed, 1 << 18) as buffered:
            buffered.writelines(piece.encode() for piece in pieces)


Format = Literal["Batsim JSON", "SWF", "Rackham", "Slurm"]
#: A brace and a name without quotes, which is not JSON.
_RACKHAM: Final = re.compile(rb"\{\s*[A-Za-z_][A-Za-z0-9_]*\s*:")
#: Separators of columns in a log of Slurm, the likeliest first.
_SEPARATORS: Final = ("|", ",", ";", "\t")
_HEAD: Final = 4096
_UTF16: Final = (b"\xff\xfe", b"\xfe\xff")


def format_of(path: str | Path) -> Format:
    """Return the format of a workload file by its start.

    It is a JSON value, a line of the Rackham format, a header with a column JobID (or another line of columns separated
    by | or commas), else SWF.
    """
    if Path(path).exists() and not (Path(path).is_file() or Path(path).is_dir()):
        raise InputError(f"{path}: expected a file, which can be read twice, found a pipe or a device")
    with progress.part(0, 0), opened(path) as content:
        while head := content.read(_HEAD):
            text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
            if text:
                is_table = _is_table(text)
                if is_table or text[:1] not in b'{["':
                    return "Slurm" if is_table else "SWF"
                return "Rackham" if _RACKHAM.match(text + content.read(80)) else "Batsim JSON"
    raise InputError(f"{path}: expected a workload (Batsim JSON, SWF, Rackham or Slurm), found an empty file")


def _is_table(text: bytes) -> bool:
    """Return whether a file starts with the header of a log of Slurm, or at least as a table."""
    if text[:2] in _UTF16:
        return b"J\0o\0b\0" in text[:200] or b"\0J\0o\0b" in text[:200]
    if text[:1] in b";{[":
        return False
    line = text.splitlines()[0].decode("latin-1")
    separator = separator_of(line)
    names = {re.sub(r'[ _"]', "", cell).lower() for cell in (line.split(separator) if separator else line.split())}
    if names & {"jobid", "jobidraw"}:
        return True
    if text[:1] == b'"' or separator not in {"|", ","}:
        return False
    return line.count(separator) >= 3 and len(line.split()) < 18


def separator_of(line: str) -> str | None:
    """Return what separates the columns of a header: |, a comma, a semicolon or a tab."""
    return next((one for one in _SEPARATORS if one in line), None)
