"""What logs become, to compare two versions of pybatsched: jobs, profiles, report, findings and statistics.

    python benchmarks/log_digests.py write DIR [--copies N]     damaged copies of small logs of each format
    python benchmarks/log_digests.py digest DIR OUT             what each becomes, with several options
    python benchmarks/log_digests.py compare OUT OTHER          which of them differ, and in what

`digest` runs with each of the two versions (PYTHONPATH). It also reads the logs in PYBATSCHED_TRACES, if that is set.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import random
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

_ODD: Final = (
    *("", "x", "-1", "0", "1", "nan", "inf", "1e9", "1e400", "007", "4.0", "4.5", "-5", "Unknown", "None", "1_0"),
    *("2024-01-01T00:00:00", "2024-03-31T02:30:00", "2024-10-27T02:30:00", "2019-01-01 00:00:00+02:00", "2024-13-01"),
    *("1-12:00:00", "90:00", "UNLIMITED", "Partition_Limit", "2K", "4Gn", "16G", "cpu=4,mem=2G", "=", "COMPLETED"),
    *("CANCELLED by 1", "PENDING", "RUNNING", "foo|bar", "a,b", "1,5", "1.234,5", "9" * 16, "9" * 40, "123_4"),
    *("123_[5-9]", "123.batch", "7+1", " 7 ", "true", "18446744073709551615", "1 day, 2:00:00"),
)
_MARKS: Final = '"\r\t;,{}:'
_OPTIONS: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"walltimes": "exact", "size": "requested"},
    {"size": "larger"},
    {"min_runtime_s": 5.0, "run_times": "cut"},
    {"walltimes": "requested-strict"},
)
_LONG: Final = 200_000  # of a longer text, only the digest is kept
#: Logs in PYBATSCHED_TRACES of which the first lines are damaged: their delimiter and number of lines.
_HEADS: Final = {
    "KTH-SP2-1996-2.swf.gz": (" ", 80),
    "today/AleaNG-example1.swf21.gz": (" ", 60),
    "today/Cirrus-2024-Q1.sacct.csv.gz": (",", 40),
}


def damaged(text: str, delimiter: str, draw: random.Random) -> bytes:
    """Return a text with one to three faults: odd cells, lines without order, other ends of lines, broken bytes."""
    lines = text.split("\n")
    for _ in range(draw.choice((1, 1, 2, 3))):
        index = draw.randrange(len(lines))
        line = lines[index]
        cells = line.split(delimiter)
        place = draw.randrange(len(cells))
        kind = draw.randrange(12)
        if kind < 6:
            cells[place] = draw.choice(_ODD)
            lines[index] = delimiter.join(cells)
        elif kind == 6:
            lines[index] = delimiter.join([*cells[:place], *cells[place + 1 :]])
        elif kind == 7:
            lines.insert(draw.randrange(len(lines) + 1), draw.choice((line, lines[0], "", "; x: y")))
        elif kind == 8:
            lines = [one for number, one in enumerate(lines) if number != index] or [""]
        elif kind == 9:
            other = draw.randrange(len(lines))
            lines[index], lines[other] = lines[other], lines[index]
        elif kind == 10:
            at = draw.randrange(len(line) + 1)
            lines[index] = line[:at] + draw.choice(_MARKS) + line[at:]
        else:
            lines = [*lines[:index], line[: draw.randrange(len(line) + 1)]]
    raw = draw.choice(("\n", "\n", "\r\n")).join(lines).encode()
    at = draw.randrange(len(raw) + 1)
    return raw if draw.random() < 0.95 else raw[:at] + draw.choice((b"\0", b"\xff", b'"')) + raw[at:]


def _examples() -> Iterator[tuple[str, str, str, str]]:
    """Yield small logs: name, text, delimiter, and a mapping if they need one."""
    from support import tables  # noqa: PLC0415  the tests of this version

    for name, text in tables.TEXTS.items():
        head, *rows = text.rstrip("\n").split("\n")
        yield name, "\n".join([head, *rows * 6]), ",", ""
    yield "own", "\n".join((tables.HEADER, *tables.ROWS * 4)), ",", tables.MAPPING
    folder = os.environ.get("PYBATSCHED_TRACES")
    for name, (delimiter, n) in _HEADS.items() if folder else ():
        with gzip.open(Path(str(folder)) / name, "rt", errors="replace") as content:
            lines = [line.rstrip("\n") for line, _ in zip(content, range(n), strict=False)]
        yield Path(name).name.partition(".")[0], "\n".join(lines), delimiter, ""


def write(folder: Path, n_copies: int) -> None:
    """Write logs and damaged copies of them."""
    folder.mkdir(parents=True, exist_ok=True)
    cases = []
    for name, text, delimiter, mapping in _examples():
        draw = random.Random(name)
        if mapping:
            (folder / f"{name}.toml").write_text(mapping, encoding="utf-8")
        for number in range(n_copies):
            file = folder / f"{name}-{number}.txt"
            file.write_bytes(damaged(text, delimiter, draw) if number else text.encode())
            cases.append((file.name, f"{name}.toml" if mapping else None))
    (folder / "cases.json").write_text(json.dumps(cases), encoding="utf-8")


def _jobs(path: Path, options: dict[str, Any], *, lenient: bool) -> Any:
    from pybatsched.workload import reading  # noqa: PLC0415  of the version that is digested

    made = reading.load(path, lenient=lenient, **options)
    about = {name: made.about.get(name) for name in ("report", "shifted_by", "clock")}
    return {"jobs": list(made.jobs), "profiles": made.profiles, "n_procs": made.n_procs, **about}


def _findings(path: Path, options: dict[str, Any]) -> Any:
    from pybatsched.workload.checks.lint import lint  # noqa: PLC0415

    return lint(path, None, **options).as_json()


def _statistics(path: Path, options: dict[str, Any]) -> Any:
    from pybatsched.workload.statistics import stats  # noqa: PLC0415

    return stats.summary(stats.sample(path, **options))


def _outcome(function: Any, path: Path, options: dict[str, Any], **more: Any) -> str:
    """Return what a function makes of a file, or its error, as JSON."""
    from pybatsched.errors import PybatschedError  # noqa: PLC0415

    try:
        made = function(path, options, **more)
    except PybatschedError as error:
        made = f"error: {error}"
    except Exception as error:  # noqa: BLE001  a defect, to be shown as a difference
        made = f"CRASH {type(error).__name__}: {error}"
    text = json.dumps(made, sort_keys=True, default=repr).replace(f"{path.parent}/", "")
    return text if len(text) <= _LONG else json.dumps(hashlib.sha256(text.encode()).hexdigest())


def digest(folder: Path, out: Path) -> None:
    """Write what each file becomes, one line per file and options."""
    cases = [(folder / name, mapping) for name, mapping in json.loads((folder / "cases.json").read_text("utf-8"))]
    traces = os.environ.get("PYBATSCHED_TRACES")
    logs = sorted(Path(traces).rglob("*.gz")) if traces else []
    cases += [(path, None) for path in logs if "cluster" not in path.name]
    with out.open("w", encoding="utf-8") as lines:
        for number, (path, mapping) in enumerate(cases):
            own = {"mapping": str(folder / mapping)} if mapping else {}
            for lenient in (False, True):
                for options in (_OPTIONS[0], _OPTIONS[1 + number % (len(_OPTIONS) - 1)]):
                    made = _outcome(_jobs, path, own | options, lenient=lenient)
                    lines.write(f"{path.name} {options}{' lenient' if lenient else ''}\t{made}\n")
            for what, function in (("findings", _findings), ("statistics", _statistics)):
                lines.write(f"{path.name} {what}\t{_outcome(function, path, own)}\n")


def _differences(before: Any, after: Any) -> list[str]:
    """Return the members in which two outcomes differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        return sorted(name for name in before | after if before.get(name) != after.get(name))
    return ["error or digest"] if before != after else []


def compare(before: Path, after: Path) -> int:
    """Print the outcomes that differ, and return their number."""
    first, second = (
        dict(line.split("\t", 1) for line in path.read_text(encoding="utf-8").splitlines()) for path in (before, after)
    )
    found = {key: _differences(json.loads(first.get(key, "null")), json.loads(text)) for key, text in second.items()}
    different = {key: names for key, names in found.items() if names}
    print(f"{len(second) - len(different):,} of {len(second):,} are equal")
    for what, n in Counter(", ".join(names) for names in different.values()).most_common():
        key = next(key for key, names in different.items() if ", ".join(names) == what)
        print(f"{n:>6,}  {what} (first: {key})")
    return len(different)


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("write", "digest", "compare"))
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--copies", type=int, default=200)
    args = parser.parse_args()
    if args.what == "write":
        write(args.paths[0], args.copies)
    elif args.what == "digest":
        digest(*args.paths)
    else:
        sys.exit(compare(*args.paths) > 0)


if __name__ == "__main__":
    main()
