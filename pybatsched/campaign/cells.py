"""Enumerate the cells of a campaign. A cell is one run; its address is a digest of all that determines its result."""

from __future__ import annotations

import hashlib
import itertools
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, lru_cache
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from pybatsched.campaign.prepare import CampaignMachine, Prepared, digest_of, digest_of_files
from pybatsched.campaign.spec import PlatformTable, PolicyTable, Spec
from pybatsched.errors import InputError, setting
from pybatsched.machines import names
from pybatsched.policies import registry
from pybatsched.policies.loading import names_file, split
from pybatsched.runs.build import platform_of, version_of
from pybatsched.runs.policies import PolicySpec
from pybatsched.runs.spec import MachineSpec
from pybatsched.runs.workloads import sizing


def search_folders(spec_folder: Path | None) -> list[Path]:
    """Return the directories to search: that of the campaign's file, if it has one, then the working directory."""
    return list(dict.fromkeys(folder.resolve() for folder in (spec_folder, Path.cwd()) if folder is not None))


def platform_at(name: str, folders: Sequence[Path]) -> str:
    """Return the path of a platform file, or the name of a machine unchanged. Raises InputError."""
    found = _found(name, folders)
    if found is not None:
        return str(found)
    if names.variant_of(name) is None:
        raise InputError(
            f"platform {name:.200}: no such file in {_shown(name, folders)}, and no machine of that name "
            "(see pybatsched platform list)"
        )
    return name


def policy_at(name: str, folders: Sequence[Path], option: str = "policy") -> str:
    """Return ``path/to/file.py:Class`` with the absolute path; the name of an installed policy unchanged."""
    if not names_file(name):
        return name
    stem, _, class_name = name.partition(".py:") if ".py:" in name else (name.removesuffix(".py"), "", "")
    found = _found(f"{stem}.py", folders)
    if found is None:
        raise InputError(f"{option} {name:.200}: no such file in {_shown(f'{stem}.py', folders)}")
    return f"{found}:{class_name}" if class_name else str(found)


def _found(name: str, folders: Sequence[Path]) -> Path | None:
    for folder in folders:
        try:
            if (folder / name).is_file():
                return (folder / name).resolve()
        except (OSError, ValueError):  # not a valid file name
            return None
    return None


def _shown(name: str, folders: Sequence[Path]) -> str:
    where = [Path(name).parent] if Path(name).is_absolute() else folders
    return ", ".join(map(str, where))


