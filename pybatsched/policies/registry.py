"""Find policies and check their options.

A policy is named by an entry point of the group ``pybatsched.policies`` or by ``path/to/file.py:Class``, which runs the
code of that file. Every failure is an `InputError` with the name of the policy.

Files are run only if the user named them: on the command line, in a configuration file or in a campaign. Messages and
journals can choose only among installed policies. So a file is run only if the caller sets `trusted`; the default is
installed policies only.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from pybatsched.core.model_refs import COMMON, DefaultOptions, ModelRef, model_of, object_at
from pybatsched.core.policy import BatsimFeature, Policy, TrustedFiles
from pybatsched.core.services.failures import REQUEUING
from pybatsched.errors import NOT_THE_PLUGINS, InputError, UntrustedFileError, describe_error, did_you_mean, setting
from pybatsched.policies.loading import check_is_file, module_of, names_file, split
from pybatsched.policies.local_scheduler import LocalPolicy, LocalScheduler
from pybatsched.policies.predictions import predictions_of, predictor_of

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from pydantic import BaseModel, ValidationError

    from pybatsched.core.cluster import Partition
    from pybatsched.core.events import SimulationBegins
    from pybatsched.core.field_check import FieldsLike

GROUP: Final = "pybatsched.policies"

#: The modules and classes of the included policies, as in the entry points of the package. They are found without a
#: search of all installed packages, which takes longer than a short run.
INCLUDED: Final = {
    "fcfs": "pybatsched_schedulers.fcfs:Fcfs",
    "easy": "pybatsched_schedulers.easy:Easy",
    "conservative": "pybatsched_schedulers.conservative:Conservative",
    "redirection": "pybatsched_schedulers.redirection.policy:Redirection",
    "dbf": "pybatsched_schedulers.dbf.policy:Dbf",
    "ujf": "pybatsched_schedulers.ujfb.policy:Ujf",
    "ujfb": "pybatsched_schedulers.ujfb.policy:Ujfb",
    "locality": "pybatsched_schedulers.locality.policy:Locality",
    "reallocation": "pybatsched_schedulers.reallocation.policy:Reallocation",
    "rl": "pybatsched_schedulers.rl:Rl",
    "slurm": "pybatsched_schedulers.slurm.policy:Slurm",
}

#: The option for the planned duration of jobs that have neither walltime nor estimate.
_ASSUMED: Final = "assume_walltime"


def batsim_args(needs: Iterable[BatsimFeature]) -> list[str]:
    """Return the options that Batsim must be started with for these features, in a fixed order."""
    return sorted(need.batsim_option for need in needs)


@dataclass(frozen=True)
class PolicySource:
    """A policy class, the name under which the user requested it, and where it was found."""

    name: str
    cls: type[Policy]
    origin: str

    @property
    def option_fields(self) -> Mapping[str, Any]:
        """The options by name, as pydantic describes them: its own, then those of every policy."""
        fields = self.cls.Options.model_fields
        common = {name: info for name, info in fields.items() if name in COMMON}
        return {**{name: info for name, info in fields.items() if name not in common}, **common}

    @property
    def job_fields(self) -> Mapping[str, str]:
        """The job fields that it reads, the estimate included, with their descriptions."""
        from pybatsched.core.fields import field_descriptions  # noqa: PLC0415  imports pydantic

        return field_descriptions(self.cls.JobFields)

    @property
    def batsim_args(self) -> list[str]:
        """The options that Batsim must be started with, in a fixed order."""
        return batsim_args(self.cls.needs)

    @property
    def table_name(self) -> str:
        """The name of its table ``[policy.NAME]`` in a configuration file."""
        return self.cls.__name__ if names_file(self.name) else self.name


class Reserving(NamedTuple):
    """A policy that rejects jobs without a duration, and the -o option that would change this; empty if none does."""

    policy: str
    option: str


class Recorded(NamedTuple):
    """Options recorded in a journal. They are applied, but may name Python files only if the journal is `trusted`."""

    given: Mapping[str, Any]
    from_file: Mapping[str, Any]
    trusted: bool = False


NOTHING_RECORDED: Final = Recorded({}, {})


class _Layer(NamedTuple):
    """Options from one source."""

    options: Mapping[str, Any]
    given_by: str
    trusted: bool


@dataclass(frozen=True)
class PolicyPlan:
    """A policy with the user's options, ready to be created when Batsim has sent its own options.

    Set `trusted` if `given` and `from_file` are the user's own options: then they may name Python files. With `fixed`,
    options from Batsim are an error.
    """

    source: PolicySource
    given: Mapping[str, Any] = field(default_factory=dict)
    from_file: Mapping[str, Any] = field(default_factory=dict)
    file_name: str = "the configuration file"
    given_by: str = "-o"
    trusted: bool = False
    recorded: Recorded = NOTHING_RECORDED
    fixed: bool = False

    def option(self, name: str) -> Any:
        """Return an option as the user has given it; None if it is not given."""
        return self.given.get(name, self.from_file.get(name))

    def options_for(self, begins: SimulationBegins | None) -> Any:
        """Merge and check the options: ``-o`` over Batsim's over the file; `DefaultOptions` without any."""
        merged = self._merged(begins)
        model = model_of(self.source.cls, "Options")
        if not merged and isinstance(model, ModelRef):
            return DefaultOptions(model.defaults)
        from pydantic import ValidationError  # noqa: PLC0415  slow, and most runs have no options

        known = self.source.option_fields
        if self.source.cls.Options.model_config.get("extra") != "allow":
            for key, (_, layer) in merged.items():
                if key not in known:
                    options = did_you_mean(key, known, f"; expected one of: {', '.join(known) or 'none'}")
                    text = f"policy {self.source.name}: unknown option {key!r} (from {layer.given_by}){options}"
                    raise InputError(text, option=key, known=known)
        try:
            checked = self.source.cls.Options.model_validate({key: value for key, (value, _) in merged.items()})
        except ValidationError as error:
            raise InputError(_explained(error, self.source.cls.Options, self.source.name, merged)) from None
        if "predict" in merged:
            self._check_predictor(checked, merged["predict"][1])
        return checked

    def _check_predictor(self, options: BaseModel, layer: _Layer) -> None:
        """Raise InputError for an unknown predictor or a missing file of the user; no file is run."""
        name = getattr(options, "predict", None)
        if not isinstance(name, str):
            return
        try:
            if not names_file(name):
                predictor_of(name)
            elif layer.trusted:
                check_is_file(split(name)[0], f"predictor {name!r:.200}")
        except InputError as error:
            raise InputError(f"policy {self.source.name}: option predict (from {layer.given_by}): {error}") from None

    def trusted_files(self, begins: SimulationBegins | None) -> TrustedFiles:
        """Return the Python files that the options name, the user's own separate from all others.

        Every text inside the options is checked. A file is run only if exactly its name is in the user's own options
        and in no others. In options that name code (`Policy.names_code`) every text is such a name.
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
        """Raise InputError for wrong options before the run. Missing ones may still come from Batsim."""
        given = {**self.from_file, **self.given}
        if not (given or self.source.cls.borrows) and isinstance(model_of(self.source.cls, "Options"), ModelRef):
            return
        from pydantic import ValidationError  # noqa: PLC0415  slow, and most runs have no options

        try:
            options = self.source.cls.Options.model_validate(given)
        except ValidationError as error:
            if any(problem["type"] != "missing" or len(problem["loc"]) > 1 for problem in error.errors()):
                self.options_for(None)
            return
        if "predict" in given:
            self.options_for(None)
        for option in self.source.cls.borrows:
            name = str(getattr(options, option, ""))
            if not names_file(name):  # the code of a file is not run before it is needed
                try:
                    _with_one_queue(find(name))
                except InputError as error:
                    raise InputError(f"policy {self.source.name}, option {option}: {error}") from None

    def field_models(self, begins: SimulationBegins | None = None) -> dict[str, FieldsLike]:
        """Return the models of the job fields: the policy's own, and those of policies that its options name."""
        return {name: model_of(cls, "JobFields") for name, cls in self._policies(begins).items()}

    def _policies(self, begins: SimulationBegins | None) -> dict[str, type[Policy]]:
        """Return the policy and those that its options name, by name; wrong names are reported later."""
        found = {self.source.name: self.source.cls}
        for option in self.source.cls.borrows:
            with contextlib.suppress(InputError):
                name = str(getattr(self.options_for(begins), option, ""))
                found[name] = find(name, trusted=name in self.trusted_files(begins).names).cls
        return found

    def reserving(self, begins: SimulationBegins | None = None) -> Reserving | None:
        """Return the policy, this or a nested one, that rejects jobs without walltime and estimate, or None."""
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

    def with_default(self, option: str, value: Any, begins: SimulationBegins | None = None) -> PolicyPlan:
        """Return the plan with a value for an option that no source sets. Raises InputError for an unknown option."""
        if option in self._merged(begins):
            return self
        if option not in self.source.option_fields:
            raise InputError(
                f"policy {self.source.name} has no option {option}; expected Options that subclass pybatsched.Options"
            )
        return replace(self, given={**self.given, option: value})

    def needs(self, begins: SimulationBegins | None = None) -> frozenset[BatsimFeature]:
        """Return the features of Batsim that the policy needs with its options."""
        merged = self._merged(begins)
        rule, _ = merged.get("on_failure", (None, None))
        tables, _ = merged.get("host_reservations", (None, None))
        requeues = isinstance(rule, str) and rule in REQUEUING
        requeues |= isinstance(tables, list | tuple) and any("requeue" in _texts(table) for table in tables)
        own = self.source.cls.needs
        return own | {BatsimFeature.DYNAMIC_JOBS} if requeues else own

    def communicates_by(self, begins: SimulationBegins | None = None) -> str:
        """Return the option with which the policy registers profiles that communicate; empty if there is none."""
        merged = self._merged(begins)
        wanted = self.source.cls.communicates_if
        return next((f"{key}={value}" for key, value in wanted.items() if merged.get(key, ("",))[0] == value), "")

    def make(self, begins: SimulationBegins) -> Policy:
        """Create the policy. Raises InputError for an exception of its constructor."""
        options, files = self.options_for(begins), self.trusted_files(begins)
        try:
            policy = self.source.cls(options)
            policy.trusted_files = files
            policy.predictions = predictions_of(options, files)
        except NOT_THE_PLUGINS:
            raise
        except BaseException as error:
            raise InputError(f"policy {self.source.name} cannot be created: {describe_error(error)}") from error
        return policy

    def _merged(self, begins: SimulationBegins | None) -> dict[str, tuple[Any, _Layer]]:
        """Return the options that take effect, each with its source."""
        from_batsim = {} if begins is None else self._options_of_batsim(begins)
        weakest_first = (
            _Layer(self.recorded.from_file, "the journal", self.recorded.trusted),
            _Layer(self.from_file, self.file_name, self.trusted),
            _Layer(from_batsim, _batsim_source(begins), trusted=False),
            _Layer(self.recorded.given, "the journal", self.recorded.trusted),
            _Layer(self.given, self.given_by, self.trusted),
        )
        return {key: (value, layer) for layer in weakest_first for key, value in layer.options.items()}

    def _options_of_batsim(self, begins: SimulationBegins) -> dict[str, Any]:
        text = begins.option("sched-config")
        if not isinstance(text, str) or not text.strip():
            return {}
        if self.fixed:
            raise InputError(
                f"{_batsim_source(begins)} is {text[:80]!r}; expected nothing there ({setting('fixed_options')})"
            )
        if self.source.cls.reads_sched_config:
            return {}
        try:
            options = msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError) as error:
            raise InputError(f"{_batsim_source(begins)} is not a JSON object: {error}, in {text[:80]!r}") from None
        if not isinstance(options, dict):
            raise InputError(f"{_batsim_source(begins)}: expected a JSON object of options, found {text[:80]!r}")
        wanted = options.pop("policy", None)
        if wanted is not None and wanted not in (self.source.name, self.source.table_name):
            text = f"requests policy {wanted!r}, but {setting('policy')} is {self.source.name!r}"
            raise InputError(f"{_batsim_source(begins)} {text}")
        return options


