"""Docker Compose on a user's directory: start it, read its result, and remove it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from support.patience import PATIENCE_OF_WORK_S, PATIENCE_S
from support.places import ROOT

_COPIED = ("docker-compose.yml", ".env", "platforms/cluster32.xml", "examples/workload.json")


def docker(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a command of Docker's to its end."""
    return subprocess.run(
        ["docker", *arguments], capture_output=True, text=True, timeout=PATIENCE_OF_WORK_S, check=check
    )


def has_compose() -> bool:
    """Return whether there is a docker with the plug-in Compose."""
    return shutil.which("docker") is not None and docker("compose", "version", check=False).returncode == 0


def has_image(name: str) -> bool:
    """Return whether an image is on this machine."""
    return docker("image", "inspect", name, check=False).returncode == 0


def defaults() -> dict[str, str]:
    """Read .env as Compose does."""
    lines = [line for line in (ROOT / ".env").read_text().splitlines() if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


def _of(container: str, name: str) -> str:
    return docker("inspect", "-f", f"{{{{.State.{name}}}}}", container).stdout.strip()


class Project:
    """A directory with docker-compose.yml and inputs, and the containers that are made of it."""

    def __init__(self, place: Path, profile: str) -> None:
        self.place = place
        self.profile = profile
        self.out = place / "out"
        self.batsim_image = os.environ.get("BATSIM_IMAGE") or defaults()["BATSIM_IMAGE"]
        self._log = place.parent / "compose.log"
        self._name = f"pybatsched-{os.getpid()}"
        for path in _COPIED:
            (place / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, place / path)
        place.chmod(0o755)
        self.out.mkdir()
        self.out.chmod(0o777)  # for any user in a container

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        subprocess.run(
            ["docker", "compose", "down", "--timeout", "0"],
            cwd=self.place,
            env=self._environment({}),
            capture_output=True,
            timeout=PATIENCE_OF_WORK_S,
            check=True,
        )

    @contextlib.contextmanager
    def started(self, **changes: str) -> Iterator[subprocess.Popen[bytes]]:
        """Start both services, with these variables changed. The process is of a group of its own."""
        with self._log.open("wb") as log:
            running = subprocess.Popen(
                ["docker", "compose", "up", "--no-build", "--exit-code-from", "scheduler"],
                cwd=self.place,
                env=self._environment(changes),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            yield running
        finally:
            if running.poll() is None:
                os.killpg(running.pid, signal.SIGKILL)
                running.wait(PATIENCE_S)

    def up(self, **changes: str) -> int:
        """Start both services and wait for their end. Gives Compose's exit code."""
        with self.started(**changes) as running:
            return self.wait(running)

    def wait(self, running: subprocess.Popen[bytes]) -> int:
        """Wait for the end. Gives Compose's exit code."""
        return running.wait(PATIENCE_OF_WORK_S)

    @property
    def output(self) -> str:
        """The output of Compose and the services."""
        return self._log.read_text(errors="replace")

    def ids(self) -> list[tuple[str, str]]:
        """Return each service with its container."""
        shown = docker(
            "ps",
            "--all",
            "--filter",
            f"label=com.docker.compose.project={self._name}",
            "--format",
            '{{.Label "com.docker.compose.service"}} {{.ID}}',
        ).stdout
        return [(service, container) for service, container in map(str.split, shown.splitlines())]

    def has_ended(self) -> bool:
        """Return whether no container runs any more."""
        return all(_of(container, "Running") == "false" for _, container in self.ids())

    def codes(self) -> dict[str, int]:
        """Return the exit code of each service; all must have ended."""
        assert self.has_ended()
        return {service: int(_of(container, "ExitCode")) for service, container in self.ids()}

    def _environment(self, changes: dict[str, str]) -> dict[str, str]:
        ours = {"COMPOSE_PROJECT_NAME": self._name, "COMPOSE_PROFILES": self.profile}
        return {**os.environ, **defaults(), "BATSIM_IMAGE": self.batsim_image, **ours, **changes}
