"""Finding policies and their options.

A policy is named by an entry point of the group ``pybatsched.policies`` (shipped and foreign ones come the same way)
or by ``path/to/file.py:Class``, which runs the code of that file. Whatever goes wrong on the way is an `InputError`
that names the policy.

Files are run on the word of the owner alone: who starts the process, on the command line, in a configuration file or a
campaign. What comes over the wire or from a journal chooses among installed policies. So nothing here runs a file
unless its caller says that the name is `trusted`; a caller that forgets to say so gets installed policies only.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
from pydantic import BaseModel, ValidationError

from pybatsched.core.fields import JobFields, described
from pybatsched.core.policy import BatsimFeature, Policy, TrustedFiles
from pybatsched.errors import NOT_THE_PLUGINS, InputError, UntrustedFileError, describe_error
from pybatsched.policies.loading import module_of, names_file, split
from pybatsched.policies.local import LocalPolicy, LocalScheduler

if TYPE_CHECKING:
    from pybatsched.core.cluster import Partition
    from pybatsched.core.events import SimulationBegins

GROUP: Final = "pybatsched.policies"


#: Seconds to plan jobs with that have neither walltime nor estimate, as the options of queues call it.
_ASSUMED: Final = "assume_walltime"


@dataclass(frozen=True)
class PolicySource:
    """A policy class, the name the user gave for it and where it was found."""

    name: str
    cls: type[Policy]
    origin: str

    @property
    def option_fields(self) -> Mapping[str, Any]:
        """The options by name, as pydantic describes them."""
        return self.cls.Options.model_fields

    @property
    def job_fields(self) -> Mapping[str, str]:
        """What it reads of jobs, the estimate included, by name, with what is expected."""
        return described(self.cls.JobFields)

    @property
    def batsim_args(self) -> list[str]:
        """The options that Batsim must be started with, in a fixed order."""
        return sorted(need.batsim_option for need in BatsimFeature if need in self.cls.needs)

    @property
    def table_name(self) -> str:
        """The name of its table ``[policy.NAME]`` in a configuration file."""
        return self.cls.__name__ if names_file(self.name) else self.name


class Reserving(NamedTuple):
    """A policy that rejects jobs it cannot plan, and what -o would have it plan them; empty if nothing does."""

    policy: str
    option: str


class Recorded(NamedTuple):
    """Options that a journal says were given. They take effect, but name no Python files unless it is `trusted`."""

    given: Mapping[str, Any]
    from_file: Mapping[str, Any]
    trusted: bool = False


NOTHING_RECORDED: Final = Recorded({}, {})


class _Layer(NamedTuple):
    """Options that came from one place."""

    options: Mapping[str, Any]
    given_by: str
    trusted: bool


@dataclass(frozen=True)
class PolicyPlan:
    """A policy together with the options the user gave, ready to be made when Batsim has said its own.

    Say `trusted` if `given` and `from_file` are the owner's own words: then they may name Python files. With `fixed`
    options, whatever Batsim has to say to the policy is an error.
    """

    source: PolicySource
    given: Mapping[str, Any] = field(default_factory=dict)
    from_file: Mapping[str, Any] = field(default_factory=dict)
    file_name: str = "the configuration file"
    given_by: str = "-o"
    trusted: bool = False
    recorded: Recorded = NOTHING_RECORDED
    fixed: bool = False

    def options_for(self, begins: SimulationBegins | None) -> BaseModel:
        """Merge and check the options: ``-o`` over Batsim's sched-config over the file over the defaults."""
        merged = self._merged(begins)
        known = self.source.option_fields
        if self.source.cls.Options.model_config.get("extra") != "allow":
            for key, (_, layer) in merged.items():
                if key not in known:
                    options = ", ".join(known) or "none"
                    raise InputError(
                        f"policy {self.source.name} has no option {key!r} (from {layer.given_by}); it knows: {options}"
                    )
        try:
            return self.source.cls.Options.model_validate({key: value for key, (value, _) in merged.items()})
        except ValidationError as error:
            raise InputError(_explained(error, self.source.name, merged)) from None

    def trusted_files(self, begins: SimulationBegins | None) -> TrustedFiles:
        """Give the Python files that the options name, the owner's apart from all others'.

        It goes by the text, wherever it is inside the options: what a policy makes of a text is its own matter, but
        a file is run only if the owner wrote its very name, and nobody else did. In options that name code
        (`Policy.names_code`) every text is such a name.
        """
        names: set[str] = set()
        others: dict[str, str] = {}
        for option, (value, layer) in self._merged(begins).items():
            for text in _texts(value):
                if not names_file(text) and option not in self.source.cls.names_code:
                    continue
                if layer.trusted:
                    names.add(text)
                else:
                    others.setdefault(text, f"policy {self.source.name}: option {option} (from {layer.given_by})")
        return TrustedFiles(frozenset(names - others.keys()), others)

    def check_early(self) -> None:
        """Refuse what is wrong already, before Batsim has said its own; what is missing may still come from there."""
        try:
            options = self.source.cls.Options.model_validate({**self.from_file, **self.given})
        except ValidationError as error:
            if any(problem["type"] != "missing" for problem in error.errors()):
                self.options_for(None)
            return
        for option in self.source.cls.borrows:
            name = str(getattr(options, option, ""))
            if not names_file(name):  # whose code is not run before it must
                try:
                    _with_one_queue(find(name))
                except InputError as error:
                    raise InputError(f"policy {self.source.name}, option {option}: {error}") from None

    def field_models(self, begins: SimulationBegins | None = None) -> dict[str, type[JobFields]]:
        """Give the models of what is read of jobs: the policy's own, and those of policies that its options name."""
        return {name: cls.JobFields for name, cls in self._policies(begins).items()}

    def _policies(self, begins: SimulationBegins | None) -> dict[str, type[Policy]]:
        """Give the policy and those that its options name, by name.

        What is wrong with such a name, or still to come from Batsim, is told when the policy is made.
        """
        found = {self.source.name: self.source.cls}
        for option in self.source.cls.borrows:
            with contextlib.suppress(InputError):
                name = str(getattr(self.options_for(begins), option, ""))
                found[name] = find(name, trusted=name in self.trusted_files(begins).names).cls
        return found

    def reserving(self, begins: SimulationBegins | None = None) -> Reserving | None:
        """Name the policy, this one or one that its options name, that rejects jobs without walltime and estimate.

        None if there is none, or if some option `assume_walltime` says what to plan such jobs with.
        """
        if _is_set(_ASSUMED, {key: value for key, (value, _) in self._merged(begins).items()}):
            return None
        name = next((name for name, cls in self._policies(begins).items() if cls.reserves), None)
        if name is None:
            return None
        known = self.source.option_fields
        if name == self.source.name:
            return Reserving(name, f"{_ASSUMED}=SECONDS" if _ASSUMED in known else "")
        options = self.options_for(begins)
        of = next(f"{option}_options" for option in self.source.cls.borrows if getattr(options, option, "") == name)
        return Reserving(name, f'{of}={{"{_ASSUMED}": SECONDS}}' if of in known else "")

    def make(self, begins: SimulationBegins) -> Policy:
        """Make the policy. An exception of its constructor is the plugin's fault."""
        options, files = self.options_for(begins), self.trusted_files(begins)
        try:
            policy = self.source.cls(options)
            policy.trusted_files = files
        except NOT_THE_PLUGINS:
            raise
        except BaseException as error:
            raise InputError(f"policy {self.source.name} cannot be made: {describe_error(error)}") from error
        return policy

    def _merged(self, begins: SimulationBegins | None) -> dict[str, tuple[Any, _Layer]]:
        """Give the values that take effect, each with where it came from."""
        said = {} if begins is None else self._said_by_batsim(begins)
        weakest_first = (
            _Layer(self.recorded.from_file, "the journal", self.recorded.trusted),
            _Layer(self.from_file, self.file_name, self.trusted),
            _Layer(said, _said_where(begins), trusted=False),
            _Layer(self.recorded.given, "the journal", self.recorded.trusted),
            _Layer(self.given, self.given_by, self.trusted),
        )
        return {key: (value, layer) for layer in weakest_first for key, value in layer.options.items()}

    def _said_by_batsim(self, begins: SimulationBegins) -> dict[str, Any]:
        text = begins.option("sched-config")
        if not isinstance(text, str) or not text.strip():
            return {}
        if self.fixed:
            raise InputError(f"{_said_where(begins)} is {text[:80]!r}; expected nothing there (--fixed-options)")
        if self.source.cls.reads_sched_config:
            return {}
        try:
            said = msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError) as error:
            raise InputError(f"{_said_where(begins)} is no JSON object: {error}, in {text[:80]!r}") from None
        if not isinstance(said, dict):
            raise InputError(f"{_said_where(begins)} must be a JSON object of options, got {text[:80]!r}")
        wanted = said.pop("policy", None)
        if wanted is not None and wanted not in (self.source.name, self.source.table_name):
            raise InputError(f"{_said_where(begins)} asks for policy {wanted!r}, but --policy is {self.source.name!r}")
        return said


