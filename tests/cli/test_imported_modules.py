"""A command imports only what it uses: imports are most of the time of a short run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from support.patience import PATIENCE_OF_WORK_S
from support.places import ROOT

#: Modules of libraries that only connections use, and slow ones that nothing above needs.
_CONNECTIONS = ("zmq", "asyncio", "http.client", "urllib.request", "ssl", "msgpack", "pybatsched.live.keys")
_RARE = (
    *("tomllib", "numpy", "polars", "tqdm", "importlib.metadata", "email"),
    *("pybatsched.machines", "pybatsched.platform.xml", "pybatsched.platform.network"),
)
#: Pydantic, which checks options of policies and fields of jobs, and modules that import it.
_CHECKS = ("pydantic", "annotated_types", "pybatsched.core.options", "pybatsched.core.fields")


def imported(code: str) -> set[str]:
    """Return the modules that a new process has imported after this code."""
    code += "\nimport sys; print(*sys.modules, sep='\\n', file=sys.stderr)"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE_OF_WORK_S
    )
    return set(run.stderr.split("\n"))


def found(names: tuple[str, ...], modules: set[str]) -> list[str]:
    """Return those of the names that were imported, themselves or modules below them."""
    return [name for name in names if any(f"{module}.".startswith(f"{name}.") for module in modules)]


def simulating(tmp_path: Path, *more: str) -> set[str]:
    given = ("-w", str(ROOT / "examples" / "workload.json"), "--policy", "easy", "-e", str(tmp_path / "o"))
    words = ["simulate", *given, *more]
    return imported(f"from pybatsched import cli; assert cli.main({words!r}) == 0")


def test_a_simulation_imports_no_connections_codecs_and_formats_of_logs(tmp_path: Path) -> None:
    modules = simulating(tmp_path, "-q")
    assert "pybatsched_schedulers.easy" in modules
    codecs = ("pybatsched.protocol.v4", "pybatsched.protocol.v5", "pybatsched.session.session")
    others = ("pybatsched.simulator.simgrid.kernel", "pybatsched.metrics.saved_runs", "pybatsched.report")
    assert found((*_CONNECTIONS, *_RARE, *_CHECKS, "pybatsched.workload.logs", *codecs, *others), modules) == []


def test_only_the_named_policy_is_loaded(tmp_path: Path) -> None:
    modules = simulating(tmp_path, "-q")
    policies = {name for name in modules if name.startswith("pybatsched_schedulers.")}
    assert policies == {"pybatsched_schedulers.easy"}


def test_options_are_checked_by_pydantic(tmp_path: Path) -> None:
    modules = simulating(tmp_path, "-q", "-o", "order=sjf")
    assert {"pydantic", "pybatsched_schedulers.backfilling_options"} <= modules


def test_a_journal_needs_only_the_codec_of_batsim_4(tmp_path: Path) -> None:
    modules = simulating(tmp_path, "-q", "--journal", str(tmp_path / "j.pbj"))
    assert "pybatsched.protocol.v4" in modules
    assert found(("zmq", "asyncio", "pybatsched.protocol.v5"), modules) == []


def test_a_server_imports_zeromq_but_nothing_of_the_simulator() -> None:
    modules = imported("import pybatsched.cli.serve; from pybatsched.policies import registry; registry.find('easy')")
    assert {"zmq", "pybatsched.live.server"} <= modules
    unused = ("pybatsched.simulator", "pybatsched.workload", "pybatsched.metrics", "pybatsched.platform")
    assert (
        found(
            ("asyncio", "http.client", "urllib.request", "pybatsched.protocol.v5", *unused, *_RARE, *_CHECKS), modules
        )
        == []
    )
