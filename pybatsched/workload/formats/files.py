"""Open, recognise and write workload files, plain or compressed by gzip or zstd. Errors name the file."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal, cast

from pybatsched.errors import InputError
from pybatsched.results.atomic_files import whole
from pybatsched.workload import progress

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_GZIP_MAGIC: Final = b"\x1f\x8b"
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_SKIPPABLE: Final = b"\x50\x2a\x4d\x18"  # the first of 16
_ZSTD_CHUNK: Final = 2048  # small, because a few bytes can be 128 KiB of text
PARQUET_MAGIC: Final = b"PAR1"
BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
UTF16: Final = (b"\xff\xfe", b"\xfe\xff")
#: Endings of the files of a directory, the likeliest first.
_KINDS_OF_PARTS: Final = (".parquet", ".csv", ".txt", ".json")
#: Limit of the size of a decompressed file: this many bytes, plus this many times the compressed size.
SMALL_BYTES: Final = 2**26
MAX_RATIO: Final = 200


@contextmanager
def opened(path: str | Path) -> Iterator[BinaryIO]:
    """Open a file to read its bytes, decompressed from gzip or zstd. Errors while it is open are InputErrors."""
    try:
        with _open(Path(path)) as raw:
            magic = raw.peek(4)[:4]
            if magic[:2] == _GZIP_MAGIC or _is_zstd(magic):
                is_file = stat.S_ISREG(os.fstat(raw.fileno()).st_mode)
                packed = _CountingReader(raw)
                size = os.fstat(raw.fileno()).st_size
                source = cast(BinaryIO, raw if is_file else packed)
                with _zstd(source, path) if _is_zstd(magic) else gzip.GzipFile(fileobj=source) as content:
                    unpacked = LimitedReader(content, (lambda: size) if is_file else packed.n_bytes, str(path))
                    yield cast(BinaryIO, io.BufferedReader(unpacked, 1 << 18))
            else:
                yield cast(BinaryIO, raw)
    except IsADirectoryError:
        raise InputError(f"{path}: expected a workload file, found a directory") from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{path}: the gzip data is truncated or damaged: {error}") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error


def _is_zstd(start: bytes) -> bool:
    """Return whether a file starts with a frame of zstd, or with one to skip, as parallel compressors write them."""
    return start == _ZSTD_MAGIC or (start[1:] == _SKIPPABLE[1:] and start[0] & 0xF0 == _SKIPPABLE[0])


class _ZstdReader(io.RawIOBase):
    """Decompressed data of a zstd file, which may consist of several frames. Raises InputError."""

    def __init__(self, source: BinaryIO, path: str | Path) -> None:
        import zstandard  # noqa: PLC0415  an optional dependency

        self._source = source
        self._path = path
        self._new_frame = zstandard.ZstdDecompressor().decompressobj
        self._error: type[Exception] = zstandard.ZstdError
        self._frame: Any = None  # that is being read
        self._packed = b""
        self._text = memoryview(b"")

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Read into a buffer."""
        while not self._text:
            self._packed = self._packed or self._source.read(_ZSTD_CHUNK)
            if not self._packed:
                if self._frame is not None:
                    raise InputError(f"{self._path}: the zstd data is truncated")
                return 0
            try:
                self._frame = self._frame or self._new_frame()
                self._text = memoryview(self._frame.decompress(self._packed))
            except self._error as error:
                raise InputError(f"{self._path}: the zstd data is damaged: {error}") from error
            self._packed = b""
            if self._frame.eof:
                self._packed, self._frame = self._frame.unused_data, None
        place = memoryview(buffer)
        n = min(len(place), len(self._text))
        place[:n] = self._text[:n]
        self._text = self._text[n:]
        return n


def _zstd(source: BinaryIO, path: str | Path) -> _ZstdReader:
    """Return the decompressed data of a zstd file. Raises InputError without the library."""
    try:
        return _ZstdReader(source, path)
    except ImportError:
        need = f"{path}: zstd data needs zstandard (unzstd decompresses the file without it)"
        raise InputError.not_installed(need, "traces") from None


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


