"""A real Batsim as a child process: find, start, watch and stop it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from pybatsched.errors import InputError
from pybatsched.live.batsim_options import OPTIONS, Option

_SET_DEATH_SIGNAL: Final = 1  # PR_SET_PDEATHSIG
_LIBC: Final = ctypes.CDLL(None) if sys.platform == "linux" else None
_PATIENCE_S: Final = 2.0
_PATIENCE_WITH_IMAGES_S: Final = 1800.0  # it may have to be pulled
_SHOWN_BYTES: Final = 4096
_N_SHOWN: Final = 12
_IMAGE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]*")
#: Options that pybatsched passes to Batsim, and how the user sets them instead.
_OURS: Final = {
    "--platform": "give -p before the --",
    "--workload": "give -w before the --",
    "--export": "give -e before the --",
    "--socket-endpoint": "pybatsched sets the socket between scheduler and Batsim",
}


def _die_with_parent() -> None:
    """Make Linux kill the calling child when its parent dies. A single C call, which needs no lock."""
    if _LIBC is not None:
        _LIBC.prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)


#: For `subprocess.Popen(preexec_fn=…)`: on Linux the child is killed with its parent, even after a SIGKILL; else None.
DIE_WITH_PARENT: Final[Callable[[], None] | None] = _die_with_parent if sys.platform == "linux" else None


def read_arguments(
    words: Sequence[str], known: Sequence[Option] = OPTIONS, ours: Mapping[str, str] = _OURS
) -> dict[str, list[str]]:
    """Return arguments for Batsim by long option name, read as `known` options. Raises InputError for `ours`."""
    options = {name: option for option in known for name in option.names}
    found: dict[str, list[str]] = {}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if not word.startswith("--"):
            name, value = word[:2], word[2:]
            equals = value
        option = options.get(name, Option((name,), 1))
        if option.name in ours:
            raise InputError(f"arguments for Batsim: {word!r} is not allowed; {ours[option.name]}")
        values = found.setdefault(option.name, [])
        if not option.n_values:
            if value and not word.startswith("--"):  # -Eq is -E -q
                rest.insert(0, f"-{value}")
            continue
        given = [value] if equals else []
        while len(given) < option.n_values and rest:
            given.append(rest.pop(0))
        values.append(":".join(given))
    return found


class Launcher:
    """How Batsim is started: a program on this machine, or a Docker image with the container name `container`."""

    def __init__(self, command: Sequence[str], shown: str, container: str = "") -> None:
        self.command = tuple(command)
        self.shown = shown
        self.container = container

    def version(self) -> str:
        """Return the version that the program prints. For an image, this starts a container."""
        try:
            done = subprocess.run(
                [*self.command, "--version"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_PATIENCE_WITH_IMAGES_S if self.container else 60,
                check=False,
                errors="replace",
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise InputError(f"{self.shown} --version: {error}") from None
        words = done.stdout.split()
        if done.returncode or not words:
            why = "".join(f"; its last line: {line}" for line in done.stderr.strip().splitlines()[-1:])
            raise InputError(
                f"{self.shown} --version: exit code {done.returncode}; expected Batsim's version{why:.300}"
            )
        return words[0].removeprefix("v")


def find(program: str | None) -> Launcher:
    """Find the batsim program: the given one, or the one on the PATH. InputError explains what to do."""
    path = shutil.which(program or "batsim")
    if path is not None:
        return Launcher([path], path)
    if program is not None:
        raise InputError(f"--batsim {program}: expected an executable program")
    raise InputError(
        "there is no batsim on the PATH. Give its path (--batsim PATH), use its Docker image "
        "(--image oarteam/batsim:4.0.0), or use the embedded simulator: pybatsched simulate"
    )


def in_docker(image: str, readable: Sequence[str | Path], writable: str | Path) -> Launcher:
    """Return a launcher for a Docker image on the host network that reads and writes these files as the user."""
    if not _IMAGE.fullmatch(image):  # docker would read it as an option, or as two arguments
        raise InputError(f"--image {image!r:.80}: expected the name of an image, such as oarteam/batsim:4.0.0")
    docker = shutil.which("docker")
    if docker is None:
        raise InputError(
            f"--image {image}: docker not found on the PATH; install Docker, or omit --image to use a local batsim"
        )
    name = f"pybatsched-{os.getpid()}"
    folder = str(Path(writable).resolve())
    mounts = {str(Path(file).resolve().parent): ":ro" for file in readable} | {folder: ""}
    for path in mounts:
        if ":" in path:  # docker would read the text after it as another path, or as a mode
            raise InputError(f"--image {image}: expected directories without a colon, found {path!r:.200}")
    command = [docker, "run", "--rm", "--name", name, "--network", "host", "--user", f"{os.getuid()}:{os.getgid()}"]
    for path, mode in sorted(mounts.items()):
        command += ["--volume", f"{path}:{path}{mode}"]
    return Launcher([*command, "--workdir", folder, image], image, name)


class Child:
    """A running Batsim in a separate session, so that it gets no Ctrl-C. On Linux it is killed when pybatsched ends."""

    def __init__(self, launcher: Launcher, arguments: Sequence[str], log: str | Path) -> None:
        self._launcher = launcher
        self._log = Path(log)
        try:
            with self._log.open("wb") as output:
                self._process = subprocess.Popen(
                    [*launcher.command, *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    preexec_fn=DIE_WITH_PARENT,  # noqa: PLW1509  a Batsim without a scheduler would never end
                )
        except OSError as error:
            raise InputError(f"cannot start {launcher.shown}: {error.filename}: {error.strerror}") from None

    def exit_code(self) -> int | None:
        """Return its exit code as in a shell; None while it runs."""
        code = self._process.poll()
        return code if code is None or code >= 0 else 128 - code

    def wait(self, timeout_s: float) -> int | None:
        """Wait for its end, at most `timeout_s` (0: no limit). Return the exit code; None if it still runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s or None)
        return self.exit_code()

    def log_excerpt(self) -> str:
        """Return the first and last lines of its output, indented, without the backtrace of a crash."""
        try:
            with self._log.open("rb") as file:
                text = file.read(_SHOWN_BYTES)
                if file.seek(0, os.SEEK_END) > 2 * _SHOWN_BYTES:
                    file.seek(-_SHOWN_BYTES, os.SEEK_END)
                    text = text[: text.rfind(b"\n") + 1] + file.read().partition(b"\n")[2]
                else:
                    file.seek(_SHOWN_BYTES)
                    text += file.read()
        except OSError as error:
            return f"  (cannot read {self._log}: {error.strerror})"
        lines = [line for line in text.decode(errors="replace").splitlines() if line.strip() and "->  " not in line]
        if len(lines) > _N_SHOWN:
            lines = [*lines[:2], "…", *lines[3 - _N_SHOWN :]]
        return "\n".join(f"  {line:.300}" for line in lines) or "  (no output)"

    def has_deadlocked(self) -> bool:
        """Return whether SimGrid logged a deadlock, as it does before it aborts. O(bytes of its log)."""
        with contextlib.suppress(OSError), self._log.open("rb") as file:
            return any(b"Oops! Deadlock" in line for line in file)
        return False

    def stop(self) -> None:
        """Stop it and its child processes: SIGTERM first, then SIGKILL."""
        if self._process.poll() is None and self._launcher.container:
            docker = self._launcher.command[0]
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                subprocess.run([docker, "kill", self._launcher.container], capture_output=True, timeout=20, check=False)
        if self._process.poll() is None:
            self._signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_PATIENCE_S)
        self._signal(signal.SIGKILL)  # a wrapper may have ended before its Batsim
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_PATIENCE_S)

    def _signal(self, signum: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signum)
