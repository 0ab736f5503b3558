"""Tables and logs of Slurm in several files of one directory."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import polars as pl
import pytest
from support import tables
from support.logs import log as swf_log, rows_of
from support.process import run_cli
from support.tables import HEADER, MAPPING, ROWS, mapping, text_table

import pybatsched as pb
from pybatsched.campaign.prepare import Preparer
from pybatsched.campaign.workloads import WorkloadTable
from pybatsched.errors import InputError
from pybatsched.metrics.saved_runs import read_run
from pybatsched.workload import load, progress
from pybatsched.workload.formats.detection import format_of
from pybatsched.workload.formats.files import digest_of, parts_of
from pybatsched.workload.logs.slurm import read_slurm
from pybatsched.workload.logs.tables.reader import read_table


def months(folder: Path) -> Path:
    """Write the two rows of the table as two months; the later one is written first and has other columns first."""
    there = folder / "months"
    there.mkdir()
    names = [f"extra,{HEADER}", f"x,{ROWS[1]}"]
    (there / "2024-02.csv.gz").write_bytes(gzip.compress(("\n".join(names) + "\n").encode()))
    text_table(there, ROWS[0], name="2024-01.csv")
    return there


def sacct_months(folder: Path, state: str = "COMPLETED") -> Path:
    there = folder / "sacct"
    there.mkdir(exist_ok=True)
    (there / "01.txt").write_text(
        "JobID|Submit|Start|End|NCPUS|State\n"
        "1|1704067200|1704067210|1704067300|4|COMPLETED\n"
        "2|1704067201|1704067211|Unknown|4|RUNNING\n"
    )
    (there / "02.txt").write_text(
        "State|User|JobID|Submit|Start|End|NCPUS\n"
        "COMPLETED|eve|2|1704067201|1704067211|1704068000|4\n"
        f"{state}|bob|3|1704067300|1704067310|1704067311|2\n"
    )
    return there


def test_parts_are_in_the_order_of_their_names(tmp_path: Path) -> None:
    there = months(tmp_path)
    (there / "README.txt").write_text("what the columns mean")
    (there / "croissant.json").write_text("{}")
    (there / ".hidden.csv").write_text("no table")
    assert [file.name for file in parts_of(there)] == ["2024-01.csv", "2024-02.csv.gz"]
    assert parts_of(there / "2024-01.csv") == [there / "2024-01.csv"]
    jobs = load(there, mapping=mapping(tmp_path)).jobs
    assert jobs == load(text_table(tmp_path, *ROWS), mapping=mapping(tmp_path)).jobs


def test_parts_of_other_kinds_are_not_left_out_silently(tmp_path: Path) -> None:
    there = months(tmp_path)
    (there / "2024-03.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match=r"expected files of one kind, found 2024-03.parquet and 2024-01.csv"):
        load(there, mapping=mapping(tmp_path))
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(InputError, match=r"empty: expected a workload file, or a directory with .*found a directory"):
        load(empty)


def test_errors_name_the_part(tmp_path: Path) -> None:
    there = months(tmp_path)
    text_table(there, ROWS[1], ROWS[1].replace(",8,", ",many,"), name="2024-03.csv")
    with pytest.raises(InputError, match=r"2024-03.csv: line 3: field nodes, column nodes: expected a whole number"):
        load(there, mapping=mapping(tmp_path))
    log = read_table(there, mapping=mapping(tmp_path), lenient=True)
    assert [rule_count.places for rule_count in log.bad.values()] == [[4]]  # rows are counted over all parts
    text_table(there, ROWS[1], header=HEADER.replace("who", "user"), name="2024-03.csv")
    with pytest.raises(InputError, match=r"2024-03.csv: line 1: expected a column 'who', as .*2024-01.csv has"):
        load(there, mapping=mapping(tmp_path))


def test_errors_name_the_part_of_json(tmp_path: Path) -> None:
    rows = [dict(zip(HEADER.split(","), row.split(","), strict=True)) for row in ROWS]
    there = tmp_path / "parts"
    there.mkdir()
    (there / "a.json").write_text(json.dumps(rows[:1]))
    (there / "b.json").write_text(json.dumps([rows[1], rows[1] | {"nodes": "x"}]))
    with pytest.raises(InputError, match=r"b.json: row 2: field nodes, column nodes: expected a whole number"):
        read_table(there, mapping=mapping(tmp_path))
    (there / "b.json").write_text(json.dumps(rows[1:]))
    log = read_table(there, mapping=mapping(tmp_path))
    assert [(job.number, job.line) for job in rows_of(log)] == [(7, 1), (8, 2)]


def test_months_of_slurm(tmp_path: Path) -> None:
    """The job that ran at the end of the first month is that of the second one. Columns may be in another order."""
    there = sacct_months(tmp_path)
    assert format_of(there) == "Slurm"
    log = read_slurm(there)
    assert [(job.number, job.run_s, job.line, job.user) for job in rows_of(log)] == [
        (1, 90, 2, None),
        (2, 789, 5, "eve"),
        (3, 1, 6, "bob"),
    ]
    assert [rule_count.places for rule_count in log.rule_counts] == [[3]]
    sacct_months(tmp_path, state="ODD")
    with pytest.raises(InputError, match=r"02.txt: line 3: field State: expected a state of Slurm .*, found \"ODD\""):
        read_slurm(there)
    log = read_slurm(there, lenient=True)
    assert [rule_count.places for rule_count in log.bad.values()] == [[6]]
    (there / "02.txt").write_text("State|Submit|Start|End|NCPUS\n")
    with pytest.raises(InputError, match=r"02.txt: line 1: expected a header with a column JobID"):
        read_slurm(there)


def test_a_digest_depends_on_names_and_contents(tmp_path: Path) -> None:
    there = months(tmp_path)
    first = digest_of(there)
    (there / "README.txt").write_text("not a part")
    assert digest_of(there) == first
    (there / "2024-01.csv").rename(there / "2023-12.csv")
    renamed = digest_of(there)
    text_table(there, ROWS[1], name="2023-12.csv")
    assert len({first, renamed, digest_of(there)}) == 3


def test_a_directory_is_simulated_and_read_again(tmp_path: Path) -> None:
    there = months(tmp_path)
    how = ("--mapping", mapping(tmp_path))
    words = ("simulate", "-w", str(there), "--procs", "8", "--policy", "easy", "-e", str(tmp_path / "run"), "-q", *how)
    done = run_cli(*words)
    assert done.returncode == 0, done.stderr
    by_user = ("metrics", str(tmp_path / "run"), "--by", "user", "--measure", "wait_s")
    done = run_cli(*by_user)
    assert (done.returncode, "eve" in done.stdout, "bob" in done.stdout) == (0, True, True), done.stderr
    (there / "2024-01.csv").unlink()
    assert "no job has this field" in run_cli(*by_user).stderr  # the parts are not those of the run
    (there / "2024-02.csv.gz").unlink()
    assert "no job has this field" in run_cli(*by_user).stderr
    assert len(read_run(str(tmp_path / "run")).records) == 2


def test_a_directory_in_python_and_in_campaigns(tmp_path: Path) -> None:
    there = months(tmp_path)
    log = pb.read_workload(there, mapping=mapping(tmp_path), n_procs=8)
    assert (log.name, len(log), log.file_digest) == ("months", 2, digest_of(there))
    run = pb.simulate(log, "easy")
    run.save(tmp_path / "saved")
    assert not (tmp_path / "saved_workload.json").exists()
    assert json.loads((tmp_path / "saved_summary.json").read_text())["inputs"]["workloads"][0]["file"] == str(there)
    spec = WorkloadTable.model_validate({"name": "t", "file": "months", "mapping": "mapping.toml", "procs": 8})
    preparer = Preparer(tmp_path / "made", [tmp_path])
    (made,) = preparer.prepare(spec, 0)
    assert [job["id"] for job in load(made.path).jobs] == ["7", "8"]
    text_table(there, ROWS[0].replace("7,", "9,", 1), name="2024-03.csv")
    (changed,) = Preparer(tmp_path / "made", [tmp_path]).prepare(spec, 0)
    assert [job["id"] for job in load(changed.path).jobs] == ["7", "9", "8"]
    with pytest.raises(InputError, match="workload file none: not found in"):
        preparer.prepare(WorkloadTable.model_validate({"name": "t", "file": "none"}), 0)


def test_a_directory_of_swf_is_not_a_table(tmp_path: Path) -> None:
    there = tmp_path / "logs"
    there.mkdir()
    swf_log(there)
    with pytest.raises(InputError, match="found a directory without them"):
        load(there)


def test_progress_goes_on_over_all_parts(tmp_path: Path) -> None:
    there = months(tmp_path)
    seen: list[float] = []
    with progress.report_to(seen.append), progress.part(0.5, 1):
        read_table(there, mapping=mapping(tmp_path))
    assert seen == sorted(seen)
    assert seen[0] <= 0.75 < seen[-1] == 1


@pytest.mark.parametrize("n", [0, 3, 5, 11, 40, -1, -4, -8, -9])
def test_parquet_that_was_cut(tmp_path: Path, n: int) -> None:
    columns = {name: [row.split(",")[i] for row in ROWS] for i, name in enumerate(HEADER.split(","))}
    file = tmp_path / "t.parquet"
    tables.parquet(file, columns)
    file.write_bytes(file.read_bytes()[:n])
    done = run_cli("workload", "convert", str(file), str(tmp_path / "w.json"), "--mapping", mapping(tmp_path))
    assert (done.returncode, (tmp_path / "w.json").exists()) == (2, False)
    assert f"{file}: " in done.stderr
    if n not in {0, 3}:
        assert "the Parquet data is truncated or damaged" in done.stderr


def test_parquet_with_a_flipped_byte_at_its_end(tmp_path: Path) -> None:
    """The length of the metadata and PAR1 are checked first. Damaged metadata is an error, or harmless."""
    columns = {name: [row.split(",")[i] for row in ROWS] for i, name in enumerate(HEADER.split(","))}
    file = tmp_path / "t.parquet"
    tables.parquet(file, columns)
    good = file.read_bytes()
    n_metadata = int.from_bytes(good[-8:-4], "little")
    refused = 0
    for place in (*range(len(good) - 8 - n_metadata, len(good) - 8, 199), *range(len(good) - 7, len(good), 2)):
        damaged = bytearray(good)
        damaged[place] ^= 0x10
        file.write_bytes(damaged)
        done = run_cli("workload", "convert", str(file), str(tmp_path / "w.json"), "--mapping", mapping(tmp_path))
        if place > len(good) - 8 or done.returncode:
            assert (done.returncode, (tmp_path / "w.json").exists()) == (2, False)
            assert file.name in done.stderr
            assert "Traceback" not in done.stderr
            refused += 1
        (tmp_path / "w.json").unlink(missing_ok=True)
    assert refused >= 4


@pytest.mark.parametrize(
    "garbage", [b"PAR1", b"PAR1PAR1", b"PAR1" + bytes(40) + b"PAR1", b"PAR1" + b"\xff" * 40 + b"PAR1"]
)
def test_garbage_that_looks_like_parquet(tmp_path: Path, garbage: bytes) -> None:
    file = tmp_path / "t.parquet"
    file.write_bytes(garbage)
    with pytest.raises(InputError, match=r"t.parquet: the Parquet data is truncated or damaged"):
        read_table(file, mapping=mapping(tmp_path))


def test_parquet_in_gzip_is_told(tmp_path: Path) -> None:
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "t.parquet")
    packed = tmp_path / "t.parquet.gz"
    packed.write_bytes(gzip.compress((tmp_path / "t.parquet").read_bytes()))
    with pytest.raises(InputError, match=r"t.parquet.gz: expected Parquet without other compression; decompress it"):
        read_table(packed, mapping=mapping(tmp_path, MAPPING))