def _said_where(begins: SimulationBegins | None) -> str:
    """Name the place on Batsim's command line where the options for its scheduler are."""
    is_five = begins is not None and begins.option("batsim") == 5
    return "the text behind Batsim's -s ENDPOINT" if is_five else "Batsim's --sched-cfg"


@functools.cache
def available() -> Mapping[str, metadata.EntryPoint]:
    """Give the installed policies by name. Cost: one look through the installed packages, the first time."""
    return {entry.name: entry for entry in sorted(metadata.entry_points(group=GROUP), key=lambda entry: entry.name)}


def find(name: str, *, trusted: bool = False) -> PolicySource:
    """Load a policy by its entry point, or by ``file.py:Class`` if the owner has named it (`trusted`)."""
    if names_file(name):
        if not trusted:
            raise UntrustedFileError(
                f"policy {name!r:.200} is a Python file; who named it may choose among installed policies only: "
                f"{_known()}"
            )
        return _from_file(name)
    entry = available().get(name)
    if entry is None:
        raise InputError(f"there is no policy {name!r}; installed: {_known()} (or give path/to/file.py:Class)")
    try:
        found = entry.load()
    except NOT_THE_PLUGINS:
        raise
    except BaseException as error:
        raise InputError(f"policy {name!r} ({entry.value}) cannot be loaded: {describe_error(error)}") from error
    return PolicySource(name, _checked(found, name), entry.value)


