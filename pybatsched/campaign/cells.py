"""Enumerate the cells of a campaign. A cell is one run; its address is a digest of all that determines its result."""

from __future__ import annotations

import hashlib
import itertools
import json
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from pybatsched.campaign.prepare import Prepared, digest_of, digest_of_files
from pybatsched.campaign.spec import PlatformSpec, PolicySpec, Spec
from pybatsched.errors import InputError
from pybatsched.machines import names
from pybatsched.machines.write import n_extra
from pybatsched.policies import registry
from pybatsched.policies.loading import names_file, split


def search_folders(spec_folder: Path | None) -> list[Path]:
    """Return the directories to search: that of the campaign's file, if it has one, then the working directory."""
    return list(dict.fromkeys(folder.resolve() for folder in (spec_folder, Path.cwd()) if folder is not None))


def platform_at(name: str, folders: Sequence[Path]) -> str:
    """Return the path of a platform file, or the name of a machine unchanged.

    Raises InputError that names the searched directories.
    """
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
    """Return ``path/to/file.py:Class`` with the absolute path; the name of an installed policy unchanged.

    `option` is the name of the option, for error messages.
    """
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
    one. `procs` is a number of equal processors, or 0 if `platform` names a machine or file. `file_options` are the
    options in the campaign's file; `options` may also have the seed. `failures` and `checkpoint` are the settings of
    random failures and of checkpoints.
    """

    address: str
    workload: str
    workload_file: str
    platform: str
    procs: int
    policy: str
    label: str
    options: Mapping[str, Any]
    file_options: Mapping[str, Any]
    seed: int
    repeat: int
    tau_s: float
    keep: str
    each: tuple[str, ...] = ()
    compared: Mapping[str, Any] | None = None
    failures: Mapping[str, Any] | None = None
    checkpoint: str | Mapping[str, Any] | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the members by name, for JSON and for other processes."""
        return asdict(self)

    @property
    def shown(self) -> str:
        """A line that identifies the run."""
        options = ",".join(f"{key}={json.dumps(value)}" for key, value in self.options.items())
        return (
            f"{self.workload} {self.platform or self.procs} {self.label}{f'({options})' if options else ''} {self.seed}"
        )


def cells_of(
    spec: Spec, prepared: Mapping[int, list[Prepared]], spec_folder: Path | None = None
) -> Iterator[tuple[PlatformSpec, Cell]]:
    """Yield all cells in the order of the file: workloads, platforms, policies, options, seeds, repeats.

    `prepared` are the prepared workloads by effective seed. Files of platforms and policies are searched for in
    `spec_folder` and in the working directory. Cells with equal results share their address, for example if nothing
    depends on the seed.
    """
    folders = search_folders(spec_folder)
    digest = cache(_digest_of_folder)  # only for this call: agents may be trained again later
    compared = spec.where if spec.baseline else None
    for seed, repeat in itertools.product(spec.seeds, range(spec.repeats)):
        effective = effective_seed(seed, repeat)
        for workload, platform in itertools.product(prepared[effective], spec.platform):
            machine, procs, machine_digest = _machine(platform, workload, folders)
            for number, policy in enumerate(spec.policy, start=1):
                if policy.platforms and platform.name not in policy.platforms:
                    continue
                if policy.workloads and workload.family not in policy.workloads:
                    continue
                source = _policy(number, policy, folders)
                for options in policy.settings():
                    given, agents = _with_code(source, dict(options), folders, digest)
                    if "seed" in source.option_fields:
                        given.setdefault("seed", effective)
                    failures = None if platform.failures is None else {"seed": effective, **platform.failures}
                    content = {
                        "figures": FIGURES_VERSION,
                        "code": code_digest(),
                        "workload": workload.digest,
                        "platform": machine_digest,
                        "policy": [*_code_of(source), given | agents],
                        "tau_s": spec.tau_s,
                        "keep": spec.keep,
                        "each": spec.each,
                        "compared": compared,
                        **({} if failures is None else {"failures": failures}),
                        **({} if platform.checkpoint is None else {"checkpoint": platform.checkpoint}),
                    }
                    yield (
                        platform,
                        Cell(
                            address=digest_of(content),
                            workload=workload.name,
                            workload_file=workload.path,
                            platform=machine,
                            procs=procs,
                            policy=source.name,
                            label=policy.label or policy.name,
                            options=given,
                            file_options=options,
                            seed=seed,
                            repeat=repeat,
                            tau_s=spec.tau_s,
                            keep=spec.keep,
                            each=spec.each,
                            compared=compared,
                            failures=failures,
                            checkpoint=platform.checkpoint,
                        ),
                    )


def _policy(number: int, policy: PolicySpec, folders: Sequence[Path]) -> registry.PolicySource:
    """Load a policy and check all its settings, before anything runs. Raises InputError with its number in the file."""
    try:
        source = registry.find(policy_at(policy.name, folders), trusted=True)
        for given in policy.settings():
            registry.PolicyPlan(source, given, given_by="the campaign", trusted=True).options_for(None)
    except InputError as error:
        raise InputError(f"policy {number}: {error}") from None
    return source


def _with_code(
    source: registry.PolicySource,
    given: dict[str, Any],
    folders: Sequence[Path],
    digest: Callable[[Path, str], str],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the options with absolute paths of code, and the values that replace these options in addresses.

    Such a value is the name without its directory, and a digest of the code and the weights of its package, or of its
    file's directory.
    """
    whole, digests = dict(given), {}
    for option in source.cls.names_code:
        name = given.get(option)
        if not isinstance(name, str):
            continue
        if names_file(name):
            whole[option] = policy_at(name, folders, option)
            path, inner = split(whole[option])
            digests[option] = [path.name, inner, digest(path.parent, "*")]
        else:
            spec = _spec_of(name.partition(":")[0].partition(".")[0])
            packages = [] if spec is None else spec.submodule_search_locations or []
            digests[option] = [name, *(digest(Path(folder), "**/*") for folder in packages)]
            if spec is not None and not packages and spec.origin is not None:
                digests[option].append(digest(Path(spec.origin).parent, "*"))
    return whole, digests


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


def _machine(platform: PlatformSpec, workload: Prepared, folders: Sequence[Path]) -> tuple[str, int, str]:
    """Return the machine's name or number of processors, and a digest of it."""
    if platform.platform is not None:
        found = platform_at(platform.platform, folders)
        return found, 0, _machine_digest(found)
    procs = platform.procs or workload.n_procs
    procs += n_extra(procs, platform.alpha)
    return "", procs, f"procs:{procs}"


@cache
def _machine_digest(name: str) -> str:
    return hashlib.sha256(names.find(name).data()).hexdigest()


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