def _batsim_source(begins: SimulationBegins | None) -> str:
    """Return the name of the scheduler's options on Batsim's command line."""
    is_five = begins is not None and begins.option("batsim") == 5
    return "the text behind Batsim's -s ENDPOINT" if is_five else "Batsim's --sched-cfg"


@functools.cache
def available() -> Mapping[str, EntryPoint]:
    """Return the installed policies by name. Cost: one search of the installed packages, the first time."""
    from importlib import metadata  # noqa: PLC0415  slow

    return {entry.name: entry for entry in sorted(metadata.entry_points(group=GROUP), key=lambda entry: entry.name)}


#: Policies that `find` knows within a block of `also_known`, by name: classes of a notebook, for example.
_ALSO_KNOWN: Final[ContextVar[Mapping[str, PolicySource]]] = ContextVar("_ALSO_KNOWN", default=MappingProxyType({}))


def of_class(cls: type[Policy]) -> PolicySource:
    """Return a class of this process as a policy, by its name. Raises InputError, also for an installed name."""
    name = getattr(cls, "__name__", str(cls))
    source = PolicySource(name, _checked(cls, name), f"{cls.__module__}.{cls.__qualname__}")
    if is_installed(name):
        raise InputError(f"class {name}: expected another name; a policy {name} is installed")
    return source


