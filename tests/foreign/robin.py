"""Run Batsim and a scheduler as robin does for a description of a simulation, with a time limit for every wait.

A replacement for robin of Batsim's authors, which is written in Go: the same description (YAML), the same rules about
which program is stopped when, the same exit codes (0 both have succeeded, 1 a timeout or nothing was run, 2 one has
failed). `write_robin` makes it an executable named robin; `python tests/foreign/robin.py instance.yaml` does the same.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import yaml

sys.path.insert(0, str(Path(__file__).parents[1]))  # as a program it is on its own

from support.patience import PATIENCE_S

SUCCESS, TIMEOUT, FAILURE = 0, 1, 2
_TIMES = ("simulation-timeout", "ready-timeout", "success-timeout", "failure-timeout")
_LOOK_S = 0.02


class DescriptionError(Exception):
    """A description that cannot be carried out."""


@dataclass(frozen=True)
class Description:
    """One simulation: two commands for a shell, where the logs go, and how long each wait may take in seconds."""

    output_dir: Path
    batcmd: str
    schedcmd: str
    simulation_s: float
    ready_s: float
    success_s: float
    failure_s: float


def read_description(path: Path) -> Description:
    """Read a description. Raises DescriptionError."""
    try:
        content = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise DescriptionError(f"{path}: {error}") from None
    if not isinstance(content, dict):
        raise DescriptionError(f"{path}: expected a mapping")
    texts = [_member(path, content, name, str) for name in ("output-dir", "batcmd", "schedcmd")]
    times = [float(_member(path, content, name, int | float)) for name in _TIMES]
    return Description(Path(texts[0]), texts[1], texts[2], *times)


def _member(path: Path, content: dict[str, Any], name: str, kind: Any) -> Any:
    value = content.get(name)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise DescriptionError(f"{path}: {name}: got {value!r}")
    return value


def run(description: Description) -> int:
    """Run a simulation. Return the exit code. Raises DescriptionError where nothing was run."""
    for name in ("log", "cmd"):
        (description.output_dir / name).mkdir(parents=True, exist_ok=True)
    context = _context_of(description)
    if context["external_scheduler"] != bool(description.schedcmd):
        raise DescriptionError(f"a scheduler is {'needed' if context['external_scheduler'] else 'of no use'} here")
    with contextlib.ExitStack() as stack:
        signal.signal(signal.SIGTERM, _leave)
        commands = {"batsim": description.batcmd}
        if description.schedcmd:
            _wait_for_port(context["socket_endpoint"], description.ready_s)
            commands["sched"] = description.schedcmd
        # patience: a time of the description that is carried out
        until = time.monotonic() + description.simulation_s
        parts = [stack.enter_context(_Part(name, command, description)) for name, command in commands.items()]
        first = _wait_for_one(parts, until)
        if first is None:
            return TIMEOUT
        left = [part for part in parts if part is not first]
        patience = description.failure_s if first.process.returncode else description.success_s
        # patience: a time of the description that is carried out
        _wait_for_one(left, min(until, time.monotonic() + patience))
        for part in left:
            part.stop()
        return max(part.outcome for part in parts)


class _Part:
    """One of the two processes, with all that it starts."""

    def __init__(self, name: str, command: str, description: Description) -> None:
        script = description.output_dir / "cmd" / f"{name}.bash"
        script.write_text(f"#!/bin/bash\n{command}\n")
        self.name = name
        self.log = description.output_dir / "log" / f"{name}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                ["bash", str(script)],
                stdin=subprocess.DEVNULL,
                # Standard output of Batsim is not used: its log is standard error.
                stdout=subprocess.DEVNULL if name == "batsim" else log,
                stderr=log,
                start_new_session=True,
            )
        self._is_stopped = False

    @property
    def outcome(self) -> int:
        """How it has ended; stopped is failed."""
        return FAILURE if self._is_stopped or self.process.returncode else SUCCESS

    def stop(self) -> None:
        """Stop it and its children, unless it has ended."""
        if self.process.poll() is None:
            self._is_stopped = True
            self._send(signal.SIGTERM)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(PATIENCE_S)
        self._send(signal.SIGKILL)  # what does not heed the first signal, or was left behind
        self.process.wait(PATIENCE_S)
        if self.outcome:
            text = self.log.read_text(errors="replace").splitlines()[-1:]
            how = "stopped" if self._is_stopped else f"exit code {self.process.returncode}"
            print(f"robin: {self.name}: {how}: {''.join(text)[:500]}", file=sys.stderr)

    def _send(self, signum: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signum)


def _wait_for_one(parts: list[_Part], until: float) -> _Part | None:
    """Wait for the first of them to end. Gives it, or None if the time was over before."""
    while parts:
        for part in parts:
            if part.process.poll() is not None:
                return part
        # patience: a time of the description that is carried out
        if time.monotonic() > until:
            break
        # patience: the pause between two polls
        time.sleep(_LOOK_S)
    return None


def _context_of(description: Description) -> dict[str, Any]:
    """Let Batsim itself parse its command line."""
    command = f"{description.batcmd} --dump-execution-context"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    try:
        return dict(json.loads(done.stdout))
    except ValueError:
        raise DescriptionError(f"Batsim does not tell its context: {command}\n{done.stderr}") from None


def _wait_for_port(endpoint: str, ready_s: float) -> None:
    """Wait until the port is unused. Raises DescriptionError."""
    port = urlsplit(endpoint).port if endpoint.startswith("tcp:") else None
    # patience: a time of the description that is carried out
    until = time.monotonic() + ready_s
    while port is not None:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("", port))
            except OSError as error:
                # patience: a time of the description that is carried out
                if time.monotonic() > until:
                    raise DescriptionError(f"{endpoint}: {error.strerror}") from None
            else:
                return
        # patience: the pause between two polls
        time.sleep(_LOOK_S)


def _leave(signum: int, _: object) -> None:
    """Stop both programs."""
    raise SystemExit(128 + signum)


def write_robin(directory: Path) -> None:
    """Put an executable named robin into a directory."""
    place = directory / "robin"
    place.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {shlex.quote(__file__)} "$@"\n')
    place.chmod(0o755)


def main(argv: list[str]) -> int:
    try:
        (path,) = argv
        return run(read_description(Path(path)))
    except ValueError:
        print("usage: robin DESCRIPTION.yaml", file=sys.stderr)
    except DescriptionError as error:
        print(f"robin: {error}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