def local_scheduler(
    name: str, options: Mapping[str, Any], partition: Partition, *, files: TrustedFiles | None = None
) -> LocalScheduler:
    """Make the local scheduler of a policy with one queue, by the policy's name, on a partition of one's own.

    The policy is an installed one, unless `files` (a policy's own `trusted_files`) has its name.
    """
    files = files or TrustedFiles()
    if name in files.others:
        raise UntrustedFileError(
            f"{files.others[name]}: {name!r:.200} names a Python file; what comes from there may choose among "
            f"installed policies only: {_known()} (give files with -o)"
        )
    source = find(name, trusted=name in files.names)
    cls = _with_one_queue(source)
    checked: Any = PolicyPlan(source, options, given_by="its options").options_for(None)
    return cls.scheduler(partition, checked)


def _with_one_queue(source: PolicySource) -> type[LocalPolicy]:
    """Give the class of a policy whose local scheduler others may have. Raises InputError for any other."""
    if not issubclass(source.cls, LocalPolicy) or getattr(source.cls, "scheduler", None) is None:
        raise InputError(f"policy {source.name!r} is no policy with one queue; expected one such as fcfs or easy")
    return source.cls


def _known() -> str:
    return ", ".join(available()) or "none"


def _texts(value: Any) -> Iterator[str]:
    """Give all texts inside the value of an option, keys of tables included. O(size), however deep it is."""
    pending = [value]
    while pending:
        part = pending.pop()
        if isinstance(part, str):
            yield part
        elif isinstance(part, Mapping):
            pending += [*part.keys(), *part.values()]
        elif isinstance(part, list | tuple):
            pending += part


def _is_set(option: str, value: Any) -> bool:
    """Tell whether an option has a value, among options or those for others inside of them."""
    if not isinstance(value, Mapping):
        return False
    return value.get(option) is not None or any(_is_set(option, part) for part in value.values())


def _from_file(name: str) -> PolicySource:
    path, class_name = split(name)
    module_name = f"pybatsched_policy_file_{path.stem}"
    module = module_of(path, module_name, f"policy {name!r}")
    if class_name:
        found = getattr(module, class_name, None)
        if found is None:
            raise InputError(f"policy {name!r}: {path} defines no {class_name}; it has: {_candidates(module)}")
    else:
        classes = [value for value in vars(module).values() if _is_own_policy(value, module_name)]
        if len(classes) != 1:
            raise InputError(f"policy {name!r}: say which class, {path}:CLASS; it has: {_candidates(module)}")
        found = classes[0]
    return PolicySource(name, _checked(found, name), str(path))


def _is_own_policy(value: object, module_name: str) -> bool:
    return isinstance(value, type) and issubclass(value, Policy) and value.__module__ == module_name


def _candidates(module: object) -> str:
    names = [key for key, value in vars(module).items() if _is_own_policy(value, getattr(module, "__name__", ""))]
    return ", ".join(names) or "no policy at all"


def _checked(found: object, name: str) -> type[Policy]:
    if not (isinstance(found, type) and issubclass(found, Policy)):
        kind = f"class {found.__name__}" if isinstance(found, type) else type(found).__name__
        raise InputError(f"policy {name!r} is a {kind}, which is no subclass of pybatsched.Policy")
    if found.decide is Policy.decide:
        raise InputError(f"policy {name!r}: class {found.__name__} defines no decide(self, now)")
    model: object = found.Options
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        raise InputError(f"policy {name!r}: {found.__name__}.Options must be a pydantic model")
    fields: object = found.JobFields
    if not (isinstance(fields, type) and issubclass(fields, JobFields)):
        raise InputError(f"policy {name!r}: {found.__name__}.JobFields must be a subclass of pybatsched.JobFields")
    return found


def _explained(error: ValidationError, name: str, merged: Mapping[str, tuple[Any, _Layer]]) -> str:
    lines = []
    for problem in error.errors(include_url=False):
        if not problem["loc"]:  # about several options
            lines.append(f"policy {name}: {problem['msg'].removeprefix('Value error, ')}")
            continue
        option = ".".join(map(str, problem["loc"]))
        if problem["type"] == "missing":
            lines.append(f"policy {name} needs the option {option}: give it with -o {option}=…")
            continue
        key = str(problem["loc"][0])
        source = merged[key][1].given_by if key in merged else "defaults"
        lines.append(f"policy {name}: option {option} (from {source}): {problem['msg']}, got {problem['input']!r:.80}")
    return "\n".join(lines)