@contextlib.contextmanager
def also_known(sources: Iterable[PolicySource]) -> Iterator[None]:
    """Let `find` know more policies by name within a block, such as those of a journal that this process recorded."""
    token = _ALSO_KNOWN.set({source.name: source for source in sources})
    try:
        yield
    finally:
        _ALSO_KNOWN.reset(token)


def is_installed(name: str) -> bool:
    """Return whether a name is that of an installed policy, or of a Python file."""
    return name in INCLUDED or name in available() or names_file(name)


def find(name: str, *, trusted: bool = False) -> PolicySource:
    """Load a policy by its entry point, or by ``file.py:Class`` if the user named it (`trusted`)."""
    if names_file(name):
        if not trusted:
            raise UntrustedFileError(
                f"policy {name!r:.200} is a Python file, which is accepted only from your own options; "
                f"expected an installed policy: {', '.join(_known()) or 'none'}"
            )
        return _from_file(name)
    place = INCLUDED.get(name)
    entry = None if place is not None else available().get(name)
    if place is None and entry is None:
        if name in _ALSO_KNOWN.get():
            return _ALSO_KNOWN.get()[name]
        installed = f"; installed: {', '.join(_known()) or 'none'} (or give path/to/file.py:Class)"
        raise InputError(f"unknown policy {name!r}{did_you_mean(name, _known(), installed)}")
    place = place or (entry.value if entry is not None else "")
    try:
        found = object_at(place) if entry is None else entry.load()
    except NOT_THE_PLUGINS:
        raise
    except BaseException as error:
        raise InputError(f"policy {name!r} ({place}) cannot be loaded: {describe_error(error)}") from error
    return PolicySource(name, _checked(found, name), place)