#: Endings of files with the weights of learnt agents.
_WEIGHTS: Final = (".npy", ".npz", ".zip", ".pt", ".pth", ".onnx", ".safetensors", ".pkl", ".joblib")
_CODE_AND_WEIGHTS: Final = frozenset((".py", *_WEIGHTS))
#: Part of the address of a cell; increase it when the figures of a run change.
FIGURES_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Cell:
    """One run. `address` is a digest of all that its result depends on; the other members describe the run.

    `compared` selects, by their fields, the jobs whose ends are kept for a comparison with a baseline; None without
    one. `workload` has the members of a `Prepared`; `machine`, `run` and `policy` are the settings of `runs.spec` by
    name. `options` are those of the policy in the campaign's file.
    """

    address: str
    workload: Mapping[str, Any]
    machine: Mapping[str, Any]
    run: Mapping[str, Any]
    policy: Mapping[str, Any]
    options: Mapping[str, Any]
    seed: int
    repeat: int
    keep: str
    each: tuple[str, ...] = ()
    compared: Mapping[str, Any] | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the members by name, for JSON and for other processes."""
        return asdict(self)


#: The prepared workloads of a campaign, by effective seed and name of the platform.
PreparedWorkloads = Mapping[tuple[int, str], Sequence[Prepared]]


def cells_of(
    spec: Spec, prepared: PreparedWorkloads, spec_folder: Path | None = None
) -> Iterator[tuple[PlatformTable, Cell]]:
    """Yield all cells in the order of the file. Cells with equal results share their address."""
    folders = search_folders(spec_folder)
    digest = cache(_digest_of_folder)  # only for this call: agents may be trained again later
    kept: dict[str, Any] = {"keep": spec.keep, "each": spec.each, "compared": spec.where if spec.baseline else None}
    run = spec.run.as_json()
    if spec.run.sched_cfg_file is not None:
        run["sched_cfg_file"] = _file_at("sched_cfg_file", spec.run.sched_cfg_file, folders)
    run_digest = {name: _digest_of_file(one) if name == "sched_cfg_file" else one for name, one in run.items()}
    numbered = enumerate(spec.policy, start=1)
    keeps_seed = "seeds" not in spec.model_fields_set and spec.repeats == 1
    policies = [(policy, list(_settings(number, policy, folders, digest, keeps_seed))) for number, policy in numbered]
    for seed, repeat in itertools.product(spec.seeds, range(spec.repeats)):
        effective = effective_seed(seed, repeat)
        columns = [prepared[effective, platform.name] for platform in spec.platform]
        for row in zip(*columns, strict=True):
            for platform, workload in zip(spec.platform, row, strict=True):
                machine, machine_digest = _machine(platform, workload, folders)
                for policy, settings in policies:
                    if policy.platforms and platform.name not in policy.platforms:
                        continue
                    if policy.workloads and workload.family not in policy.workloads:
                        continue
                    for options, own, policy_digest in settings:
                        used_seed = {"seed": effective} if own.has_seed or platform.machine.draws else {}
                        content = {
                            "figures": FIGURES_VERSION,
                            "code": code_digest(),
                            "workload": workload.digest,
                            "platform": machine_digest,
                            "policy": policy_digest,
                            "run": run_digest | used_seed,
                            **kept,
                        }
                        cell = Cell(
                            address=digest_of(content),
                            workload=workload._asdict(),
                            machine=machine,
                            run=run | used_seed,
                            policy=own.as_json(),
                            options=options,
                            seed=seed,
                            repeat=repeat,
                            **kept,
                        )
                        yield platform, cell


def hosts_of(spec: Spec, spec_folder: Path | None = None) -> dict[str, CampaignMachine]:
    """Return what the preparation of workloads depends on, by platform. Reads the platforms. Raises InputError."""
    found = {}
    for number, table in enumerate(spec.platform, start=1):
        try:
            machine = _with_files(table, search_folders(spec_folder))
            platform = None if machine.platform is None else platform_of(machine)
            found[table.name] = CampaignMachine(machine, table.alpha, sizing(machine, platform))
        except InputError as error:
            raise InputError(f"platform {number}: {error}") from None
    return found


def _with_files(table: PlatformTable, folders: Sequence[Path]) -> MachineSpec:
    """Return the machine with the paths of its files."""
    spec = table.machine
    if spec.platform is not None:
        spec = replace(spec, platform=platform_at(spec.platform, folders))
    return replace(spec, events=tuple(_file_at("events", path, folders) for path in spec.events))


def _file_at(what: str, name: str, folders: Sequence[Path]) -> str:
    """Return the path of a file that the campaign names. Raises InputError."""
    found = _found(name, folders)
    if found is None:
        raise InputError(f"{setting(what)} {name:.200}: no such file in {_shown(name, folders)}")
    return str(found)


def _digest_of_file(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def _settings(
    number: int, policy: PolicyTable, folders: Sequence[Path], digest: Callable[[Path, str], str], keeps_seed: bool
) -> Iterator[tuple[dict[str, Any], PolicySpec, list[Any]]]:
    """Yield each setting of a policy: its options in the file, the policy with whole paths, and what identifies it.

    All of it is checked, before anything runs. With `keeps_seed`, a `seed` in a configuration file is used instead of
    the campaign's default seed. Raises InputError with the number of the policy in the file.
    """
    try:
        name = policy_at(str(policy.spec.policy), folders)
        named = replace(policy.spec, policy=name, label=policy.title, given_by="the campaign")
        for given in policy.settings():
            own = replace(named, options=given)
            files: dict[str, Any] = {
                kind: _file_at(kind, path, folders)
                for kind in ("config", "host_reservations")
                if (path := getattr(own, kind)) is not None
            }
            own = replace(own, **files)
            own = replace(own, options=_with_paths(own, folders))
            if keeps_seed and "seed" in own.from_file:
                own = replace(own, options={"seed": own.from_file["seed"], **own.options})
            own.plan().options_for(None)
            options = {**own.options, **_digests_of_code(own, digest), **_digests_of_files(own)}
            if own.node_partitions is not None:
                options["node_partitions"] = own.node_partitions
            digests = {kind: _digest_of_file(path) for kind, path in files.items()}
            yield given, own, [*_code_of(own.source), options, digests]
    except InputError as error:
        raise InputError(f"policy {number}: {error}") from None


def _names_code(source: registry.PolicySource, option: str, value: Any) -> bool:
    return isinstance(value, str) and (option in source.cls.names_code or names_file(value))


def _with_paths(policy: PolicySpec, folders: Sequence[Path]) -> dict[str, Any]:
    """Return the options, and those of the configuration file that name code, with absolute paths of Python files."""
    from_file = {key: value for key, value in policy.from_file.items() if _names_code(policy.source, key, value)}
    found = {
        option: policy_at(value, folders, option) if isinstance(value, str) and names_file(value) else value
        for option, value in {**from_file, **policy.options}.items()
    }
    named = (option for option in policy.source.cls.names_files if isinstance(found.get(option), str))
    return found | {option: _file_at(option, found[option], folders) for option in named}


def _digests_of_code(policy: PolicySpec, digest: Callable[[Path, str], str]) -> dict[str, Any]:
    """Return the digests of the code that options name, which replace them in addresses."""
    digests = {}
    for option, name in policy.options.items():
        if not _names_code(policy.source, option, name):
            continue
        if names_file(name):
            path, inner = split(name)
            digests[option] = [path.name, inner, digest(path.parent, "*")]
        else:
            spec = _spec_of(name.partition(":")[0].partition(".")[0])
            packages = [] if spec is None else spec.submodule_search_locations or []
            digests[option] = [name, *(digest(Path(folder), "**/*") for folder in packages)]
            if spec is not None and not packages and spec.origin is not None:
                digests[option].append(digest(Path(spec.origin).parent, "*"))
    return digests


def _digests_of_files(policy: PolicySpec) -> dict[str, Any]:
    """Return the digests of the files that options name. That of a machine may include the `.conf` files beside it."""
    cls, digests = policy.source.cls, dict[str, Any]()
    for option in cls.names_files:
        name = policy.options.get(option)
        if isinstance(name, str):
            folder = Path(name).parent
            beside = digest_of_files(folder, folder.glob("*.conf")) if option == cls.machine_option else ""
            digests[option] = [_digest_of_file(name), beside]
    return digests


def _spec_of(module: str) -> ModuleSpec | None:
    try:
        return find_spec(module)
    except (ImportError, ValueError):  # not a module name: the run of the cell reports it
        return None


def _digest_of_folder(folder: Path, pattern: str) -> str:
    return digest_of_files(folder, (path for path in folder.glob(pattern) if path.suffix in _CODE_AND_WEIGHTS))


def effective_seed(seed: int, repeat: int) -> int:
    """Return the seed of a repeat: the seed itself for the first, random numbers from it for the others."""
    return seed if repeat == 0 else random.Random(f"{seed}/{repeat}").getrandbits(31)  # noqa: S311  no secret


def _machine(table: PlatformTable, workload: Prepared, folders: Sequence[Path]) -> tuple[dict[str, Any], list[Any]]:
    """Return the settings of the machine for a prepared workload, and what identifies it."""
    spec = CampaignMachine(_with_files(table, folders), table.alpha).spec_for(workload.n_procs)
    if spec.units != "core":
        spec = replace(spec, units=None)  # sizes were converted when the workload was prepared
    found = spec.as_json()
    content = [_machine_digest(spec.platform, spec.energy, version_of(spec.platform))] if spec.platform else []
    content += [_digest_of_file(path) for path in spec.events]
    return found, [*content, {name: value for name, value in found.items() if name not in {"platform", "events"}}]


@lru_cache(16)
def _machine_digest(name: str, energy: bool, _version: tuple[int, int] | None) -> str:
    return hashlib.sha256(names.find(name, energy=energy).data()).hexdigest()


def _code_of(source: registry.PolicySource) -> tuple[str, str]:
    """Return a policy's name, without the directory of its file, and a digest of its code."""
    top = source.cls.__module__.partition(".")[0]
    package = sys.modules[top]
    if hasattr(package, "__path__"):
        return source.name, _policy_digest(top, tuple(package.__path__))
    file = Path(str(package.__file__))
    return f"{file.name}:{source.cls.__qualname__}", _policy_digest(top, (str(file.parent),))


@cache
def _policy_digest(top: str, paths: tuple[str, ...]) -> str:
    """Return a digest of a policy's code: of its package, or of all Python files in the directory of its file."""
    is_package = hasattr(sys.modules[top], "__path__")
    folders = [Path(path) for path in paths]
    return "".join(
        digest_of_files(folder, folder.rglob("*.py") if is_package else folder.glob("*.py")) for folder in folders
    )


@cache
def code_digest() -> str:
    """Return a digest of pybatsched's code: results of different versions have different addresses."""
    root = Path(__file__).parents[1]
    return digest_of_files(root, root.rglob("*.py"))
