"""Who may import whom."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "pybatsched"
MODULES = sorted(PACKAGE.rglob("*.py"))

DATA = {"events", "decisions", "intervals", "instants", "ordered", "profile", "jobs", "cluster", "errors"}


def imports(path: Path) -> set[str]:
    """Give all modules a file imports, those for type checking only left out."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            node.body = []
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_only_the_two_ends_of_a_socket_import_zmq(path: Path) -> None:
    ends = {"pybatsched.server", "pybatsched.simulator.external", "pybatsched.connection"}
    assert name(path) in ends or not any(used.split(".")[0] == "zmq" for used in imports(path))


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_nothing_imports_a_scheduler(path: Path) -> None:
    assert not any("schedulers" in used for used in imports(path))


@pytest.mark.parametrize("path", [p for p in MODULES if p.parent == PACKAGE and p.stem in DATA], ids=name)
def test_data_knows_only_data(path: Path) -> None:
    own = {used.split(".")[1] for used in imports(path) if used.startswith("pybatsched.")}
    assert own <= DATA


@pytest.mark.parametrize("module", ["engine", "rules", "actions", "services", "policy", "local"])
def test_the_engine_does_no_input_or_output(module: str) -> None:
    used = imports(PACKAGE / f"{module}.py")
    banned = {"zmq", "socket", "time", "random", "os", "pathlib", "json", "msgpack", "sys", "subprocess", "logging"}
    assert not {top.split(".")[0] for top in used} & banned
    assert not any(top.startswith(("pybatsched.protocol", "pybatsched.journal", "pybatsched.server")) for top in used)


def test_there_are_no_import_cycles() -> None:
    known = {name(path) for path in MODULES if path.stem != "__init__"}
    graph = {name(path): imports(path) & known for path in MODULES}
    done: set[str] = set()

    def visit(module: str, trail: tuple[str, ...]) -> None:
        assert module not in trail, " imports ".join((*trail, module))
        if module not in done:
            for used in graph.get(module, ()):
                visit(used, (*trail, module))
            done.add(module)

    for module in graph:
        visit(module, ())


def test_the_policies_use_only_what_others_may_use() -> None:
    """Shipped policies are written against the same modules as anybody's."""
    public = {
        "cluster",
        "decisions",
        "errors",
        "events",
        "instants",
        "intervals",
        "jobs",
        "local",
        "ordered",
        "policy",
        "profile",
        "registry",
    }
    for path in (ROOT / "schedulers").glob("*.py"):
        own = {used.split(".")[1] for used in imports(path) if used.startswith("pybatsched.")}
        assert own <= public


def test_no_cupboards() -> None:
    banned = ("util", "helper", "manager", "common", "misc")
    assert not [name(path) for path in MODULES if any(word in path.stem for word in banned)]


def test_what_is_shown_of_a_campaign_is_known_without_drawing_it() -> None:
    used = imports(PACKAGE / "report" / "samples.py")
    assert not {top.split(".")[0] for top in used} & {"bokeh", "matplotlib", "polars"}
    assert not any(top.startswith("pybatsched.report") for top in used)