def local_scheduler(
    name: str, options: Mapping[str, Any], partition: Partition, *, files: TrustedFiles | None = None
) -> LocalScheduler:
    """Create the local scheduler of a policy with one queue, which is installed or named in `files`."""
    files = files or TrustedFiles()
    if name in files.others:
        raise UntrustedFileError(
            f"{files.others[name]}: {name!r:.200} is a Python file, which is not accepted from there; "
            f"expected an installed policy: {', '.join(_known())} (give files with -o)"
        )
    source = find(name, trusted=name in files.names)
    cls = _with_one_queue(source)
    for option in ("predict", "correct"):
        if option in options:
            raise InputError(
                f"policy {name}: option {option} (from its options): a local scheduler cannot have its own; set it as "
                "an option of the policy that uses this one, for all its queues"
            )
    checked: Any = PolicyPlan(source, options, given_by="its options").options_for(None)
    return cls.scheduler(partition, checked)


def _with_one_queue(source: PolicySource) -> type[LocalPolicy]:
    """Return the class of a policy with a local scheduler for other policies. Raises InputError for all others."""
    if not issubclass(source.cls, LocalPolicy) or getattr(source.cls, "scheduler", None) is None:
        raise InputError(
            f"policy {source.name!r} cannot be used as a local scheduler: it has no single queue; expected one such as "
            "fcfs or easy"
        )
    return source.cls


