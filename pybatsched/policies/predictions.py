"""Predictors of run times, and correctors for jobs that exceed their predictions."""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from typing import Final

from pybatsched.core.cluster import Cluster
from pybatsched.core.derive import delay_of
from pybatsched.core.jobs import Job, user_of
from pybatsched.core.policy import TrustedFiles
from pybatsched.core.predictions import Corrector, Predictions, Predictor, run_time_s
from pybatsched.core.usage import UserUsage
from pybatsched.errors import InputError, UntrustedFileError
from pybatsched.policies.learning import Boosted, Linear
from pybatsched.policies.loading import module_of, names_file, run_plugin, split
from pybatsched.policies.orders import Rank, Usages, parse_expression


def at_most_requested(job: Job, seconds: float) -> float:
    """Return a run time, at most the requested time of the job."""
    return seconds if job.requested is None else min(seconds, job.requested)


class Requested(Predictor):
    """The requested time: the job field `estimate`, else the walltime. Policies use it without predictions, too."""

    def predict(self, job: Job, now: float, running: Collection[Job]) -> float | None:  # noqa: ARG002
        """Return the requested time. O(1)."""
        return job.requested


class Double(Predictor):
    """Twice the requested time. Longer estimates leave larger holes for backfilling."""

    def predict(self, job: Job, now: float, running: Collection[Job]) -> float | None:  # noqa: ARG002
        """Return twice the requested time. O(1)."""
        return None if job.requested is None else 2 * job.requested


class Exact(Predictor):
    """The real run time of jobs whose profiles consist of delays, at most the walltime. A bound, not a method."""

    def __init__(self) -> None:
        self._cluster: Cluster | None = None

    def begin(self, cluster: Cluster) -> None:
        """Keep the cluster, which knows the profiles that are parts of others."""
        self._cluster = cluster

    def predict(self, job: Job, now: float, running: Collection[Job]) -> float | None:  # noqa: ARG002
        """Return the real run time. Raises InputError for a profile that is not made of delays. O(parts)."""
        profiles = {} if self._cluster is None else self._cluster.profiles.get(job.workload, {})
        delay_s = delay_of(job.profile, profiles)
        if delay_s is None:
            kind = "unknown" if job.profile is None else str(job.profile.get("type"))
            raise InputError(
                f"predict=exact: job {job.id} has the profile {job.profile_name!r} (type {kind}), whose run time is "
                "not known in advance; expected a profile of delays (choose another predictor)"
            )
        return delay_s if job.walltime is None else min(delay_s, job.walltime)


class _OfUser(Predictor):
    """A predictor that keeps the run times of each user's last ended jobs, newest last."""

    n_kept = 2

    def __init__(self) -> None:
        self._past: dict[str, list[float]] = {}

    def past(self, job: Job) -> list[float]:
        """Return the run times of the last ended jobs of a job's user, at most `n_kept`, newest last."""
        return self._past.get(user_of(job), [])

    def learn(self, job: Job, ended: float) -> None:
        """Keep the run time of a job. O(n_kept)."""
        past = self._past.setdefault(user_of(job), [])
        past.append(run_time_s(job, ended))
        if len(past) > self.n_kept:
            del past[0]


class Last2(_OfUser):
    """The mean run time of the user's two jobs that ended last, rounded down to seconds, at most the requested time.

    With fewer than two ended jobs of the user it is the requested time. A mean below one second is not rounded.
    (Tsafrir, Etsion, Feitelson: Backfilling using system-generated predictions rather than user runtime estimates,
    IEEE TPDS 18(6), 2007.)
    """

    def predict(self, job: Job, now: float, running: Collection[Job]) -> float | None:  # noqa: ARG002
        """Return the prediction. O(1)."""
        past = self.past(job)
        if len(past) < 2:
            return job.requested
        mean = (past[0] + past[1]) / 2
        return at_most_requested(job, float(math.floor(mean)) if mean >= 1 else mean)


class Mean2(_OfUser):
    """The mean run time of the user's last two ended jobs, not rounded; of one job if only one has ended.

    At most the requested time, and the requested time if no job of the user has ended.
    """

    def predict(self, job: Job, now: float, running: Collection[Job]) -> float | None:  # noqa: ARG002
        """Return the prediction. O(1)."""
        past = self.past(job)
        return at_most_requested(job, sum(past) / len(past)) if past else job.requested


