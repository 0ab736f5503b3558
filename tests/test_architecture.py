"""Which package may import which. Imports for type checking count like any other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.places import ROOT

from pybatsched.runs.spec import RECORDS

PACKAGE = ROOT / "pybatsched"
MODULES = sorted(PACKAGE.rglob("*.py"))
SCHEDULERS = sorted((ROOT / "schedulers" / "pybatsched_schedulers").rglob("*.py"))
STUDIES = sorted((ROOT / "studies" / "pybatsched_studies").rglob("*.py"))

#: Package -> the packages it may import, lowest first: no package imports one that is listed after it.
#: `pybatsched` is the package itself, with what authors of policies and of experiments import from it.
ALLOWED: dict[str, str] = {
    "version": "",
    "errors": "",
    "deprecations": "",
    "text_table": "",
    "locks": "errors",
    "results": "locks errors",
    "pydantic_errors": "errors",
    "core": "pydantic_errors deprecations errors",
    "settings": "core errors",
    "policies": "core pydantic_errors deprecations errors",
    "protocol": "core errors",
    "workload": "protocol settings core results pydantic_errors errors",
    "session": "protocol policies core locks errors version",
    "metrics": "workload core results text_table deprecations errors version",
    "live": "metrics session core errors",
    "platform": "core text_table errors",
    "machines": "platform core errors",
    "simulator": "platform live metrics session workload protocol policies settings core results errors",
    "runs": (
        "simulator machines platform metrics session workload protocol policies settings core results "
        "pydantic_errors errors"
    ),
    "testing": "runs simulator platform session workload protocol policies core errors",
    "gym": "runs simulator metrics workload policies settings core deprecations errors",
    "campaign": (
        "runs machines live metrics workload policies settings results text_table pydantic_errors errors version"
    ),
    "report": "campaign metrics session workload core results errors version",
    "experiment": (
        "report campaign runs simulator metrics session workload policies settings core results deprecations errors"
    ),
    "pybatsched": "experiment runs machines policies core deprecations errors version",
    "cli": (
        "report campaign runs simulator machines platform live metrics session workload protocol policies "
        "settings core results text_table deprecations errors version"
    ),
    "__main__": "cli",
}


#: Modules of `report` that define what is shown and draw nothing; each may import only those before it.
WHAT_IS_SHOWN = (
    "durations", "gantt.cluster_rows", "gantt.bars", "campaign.points", "campaign.axes", "campaign.means",
    "campaign.boxes", "scales", "campaign.layout", "lines",
)  # fmt: skip


#: The modules of `core` that import its services; all others are below them.
ABOVE_SERVICES = {"actions", "engine", "replacement"}


#: Classes that share their name with another class, and the reason. All other public classes have names of their own.
SHARED_NAMES = {
    "Actions": "those of the engine (core) and of SimGrid (simulator)",
    "Answer": "an event and a decision of Batsim's protocol",
    "Codec": "the interface of codecs, and the codec of Batsim 5 as `v5.Codec`",
    "Notify": "an event and a decision of Batsim's protocol",
    "Partition": "processors of a policy, and a partition in slurm.conf",
    "Query": "an event and a decision of Batsim's protocol",
    "Workload": "jobs in memory, and the builder of `pybatsched.testing`, which is public",
}


#: Modules that name options outside of backticks: those of other programs, and those of a whole command in a file.
MAY_NAME_OPTIONS = {
    "pybatsched.campaign.batch_jobs": {
        *("--memory-limit", "--no-dashboard", "--preload", "--user"),
        *("--tls-ca-file", "--tls-cert", "--tls-key"),
    },
    "pybatsched.core.engine": {"--enable-redis"},
    "pybatsched.core.policy": {
        "--acknowledge-dynamic-jobs",
        "--enable-dynamic-jobs",
        "--enable-profile-reuse",
        "--forward-profiles-on-submission",
        "--forward-unknown-events",
    },
    "pybatsched.live.supervision": {"--socket-endpoint"},
    "pybatsched.policies.registry": {"--sched-cfg"},
    "pybatsched.workload.logs.tables.proposal": {"--format", "--mapping"},
}


def name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[parts[0] in {"schedulers", "studies"} :]).removesuffix(".__init__")


NAMES = {name(path) for path in (*MODULES, *SCHEDULERS, *STUDIES)}


def imports(path: Path) -> set[str]:
    """Return all modules that a file imports, anywhere in the file."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= inner & NAMES
            if inner - NAMES:
                found.add(node.module)
    return found