def _known() -> list[str]:
    return sorted({*available(), *INCLUDED})


def _texts(value: Any) -> Iterator[str]:
    """Return all texts inside the value of an option at any depth, keys included. O(size)."""
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
    """Return whether an option is set, among options or nested options of other policies."""
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
            raise InputError(f"policy {name!r}: {path} does not define {class_name}; {_candidates(module)}")
    else:
        classes = [value for value in vars(module).values() if _is_own_policy(value, module_name)]
        if len(classes) != 1:
            raise InputError(f"policy {name!r}: expected {path}:CLASS with one class; {_candidates(module)}")
        found = classes[0]
    return PolicySource(name, _checked(found, name), str(path))


def _is_own_policy(value: object, module_name: str) -> bool:
    return isinstance(value, type) and issubclass(value, Policy) and value.__module__ == module_name


def _candidates(module: object) -> str:
    names = [key for key, value in vars(module).items() if _is_own_policy(value, getattr(module, "__name__", ""))]
    if not names:
        return "it defines no policy (expected a subclass of pybatsched.Policy)"
    return f"it defines {', '.join(names)}"


def _checked(found: object, name: str) -> type[Policy]:
    if not (isinstance(found, type) and issubclass(found, Policy)):
        kind = f"class {found.__name__}" if isinstance(found, type) else type(found).__name__
        raise InputError(f"policy {name!r} is a {kind}; expected a subclass of pybatsched.Policy")
    if found.decide is Policy.decide:
        raise InputError(f"policy {name!r}: class {found.__name__} does not define decide(self, now)")
    model, fields = model_of(found, "Options"), model_of(found, "JobFields")
    if isinstance(model, ModelRef) and isinstance(fields, ModelRef):
        return found
    from pydantic import BaseModel  # noqa: PLC0415  slow

    from pybatsched.core.fields import JobFields  # noqa: PLC0415  slow

    if not (isinstance(model, ModelRef) or (isinstance(model, type) and issubclass(model, BaseModel))):
        raise InputError(f"policy {name!r}: {found.__name__}.Options: expected a pydantic model")
    if not (isinstance(fields, ModelRef) or (isinstance(fields, type) and issubclass(fields, JobFields))):
        raise InputError(f"policy {name!r}: {found.__name__}.JobFields: expected a subclass of pybatsched.JobFields")
    return found


def _explained(
    error: ValidationError, model: type[BaseModel], name: str, merged: Mapping[str, tuple[Any, _Layer]]
) -> str:
    """Return a line for each wrong option, with its source."""
    from pybatsched import pydantic_errors  # noqa: PLC0415  slow

    lines = []
    for problem in pydantic_errors.problems(error, model):
        if not problem.place:  # about several options
            lines.append(f"policy {name}: {problem.text}")
            continue
        option = pydantic_errors.place_text(problem.place)
        if problem.is_missing and len(problem.place) == 1:
            lines.append(f"policy {name} needs the option {option}: give it with -o {option}=…")
            continue
        key = str(problem.place[0])
        source = merged[key][1].given_by if key in merged else "defaults"
        lines.append(f"policy {name}: option {option} (from {source}): {problem.text}")
    return "\n".join(lines)
