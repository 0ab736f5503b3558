"""CURVE keys of ZeroMQ in a directory, for a server and its peers.

    DIR/server.key_secret   the server's secret key, readable only by its owner
    DIR/server.key          its public key, by which peers identify it
    DIR/client.key_secret   a peer's secret key, readable only by its owner
    DIR/clients/*.key       public keys of the peers that the server accepts

The files have the format of ZeroMQ's tools. A peer on another machine needs only client.key_secret and server.key.
Batsim and batsched do not support CURVE: see `live.relay`. As for ssh, other users must not be able to read or write
secret keys, nor write public keys and both directories.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import zmq
from zmq.utils import z85

from pybatsched.errors import InputError

SERVER: Final = "server.key"
CLIENT: Final = "client.key"
CLIENTS: Final = "clients"
#: Open flags for a file that must not exist.
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_SECRET: Final = "_secret"  # noqa: S105  the end of a file's name
_KEY: Final = re.compile(r'^\s*(public|secret)-key\s*=\s*"([!-~]{40})"\s*$', re.MULTILINE)
#: Key files are shorter than this.
_MAX_BYTES: Final = 2**16


@dataclass(frozen=True, slots=True)
class Pair:
    """A public and a secret key."""

    public: bytes
    secret: bytes

    def __repr__(self) -> str:
        return f"Pair({self.public!r}, …)"  # never shows the secret


@dataclass(frozen=True, slots=True)
class ServerKeys:
    """The keys of a server: its pair, and the public keys of accepted peers with their file names."""

    own: Pair
    clients: Mapping[bytes, str]


@dataclass(frozen=True, slots=True)
class ClientKeys:
    """The keys of a peer: its pair, and the public key of the server."""

    own: Pair
    server: bytes

    def apply_to(self, socket: zmq.Socket[bytes]) -> None:
        """Encrypt the next connections of a socket with these keys."""
        socket.setsockopt(zmq.CURVE_PUBLICKEY, self.own.public)
        socket.setsockopt(zmq.CURVE_SECRETKEY, self.own.secret)
        socket.setsockopt(zmq.CURVE_SERVERKEY, self.server)


def make(folder: str | Path) -> list[Path]:
    """Create keys for a server and one peer, all files or none; return them. Raises InputError, also if one exists."""
    _check_curve()
    place = Path(folder)
    files: dict[Path, tuple[str, int]] = {}
    for name, of, public_in in ((SERVER, "the server", place), (CLIENT, "a peer", place / CLIENTS)):
        public, secret = (key.decode() for key in zmq.curve_keypair())
        files[place / f"{name}{_SECRET}"] = (_text(f"The secret key of {of}: keep it", public, secret), 0o600)
        files[public_in / name] = (_text(f"The public key of {of}", public), 0o644)
    made: list[Path] = []
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_place(place)
        (place / CLIENTS).mkdir(mode=0o700, exist_ok=True)
        for path, (text, mode) in files.items():
            with os.fdopen(os.open(path, _NEW, mode), "w", encoding="ascii") as file:
                made.append(path)
                os.fchmod(file.fileno(), mode)  # the umask may be too strict
                file.write(text)
    except OSError as error:
        for path in made:
            with contextlib.suppress(OSError):
                path.unlink()
        if isinstance(error, FileExistsError):
            raise InputError(f"{error.filename} already exists; expected a directory without keys") from None
        raise InputError(f"{error.filename or made[-1]}: cannot be written: {error.strerror}") from None
    return made


def read_server(folder: str | Path) -> ServerKeys:
    """Read the keys of a server. InputError names the file."""
    _check_curve()
    place = Path(folder)
    _check_place(place)
    own = _read_pair(place / f"{SERVER}{_SECRET}")
    clients = {_read_public(path): path.name for path in _key_files(place / CLIENTS)}
    if not clients:
        raise InputError(f"{place / CLIENTS}: found no *.key; expected the public key of at least one peer")
    return ServerKeys(own, clients)


def read_client(folder: str | Path) -> ClientKeys:
    """Read the keys of a peer. InputError names the file."""
    _check_curve()
    place = Path(folder)
    _check_place(place)
    return ClientKeys(_read_pair(place / f"{CLIENT}{_SECRET}"), _read_public(place / SERVER))


def _check_curve() -> None:
    if not zmq.has("curve"):
        raise InputError(f"the installed ZeroMQ ({zmq.zmq_version()}) was built without CURVE; install one with CURVE")


def _text(about: str, public: str, secret: str = "") -> str:
    more = f'    secret-key = "{secret}"\n' if secret else ""
    return f'#   {about}. Made by: pybatsched keys\nmetadata\ncurve\n    public-key = "{public}"\n{more}'


def _check_place(folder: Path) -> None:
    """Raise InputError if other users can add or replace keys in a directory."""
    with contextlib.suppress(OSError):  # the readers of its files report the error
        _check_mode(folder, folder.stat().st_mode, is_secret=False)


def _check_mode(path: Path, mode: int, *, is_secret: bool) -> None:
    if is_secret and mode & 0o077:
        raise InputError(f"{path} can be read or written by other users; expected a private file: chmod 600")
    if mode & 0o022:
        raise InputError(f"{path} can be written by other users, who could add their keys: chmod go-w")


def _key_files(folder: Path) -> list[Path]:
    _check_place(folder)
    try:
        return [path for path in sorted(folder.iterdir()) if path.suffix == ".key"]
    except OSError as error:
        raise InputError(f"{folder}: cannot be read: {error.strerror}") from None


def _read_pair(path: Path) -> Pair:
    found = _read(path, is_secret=True)
    pair = Pair(found.get("public", b""), found.get("secret", b""))
    if not pair.public or not pair.secret:
        raise InputError(f"{path}: expected a public-key and a secret-key of 40 characters each")
    if zmq.curve_public(pair.secret) != pair.public:
        raise InputError(
            f"{path}: the public-key does not belong to the secret-key; expected a file of `pybatsched keys`"
        )
    return pair


def _read_public(path: Path) -> bytes:
    found = _read(path, is_secret=False)
    if "public" not in found or "secret" in found:
        raise InputError(f"{path}: expected a public-key of 40 characters and no secret-key")
    return found["public"]


def _read(path: Path, *, is_secret: bool) -> dict[str, bytes]:
    try:
        # O_NONBLOCK: do not wait for the other end of a pipe.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read(_MAX_BYTES) or b""
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    _check_mode(path, mode, is_secret=is_secret)
    keys = {kind: key.encode() for kind, key in _KEY.findall(content.decode("ascii", "replace"))}
    for kind, key in keys.items():
        if not _is_z85(key):
            raise InputError(f"{path}: the {kind}-key is not a Z85 text; expected a file of `pybatsched keys`")
    return keys


def _is_z85(key: bytes) -> bool:
    """Return whether a text is 32 bytes in Z85: decoding and encoding gives the same text."""
    try:
        return bytes(z85.encode(z85.decode(key))) == key
    except Exception:  # noqa: BLE001  KeyError, struct.error, …
        return False