class LimitedReader(io.RawIOBase):
    """Decompressed data with a limit, against files that would fill the memory. Raises InputError."""

    def __init__(self, content: gzip.GzipFile | _ZstdReader, size: Callable[[], int], name: str) -> None:
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
                f"{self._name}: the data decompresses to more than {MAX_RATIO} times its size plus 64 MiB; "
                "if this is correct, decompress the file first (gunzip, unzstd)"
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


def text_of_line(path: str | Path, line: int, raw: bytes) -> str:
    """Return a line as text, without its end. Raises InputError for files that are not text."""
    if line == 1 and raw[:2] in UTF16:
        raise InputError(f"{path}: expected text in UTF-8, found UTF-16; convert it first (iconv -f UTF-16 -t UTF-8)")
    if b"\0" in raw:
        raise InputError(f"{path}: line {line}: expected text, found a binary file")
    return decoded(raw.removeprefix(BYTE_ORDER_MARK) if line == 1 else raw).rstrip("\r\n")


def decoded(raw: bytes) -> str:
    """Return bytes as text, in UTF-8 or else Latin-1."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


class BadLineError(Exception):
    """A line of a log is invalid: the rule that it violates, and what was found."""

    def __init__(self, rule: str, found: str) -> None:
        super().__init__(rule)
        self.rule = rule
        self.found = found


def is_compressed(path: str | Path) -> bool:
    """Return whether a file is compressed by gzip or zstd, by its first bytes."""
    with Path(path).open("rb") as raw:
        start = raw.read(4)
    return start[:2] == _GZIP_MAGIC or _is_zstd(start)


def read_bytes(path: str | Path) -> bytes:
    """Return the whole content of a file, decompressed."""
    with opened(path) as content:
        return content.read()


def parts_of(path: str | Path) -> list[Path]:
    """Return a file alone, or the files of one kind of a table in a directory, by name. Raises InputError."""
    folder = Path(path)
    if not folder.is_dir():
        return [folder]
    try:
        names = sorted(file.name for file in folder.iterdir() if file.is_file() and file.name[0] not in "._")
    except OSError as error:
        raise InputError(f"{folder}: cannot be read: {error.strerror or error}") from error
    by_kind = {
        kind: [folder / name for name in names if re.sub(r"\.(gz|zst)$", "", name.lower()).endswith(kind)]
        for kind in _KINDS_OF_PARTS
    }
    if by_kind[".parquet"] and by_kind[".csv"]:
        raise InputError(
            f"{folder}: expected files of one kind, found {by_kind['.parquet'][0].name} and {by_kind['.csv'][0].name}"
        )
    found = next((files for files in by_kind.values() if files), None)
    if found is None:
        raise InputError(
            f"{folder}: expected a workload file, or a directory with the files of a table or of a log of Slurm "
            f"({', '.join(_KINDS_OF_PARTS)}; also .gz and .zst), found a directory without them"
        )
    return found


def digest_of(path: str | Path) -> str:
    """Return the SHA-256 digest of a file, or of the parts of a directory. O(bytes). Raises InputError."""
    parts = parts_of(path)
    whole = hashlib.sha256()
    for file in parts:
        try:
            content = file.read_bytes()
        except OSError as error:
            raise InputError(f"{file}: cannot be read: {error.strerror or error}") from None
        whole.update(content if file == Path(path) else f"{file.name}\0{len(content)}\0".encode() + content)
    return whole.hexdigest()


def write_text(path: str | Path, pieces: Iterable[str]) -> None:
    """Write a file piece by piece, always as the same bytes, and replace an existing one when it is complete."""
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


#: Public sets with a mapping of this package. Frontier's log is in SWF and has none.
SETS: Final = tuple(sorted(file.stem for file in Path(__file__).parents[1].glob("logs/tables/*.toml")))
Format = Literal["Batsim JSON", "SWF", "Slurm", "table"]
#: Names of formats on the command line: of readers, and of public sets, most of which are tables.
FORMATS: Final[Mapping[str, Format]] = {
    "batsim": "Batsim JSON",
    "swf": "SWF",
    "slurm": "Slurm",
    "frontier": "SWF",
    **dict.fromkeys(SETS, "table"),
}