class UserMean(Predictor):
    """The mean run time of all ended jobs of the user, at most the requested time, which it is without such jobs."""

    def __init__(self) -> None:
        self._sums: dict[str, tuple[float, int]] = {}

    def predict(self, job: Job, now: float, running: Collection[Job]) -> float | None:  # noqa: ARG002
        """Return the prediction. O(1)."""
        total, n = self._sums.get(user_of(job), (0.0, 0))
        return at_most_requested(job, total / n) if n else job.requested

    def learn(self, job: Job, ended: float) -> None:
        """Add the run time of a job. O(1)."""
        user = user_of(job)
        total, n = self._sums.get(user, (0.0, 0))
        self._sums[user] = total + run_time_s(job, ended), n + 1


class ByExpression(Predictor):
    """An expression, as in orders, whose value is the prediction in seconds. The names of predictors are values, too.

    `estimate` is the requested time. A value that is infinite or not defined keeps the requested time.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._others = {name: PREDICTORS[name]() for name in PREDICTORS if re.search(rf"\b{name}\b", text)}
        self._running: Collection[Job] = ()
        self._value = self._parsed(UserUsage)

    def _parsed(self, usage: Usages) -> Rank:
        def value_of(other: Predictor) -> Rank:
            def value(job: Job, requested_s: float, now: float) -> float:
                found = other.predict(job, now, self._running)
                return requested_s if found is None else found

            return value

        return parse_expression(self._text, usage, {name: value_of(other) for name, other in self._others.items()})

    def begin(self, cluster: Cluster) -> None:
        """Use the cluster for the usage of users."""
        self._value = self._parsed(cluster.usage)
        for other in self._others.values():
            other.begin(cluster)

    def predict(self, job: Job, now: float, running: Collection[Job]) -> float | None:
        """Return the value of the expression. Raises InputError for a field that is no number."""
        self._running = running
        value = self._value(job, math.inf if job.requested is None else job.requested, now)
        return value if math.isfinite(value) else None

    def learn(self, job: Job, ended: float) -> None:
        """Let the predictors learn that the expression uses."""
        for other in self._others.values():
            other.learn(job, ended)


#: The predictors of the option `predict`, by name.
PREDICTORS: Final[dict[str, type[Predictor]]] = {
    "last2": Last2,
    "mean2": Mean2,
    "user_mean": UserMean,
    "exact": Exact,
    "requested": Requested,
    "double": Double,
    "linear": Linear,
    "boosted": Boosted,
}


LAST2_PAPER: Final = """\
@article{tsafrir2007backfilling,
  author = {Tsafrir, Dan and Etsion, Yoav and Feitelson, Dror G.},
  title = {Backfilling Using System-Generated Predictions Rather than User Runtime Estimates},
  journal = {IEEE Transactions on Parallel and Distributed Systems},
  volume = {18},
  number = {6},
  pages = {789--803},
  year = {2007},
  doi = {10.1109/TPDS.2007.70606},
}"""
MEAN2_PAPER: Final = """\
@inproceedings{gaussier2015improving,
  author = {Gaussier, {\\'E}ric and Glesser, David and Reis, Valentin and Trystram, Denis},
  title = {Improving Backfilling by Using Machine Learning to Predict Running Times},
  booktitle = {International Conference for High Performance Computing, Networking, Storage and Analysis ({SC15})},
  year = {2015},
  doi = {10.1145/2807591.2807646},
}"""
LINEAR_PAPER: Final = """\
@inproceedings{ross2013normalized,
  author = {Ross, St{\\'e}phane and Mineiro, Paul and Langford, John},
  title = {Normalized Online Learning},
  booktitle = {Conference on Uncertainty in Artificial Intelligence (UAI 2013)},
  year = {2013},
  eprint = {1305.6646},
  archiveprefix = {arXiv},
}"""
_REFERENCES: Final = {"last2": (LAST2_PAPER,), "mean2": (MEAN2_PAPER,), "linear": (LINEAR_PAPER, MEAN2_PAPER)}


def references_of(text: str) -> dict[str, tuple[str, ...]]:
    """Return what to cite for the option `predict`: entries in BibTeX by predictor. A class in a file has none.

    >>> [*references_of("min(last2, mean2)")], [*references_of("exact")], references_of("last2.py:Mine")
    (['last2', 'mean2'], [], {'last2.py:Mine': ()})
    """
    if names_file(text):
        return {text: ()}
    return {name: entries for name, entries in _REFERENCES.items() if re.search(rf"\b{name}\b", text)}


#: Predictors of this process, for example of a notebook, by the names of their classes.
_ADDED: Final[dict[str, type[Predictor]]] = {}


def add_predictor(cls: type[Predictor]) -> str:
    """Make a class of this process available by its name, which is returned. Raises InputError for a used name."""
    name = _checked(cls, f"predictor {cls!r:.80}").__name__
    if name in PREDICTORS:
        raise InputError(f"predictor {name}: expected another name for the class; {name} is a shipped predictor")
    _ADDED[name] = cls
    return name


def predictor_of(text: str, files: TrustedFiles | None = None) -> Predictor:
    """Return a new predictor by its name, an expression, or ``file.py:Class`` if that is in `files`. InputError."""
    who = f"predictor {text!r:.200}"
    if names_file(text):
        cls = _from_file(text, files or TrustedFiles(), who)
    elif text in PREDICTORS or text in _ADDED:
        cls = PREDICTORS.get(text) or _ADDED[text]
    elif text.isidentifier():
        raise InputError(
            f"unknown predictor {text!r:.80}; expected one of: {', '.join(PREDICTORS)} (or an expression, or "
            "path/to/file.py:Class)"
        )
    else:
        try:
            return ByExpression(text)
        except ValueError as error:
            raise InputError(f"{who}: {error}") from None
    predictor: Predictor = run_plugin(cls, who)
    return predictor


def _from_file(text: str, files: TrustedFiles, who: str) -> type[Predictor]:
    if text in files.others:
        raise UntrustedFileError(
            f"{files.others[text]}: {text!r:.200} is a Python file, which is not accepted from there; give it with -o"
        )
    if text not in files.names:
        raise UntrustedFileError(f"{who} is a Python file, which is accepted only from your own options")
    path, inner = split(text)
    if not inner:
        raise InputError(f"{who}: expected path/to/file.py:Class")
    module = module_of(path, f"pybatsched_predictor_file_{path.stem}", who)
    if not hasattr(module, inner):
        raise InputError(f"{who}: {path} does not define {inner}")
    return _checked(getattr(module, inner), who)


def _checked(found: object, who: str) -> type[Predictor]:
    if not (isinstance(found, type) and issubclass(found, Predictor)):
        raise InputError(f"{who}: expected a subclass of pybatsched.Predictor")
    return found


def predictions_of(options: object, files: TrustedFiles | None = None) -> Predictions | None:
    """Return the predictions that the options `predict` and `correct` ask for; None if unset. Raises InputError."""
    predict: str | None = getattr(options, "predict", None)
    correct: str | None = getattr(options, "correct", None)
    if predict is None and correct is None:
        return None
    predict = predict or "requested"
    return Predictions(predict, predictor_of(predict, files), corrector_of(correct or "requested"))


# --- corrections --------------------------------------------------------------------------------------------------

#: The steps of the corrector `incremental`, in seconds: 1, 5, 15, 30 min, 1, 2, 5, 10, 20, 50, 100 h.
STEPS_S: Final = (60, 300, 900, 1800, 3600, 7200, 18_000, 36_000, 72_000, 180_000, 360_000)


def to_requested(first: float, last: float, n: int, requested: float | None) -> float:  # noqa: ARG001
    """Return the requested time; infinity if it is unknown.

    >>> to_requested(100, 100, 0, 3600), to_requested(100, 100, 0, None)
    (3600, inf)
    """
    return math.inf if requested is None else requested


def doubled(first: float, last: float, n: int, requested: float | None) -> float:  # noqa: ARG001
    """Return twice the last prediction, without a bound.

    >>> doubled(100, 400, 2, 450)
    800
    """
    return 2 * last


def incremented(first: float, last: float, n: int, requested: float | None) -> float:  # noqa: ARG001
    """Return the first prediction plus the next of `STEPS_S`, at most the requested time; after the last step that.

    >>> [incremented(100, 100, n, 3600) for n in range(6)]
    [160, 400, 1000, 1900, 3600, 3600]
    >>> incremented(100, 360_100, 11, None)
    inf
    """
    bound = math.inf if requested is None else requested
    return min(first + STEPS_S[n], bound) if n < len(STEPS_S) else bound


#: The correctors of the option `correct`, by name.
CORRECTORS: Final[dict[str, Corrector]] = {"requested": to_requested, "doubling": doubled, "incremental": incremented}


def corrector_of(text: str) -> Corrector:
    """Return a corrector by its name. Raises InputError for an unknown name.

    >>> corrector_of("doubling")(100, 200, 1, 3600)
    400
    """
    if text not in CORRECTORS:
        raise InputError(f"unknown corrector {text!r:.80}; expected one of: {', '.join(CORRECTORS)}")
    return CORRECTORS[text]