def own_imports(path: Path) -> set[str]:
    return imports(path) & NAMES


def package_of(module: str) -> str:
    return module.split(".")[1] if "." in module else module


def test_every_package_is_listed_and_may_import_only_lower_ones() -> None:
    assert set(ALLOWED) == {package_of(name(path)) for path in MODULES}
    packages = list(ALLOWED)
    for i, package in enumerate(packages):
        assert set(ALLOWED[package].split()) <= set(packages[:i]), package


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_a_module_imports_only_what_its_package_may_import(path: Path) -> None:
    package = package_of(name(path))
    assert {package_of(used) for used in own_imports(path)} - {package} <= set(ALLOWED[package].split())


def test_every_allowed_import_is_used() -> None:
    used: dict[str, set[str]] = {package: set() for package in ALLOWED}
    for path in MODULES:
        package = package_of(name(path))
        used[package] |= {package_of(module) for module in own_imports(path)} - {package}
    assert used == {package: set(packages.split()) for package, packages in ALLOWED.items()}


def test_only_runs_build_makes_the_inputs_of_the_simulator() -> None:
    others = [path for folder in ("schedulers", "studies", "examples") for path in (ROOT / folder).rglob("*.py")]
    found = {name(path) for path in (*MODULES, *others) if re.search(r"(?<!class )\bScenario\(", path.read_text())}
    assert found == {"pybatsched.runs.build"}


def test_the_docs_list_the_same_imports() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| [^|]+ \| ([^|]*) \|$", page, flags=re.MULTILINE)
    shown = {package: set(re.findall(r"\w+", knows)) for package, knows in rows}
    assert shown == {package: set(packages.split()) for package, packages in ALLOWED.items()}
    assert [package for package, _ in rows] == list(reversed(ALLOWED))


def test_there_are_no_import_cycles() -> None:
    files = [path for path in (*MODULES, *SCHEDULERS, *STUDIES) if path.stem != "__init__"]
    graph = {name(path): own_imports(path) for path in files}
    done: set[str] = set()

    def visit(module: str, trail: tuple[str, ...]) -> None:
        assert module not in trail, " imports ".join((*trail, module))
        if module not in done:
            for used in sorted(graph.get(module, ())):
                visit(used, (*trail, module))
            done.add(module)

    for module in graph:
        visit(module, ())


@pytest.mark.parametrize("path", sorted((PACKAGE / "core").glob("*.py")), ids=name)
def test_modules_of_the_core_import_no_service_that_is_above_them(path: Path) -> None:
    services = {used for used in own_imports(path) if used.startswith("pybatsched.core.services")}
    assert not services or path.stem in ABOVE_SERVICES


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_only_modules_with_sockets_import_zmq(path: Path) -> None:
    ends = {"server", "connection", "access", "keys", "relay"}
    known = {"pybatsched.simulator.external", *(f"pybatsched.live.{end}" for end in ends)}
    assert name(path) in known or not any(used.split(".")[0] == "zmq" for used in imports(path))


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_nothing_imports_a_scheduler_or_a_study(path: Path) -> None:
    assert not any(used.startswith(("pybatsched_schedulers", "pybatsched_studies")) for used in imports(path))


#: Programs, machines and authors of the published studies. Machines are known by name in `machines`.
STUDIED = re.compile(
    r"rlscheduler|predictsim|rackham|curie|n'takp|suter|faure|agung|gonthier|caniou|gaussier|dai, he|"
    r"pybatsched_studies|compas 20|apdcm|auspdc|ipdpsw|ieee access|\bsc ?20[0-9]{2}\b",
    re.IGNORECASE,
)


