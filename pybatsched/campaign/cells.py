"""The cells of a campaign: one run each, addressed by all that determines its result."""

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

import pybatsched
from pybatsched.campaign.prepare import Prepared, digest_of, digest_of_files
from pybatsched.campaign.spec import PlatformSpec, Spec
from pybatsched.errors import InputError
from pybatsched.machines import names
from pybatsched.machines.write import n_extra
from pybatsched.policies import registry
from pybatsched.policies.loading import names_file, split


def places_of(beside: Path | None) -> list[Path]:
    """Give where to look: the directory of the campaign's file, if it has one, then the working directory."""
    return list(dict.fromkeys(place.resolve() for place in (beside, Path.cwd()) if place is not None))


def platform_at(name: str, places: Sequence[Path]) -> str:
    """Give a platform file's path, or the name of a machine as it is. Raises InputError that says where it looked."""
    found = _found(name, places)
    if found is not None:
        return str(found)
    if names.variant_of(name) is None:
        raise InputError(
            f"platform {name:.200}: no such file in {_shown(name, places)}, and no machine of that name "
            "(pybatsched platform list tells them)"
        )
    return name


def policy_at(name: str, places: Sequence[Path], who: str = "policy") -> str:
    """Give ``path/to/file.py:Class`` with the whole path; the name of an installed policy as it is.

    `who` is what is so named, for messages.
    """
    if not names_file(name):
        return name
    stem, _, class_name = name.partition(".py:") if ".py:" in name else (name.removesuffix(".py"), "", "")
    found = _found(f"{stem}.py", places)
    if found is None:
        raise InputError(f"{who} {name:.200}: no such file in {_shown(f'{stem}.py', places)}")
    return f"{found}:{class_name}" if class_name else str(found)


def _found(name: str, places: Sequence[Path]) -> Path | None:
    for place in places:
        try:
            if (place / name).is_file():
                return (place / name).resolve()
        except (OSError, ValueError):  # a name that no file can have
            return None
    return None


def _shown(name: str, places: Sequence[Path]) -> str:
    where = [Path(name).parent] if Path(name).is_absolute() else places
    return ", ".join(map(str, where))


#: What tells agents apart, by their endings: those that libraries give to what was learnt.
_WEIGHTS: Final = (".npy", ".npz", ".zip", ".pt", ".pth", ".onnx", ".safetensors", ".pkl", ".joblib")
_CODE_AND_WEIGHTS: Final = frozenset((".py", *_WEIGHTS))
#: A change of what is computed of a run makes other cells of the same spec.
FIGURES_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Cell:
    """One run. `address` is a digest of all that its result depends on; the other members are to find it again.

    `compared` are the fields of those jobs whose ends are kept, to be compared with a baseline's; None if none are.
    `procs` is a number of equal processors, or 0 if `platform` names a machine or file. `told_options` are those of the
    file; `options` may have the seed besides.
    """

    address: str
    workload: str
    workload_file: str
    platform: str
    procs: int
    policy: str
    label: str
    options: Mapping[str, Any]
    told_options: Mapping[str, Any]
    seed: int
    repeat: int
    tau_s: float
    keep: str
    each: tuple[str, ...] = ()
    compared: Mapping[str, Any] | None = None

    def as_dict(self) -> dict[str, Any]:
        """Give its members by name, for JSON and for other processes."""
        return asdict(self)

    @property
    def shown(self) -> str:
        """Say in a line which run it is."""
        options = ",".join(f"{key}={json.dumps(value)}" for key, value in self.options.items())
        return (
            f"{self.workload} {self.platform or self.procs} {self.label}{f'({options})' if options else ''} {self.seed}"
        )