def test_nothing_in_the_package_names_a_published_study() -> None:
    files = [path for path in PACKAGE.rglob("*") if path.suffix in {".py", ".toml", ".c", ".js", ".css", ".txt"}]
    others = [path for path in files if path.relative_to(PACKAGE).parts[0] != "machines"]
    contents = {name(path): path.read_text(encoding="utf-8") for path in others}
    cited = re.compile(r"Quinson, Martin and Suter|gaussier2015improving|Gaussier, \{")  # for SimGrid and a predictor
    found = {module: STUDIED.findall(cited.sub("", text)) for module, text in contents.items()}
    assert not {module: words for module, words in found.items() if words}


@pytest.mark.parametrize("path", SCHEDULERS, ids=name)
def test_no_scheduler_imports_a_study(path: Path) -> None:
    assert not any("studies" in used for used in imports(path))


@pytest.mark.parametrize("path", sorted((PACKAGE / "core").rglob("*.py")), ids=name)
def test_the_core_does_no_input_or_output(path: Path) -> None:
    banned = {"zmq", "socket", "time", "random", "os", "pathlib", "json", "msgpack", "sys", "subprocess", "logging"}
    assert not {top.split(".")[0] for top in imports(path)} & banned


def test_the_policies_use_only_what_others_may_use() -> None:
    """Shipped policies import only the public names of `pybatsched` and each other, as policies of users do."""
    for path in (ROOT / "schedulers").rglob("*.py"):
        ours = {used for used in imports(path) if used.split(".")[0] == "pybatsched"}
        assert ours <= {"pybatsched"}, path


def texts(path: Path) -> Iterator[str]:
    """Yield all texts of a module except docstrings."""
    tree = ast.parse(path.read_text())
    statements = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in statements:
            yield node.value


def test_only_commands_name_their_options() -> None:
    """Other modules name settings (`errors.setting`), which commands, Python and campaigns spell in their own ways."""
    option, whole_command = re.compile(r"(?<![\w-])--[a-z][a-z-]+"), re.compile(r"`[^`]*`")
    found: dict[str, set[str]] = {}
    for path in MODULES:
        module = name(path)
        if package_of(module) == "cli" or module.startswith("pybatsched.live.batsim"):
            continue
        for text in texts(path):
            found.setdefault(module, set()).update(option.findall(whole_command.sub("", text)))
    for record in RECORDS:
        settings = record.settings().values()
        found[record.__module__] -= {one for about in settings for one in (*about.options, *about.old)}
    assert {module: options for module, options in found.items() if options} == MAY_NAME_OPTIONS


def test_no_module_has_a_vague_name() -> None:
    banned = ("util", "helper", "manager", "common", "misc")
    assert not [name(path) for path in MODULES if any(text in path.stem for text in banned)]


def test_no_two_public_classes_have_the_same_name() -> None:
    places: dict[str, list[str]] = {}
    for path in (*MODULES, *SCHEDULERS, *STUDIES):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(name(path))
    shared = {one: modules for one, modules in places.items() if len(modules) > 1}
    assert shared.keys() == SHARED_NAMES.keys(), {one: shared.get(one) for one in shared.keys() ^ SHARED_NAMES.keys()}


@pytest.mark.parametrize("module", WHAT_IS_SHOWN)
def test_data_modules_of_reports_import_no_plotting_library(module: str) -> None:
    used = imports(PACKAGE / "report" / f"{module.replace('.', '/')}.py")
    assert not {top.split(".")[0] for top in used} & {"matplotlib", "polars"}
    own = {top.removeprefix("pybatsched.report.") for top in used if top.startswith("pybatsched.report")}
    assert own <= set(WHAT_IS_SHOWN[: WHAT_IS_SHOWN.index(module)])