def cells_of(
    spec: Spec, prepared: Mapping[int, list[Prepared]], beside: Path | None = None
) -> Iterator[tuple[PlatformSpec, Cell]]:
    """Give all cells in the order of the file: workloads, platforms, policies, options, seeds, repeats.

    `prepared` are the workloads that are ready, by effective seed; files of platforms and policies are looked for in
    `beside` and in the working directory. Cells that would give the same result, as those of
    two seeds that nothing depends on, share their address.
    """
    looked_in = places_of(beside)
    digest = cache(_digest_of_folder)  # for as long as this takes: agents are trained again
    compared = spec.where if spec.baseline else None
    for seed, repeat in itertools.product(spec.seeds, range(spec.repeats)):
        effective = effective_seed(seed, repeat)
        for workload, platform in itertools.product(prepared[effective], spec.platform):
            machine, procs, machine_digest = _machine(platform, workload, looked_in)
            for policy in spec.policy:
                if policy.platforms and platform.name not in policy.platforms:
                    continue
                if policy.workloads and workload.family not in policy.workloads:
                    continue
                source = registry.find(policy_at(policy.name, looked_in), trusted=True)
                for options in policy.settings():
                    given = dict(options)
                    _check_options(source, given)
                    given, agents = _with_code(source, given, looked_in, digest)
                    if "seed" in source.option_fields:
                        given.setdefault("seed", effective)
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
                            told_options=options,
                            seed=seed,
                            repeat=repeat,
                            tau_s=spec.tau_s,
                            keep=spec.keep,
                            each=spec.each,
                            compared=compared,
                        ),
                    )


def _check_options(source: registry.PolicySource, given: Mapping[str, Any]) -> None:
    """Raise InputError for options that the policy does not have, before anything runs."""
    registry.PolicyPlan(source, given, given_by="the campaign", trusted=True).options_for(None)


def _with_code(
    source: registry.PolicySource,
    given: dict[str, Any],
    looked_in: Sequence[Path],
    digest: Callable[[Path, str], str],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Give options with whole paths where they name code, and what their cells' addresses have instead of these.

    That is the name without where it lies, and a digest of the code and the weights of its package, or of those that
    lie beside its file.
    """
    whole, told = dict(given), {}
    for option in source.cls.names_code:
        name = given.get(option)
        if not isinstance(name, str):
            continue
        if names_file(name):
            whole[option] = policy_at(name, looked_in, option)
            path, inner = split(whole[option])
            told[option] = [path.name, inner, digest(path.parent, "*")]
        else:
            spec = _spec_of(name.partition(":")[0].partition(".")[0])
            folders = [] if spec is None else spec.submodule_search_locations or []
            told[option] = [name, *(digest(Path(folder), "**/*") for folder in folders)]
            if spec is not None and not folders and spec.origin is not None:
                told[option].append(digest(Path(spec.origin).parent, "*"))
    return whole, told


def _spec_of(module: str) -> ModuleSpec | None:
    try:
        return find_spec(module)
    except (ImportError, ValueError):  # no name at all: told when the cell is run
        return None


def _digest_of_folder(folder: Path, pattern: str) -> str:
    return digest_of_files(folder, (path for path in folder.glob(pattern) if path.suffix in _CODE_AND_WEIGHTS))


def effective_seed(seed: int, repeat: int) -> int:
    """Give the seed of a repeat: the first one is the seed itself, the others are drawn from it."""
    return seed if repeat == 0 else random.Random(f"{seed}/{repeat}").getrandbits(31)  # noqa: S311  no secret


def _machine(platform: PlatformSpec, workload: Prepared, looked_in: Sequence[Path]) -> tuple[str, int, str]:
    """Give the machine's name or number of processors, and a digest of it."""
    if platform.platform is not None:
        found = platform_at(platform.platform, looked_in)
        return found, 0, _machine_digest(found)
    procs = platform.procs or workload.n_procs
    procs += n_extra(procs, platform.alpha)
    return "", procs, f"procs:{procs}"


@cache
def _machine_digest(name: str) -> str:
    return hashlib.sha256(names.find(name).data()).hexdigest()


def _code_of(source: registry.PolicySource) -> tuple[str, str]:
    """Give a policy's name, without where its file lies, and a digest of its code."""
    top = source.cls.__module__.partition(".")[0]
    package = sys.modules[top]
    if hasattr(package, "__path__"):
        return source.name, _policy_digest(top, tuple(package.__path__))
    file = Path(str(package.__file__))
    return f"{file.name}:{source.cls.__qualname__}", _policy_digest(top, (str(file.parent),))


@cache
def _policy_digest(top: str, places: tuple[str, ...]) -> str:
    """Tell policies apart by their code: all of the package they are in, or all files beside the one they are in."""
    is_package = hasattr(sys.modules[top], "__path__")
    folders = [Path(place) for place in places]
    return "".join(
        digest_of_files(folder, folder.rglob("*.py") if is_package else folder.glob("*.py")) for folder in folders
    )


@cache
def code_digest() -> str:
    """Give a digest of our own code: results of another version are other results."""
    root = Path(str(pybatsched.__file__)).parent
    return digest_of_files(root, root.rglob("*.py"))
