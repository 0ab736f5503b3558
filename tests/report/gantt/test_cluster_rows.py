"""Several clusters in one chart: their rows, notes on their jobs, and the jobs moved most."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from support import moved_jobs
from support.process import run_cli

from pybatsched.core.intervals import IntervalSet
from pybatsched.errors import InputError
from pybatsched.metrics import Outcome, joined
from pybatsched.metrics.job_results import JobResults
from pybatsched.metrics.outcomes import JobRecord
from pybatsched.metrics.saved_runs import SavedRun, read_run
from pybatsched.report.gantt import bars, chart
from pybatsched.report.gantt.bars import bars_of
from pybatsched.report.gantt.cluster_rows import Band, Rows, rows_of

SUCCESS, KILLED = "COMPLETED_SUCCESSFULLY", "COMPLETED_KILLED"


def job(name: str, procs: str, note: str = "", *later: tuple[str, str], state: str = SUCCESS) -> JobRecord:
    """A job on some processors with something in its metadata; `later` are segments that follow, a minute each."""
    parts = [
        (procs, note),
        *((where, f"parent=w0!{name};segment={k};kind=requeue{texts}") for k, (where, texts) in enumerate(later, 1)),
    ]
    rows = [
        Outcome(
            f"w0!{name}" if k == 0 else f"dyn!w0.{name}.{k}",
            state if k == len(parts) - 1 else KILLED,
            0.0,
            60.0 * k,
            60.0,
            len(IntervalSet.parse(where)),
            texts,
            IntervalSet.parse(where),
        )
        for k, (where, texts) in enumerate(parts)
    ]
    (record,) = joined(rows)
    return record


def test_clusters_in_a_row_are_left_as_they_are() -> None:
    rows = Rows({"a": [(0, 4)], "b": [(4, 6)]}, 8)
    assert rows.bands == [Band("a", 0, 4), Band("b", 4, 6)]
    assert (rows.is_plain, rows.n_rows) == (True, 8)
    assert rows.placed([(3, 5), (7, 8)]) == [(3, 5), (7, 8)]
    assert [rows.names(procs) for procs in ([(0, 2)], [(3, 5)], [(6, 8)], [(0, 1), (5, 6)], [])] == [
        ["a"],
        ["a", "b"],
        [],
        ["a", "b"],
        [],
    ]


def test_clusters_that_are_mixed_are_put_together_in_the_order_of_their_first_hosts() -> None:
    rows = Rows({"even": [(1, 2), (3, 4), (7, 8)], "odd": [(0, 1), (2, 3), (4, 5)]}, 9)
    assert rows.bands == [Band("odd", 0, 3), Band("even", 3, 6)]
    assert (rows.is_plain, rows.n_rows) == (False, 9)
    #                        processors  0  2  4  1  3  7  5  6  8
    assert rows.placed([(0, 1), (2, 3), (4, 5)]) == [(0, 3)]
    assert rows.placed([(0, 4)]) == [(0, 2), (3, 5)]
    assert rows.placed([(4, 8)]) == [(2, 3), (5, 8)]
    assert rows.placed([(8, 9)]) == [(8, 9)]
    assert rows.names([(2, 4)]) == ["odd", "even"]


@given(
    st.lists(st.sampled_from(["a", "b", "c", ""]), min_size=1, max_size=20),
    st.sets(st.integers(0, 19)),
    st.integers(0, 3),
)
def test_every_processor_has_a_row_of_its_own_and_every_cluster_a_band(
    whose: list[str], some: set[int], n_more: int
) -> None:
    of_cluster = {name: [k for k, own in enumerate(whose) if own == name] for name in dict.fromkeys(whose) if name}
    n_procs = len(whose) + n_more
    rows = Rows({name: tuple(IntervalSet(procs).intervals()) for name, procs in of_cluster.items()}, n_procs)
    row_of = [rows.placed([(proc, proc + 1)]) for proc in range(n_procs)]
    places = [low for [(low, _)] in row_of]
    assert sorted(places) == list(range(n_procs)) == list(range(rows.n_rows))
    assert [band.name for band in rows.bands] == list(of_cluster)
    for band in rows.bands:
        assert [places[proc] for proc in of_cluster[band.name]] == list(range(band.low, band.high))
    assert rows.is_plain == (places == list(range(n_procs)))
    chosen = tuple(IntervalSet([proc for proc in some if proc < n_procs]).intervals())
    shown = {row for low, high in rows.placed(chosen) for row in range(low, high)}
    assert shown == {places[proc] for low, high in chosen for proc in range(low, high)}
    touched = {whose[proc] for low, high in chosen for proc in range(low, high) if proc < len(whose)}
    assert rows.names(chosen) == [name for name in of_cluster if name in touched]


def test_hovering_shows_the_cluster_and_the_moves_of_a_job() -> None:
    rows = Rows({"a": [(0, 4)], "b": [(4, 6)]}, 6)
    records = [
        job("facts", "0-1", "moves=2;resubmitted=5;cluster=b"),  # facts of the policy precede what is observed
        job("once", "0-1", "moves=1;resubmitted=1;cluster=a"),
        job("still", "4", "moves=0;cluster=b"),
        job("silent", "4-5"),
        job("wide", "0-5"),
        job("odd", "0", "load_s=3"),
    ]
    assert [bar.note for bar in bars_of(records, rows)] == [
        "cluster b, moved 2 times, resubmitted 5 times",
        "cluster a, moved once, resubmitted once",
        "cluster b, not moved",
        "cluster b",
        "clusters a, b",
        "cluster a",
    ]
    # Without clusters of the machine the facts of the policy are shown.
    assert [bar.note for bar in bars_of(records)] == [
        "cluster b, moved 2 times, resubmitted 5 times",
        "cluster a, moved once, resubmitted once",
        "cluster b, not moved",
        "",
        "",
        "",
    ]


def test_each_segment_shows_its_cluster_and_the_number_of_moves() -> None:
    rows = Rows({"a": [(0, 4)], "b": [(4, 6)]}, 6)
    record = job("j", "0-1", "", ("4-5", ";work=rest;by=w0!U;held_s=5;moves=1"))
    assert [bar.note.split("\n") for bar in bars_of([record], rows)] == [
        ["suspended, preempted by w0!U", "cluster a, moved once"],
        ["held for 5 s", "cluster b, moved once"],
        ["held for 5 s before it started", "cluster b, moved once"],
    ]
    record = job("j", "0-1", "", ("4-5", ";extra_s=5"))
    assert [bar.note.split("\n")[-1] for bar in bars_of([record], rows)] == ["cluster a", "cluster b", "cluster b"]
    assert bars_of([record], rows)[1].note == "5 s before its work\ncluster b"


def test_jobs_moved_most_come_first() -> None:
    records = [
        job("a", "0", "moves=1;cluster=x"),
        job("b", "0", "moves=3;resubmitted=3;cluster=y"),
        job("c", "0", "moves=0;resubmitted=0"),
        job("d", "0", "moves=3;resubmitted=7"),
        job("e", "0", "moves=0;resubmitted=2"),
        job("f", "0", "resubmitted=9"),  # no policy that moves
        job("g", "0"),
    ]
    assert [one[:4] for one in bars.moved_jobs(JobResults.of(records))] == [
        ("w0!d", 3, 7, ""),
        ("w0!b", 3, 3, "y"),
        ("w0!a", 1, None, "x"),
        ("w0!e", 0, 2, ""),
    ]
    assert bars.MOVES in JobResults.of(records).facts
    assert bars.MOVES not in JobResults.of(records[5:]).facts


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> SavedRun:
    return read_run(str(moved_jobs.simulated(tmp_path_factory.mktemp("moved"))))


def test_a_run_knows_the_clusters_of_its_machine(run: SavedRun) -> None:
    assert run.summary["clusters"] == {"hpc2n": "0-11", "ctc": "12-33", "sdsc": "34-39"}
    assert run.clusters == {"hpc2n": ((0, 12),), "ctc": ((12, 34),), "sdsc": ((34, 40),)}
    data = chart.data_of(run)
    assert data["bands"] == [Band("hpc2n", 0, 12), Band("ctc", 12, 34), Band("sdsc", 34, 40)]
    assert (data["procs"], "rows" in data) == (40, False)
    assert data["notes"] == [
        "",
        "cluster hpc2n, not moved, not resubmitted",
        "cluster ctc, moved once, resubmitted 4 times",
        "cluster sdsc",
        "cluster hpc2n, not moved, resubmitted 2 times",
        "cluster ctc, moved 3 times, resubmitted 4 times",
        "cluster sdsc, moved 3 times, resubmitted 3 times",
    ]


def test_a_machine_of_one_cluster_has_no_bands(tmp_path: Path) -> None:
    jobs = [{"id": 1, "subtime": 0, "res": 2, "profile": "9", "walltime": 10, "cluster": "sx-ace"}]
    found = read_run(str(moved_jobs.run(tmp_path, "sx-ace@0.01", jobs)))
    assert "clusters" not in found.summary
    assert rows_of(found) is None
    assert "bands" not in chart.data_of(found)


def test_a_stopped_run_has_its_bands(tmp_path: Path) -> None:
    moved_jobs.simulated(tmp_path)
    halting = f"{Path(moved_jobs.__file__).with_name('halting.py')}:Halting"
    args = ("-w", "grid.json", "--policy", halting, "-o", "after=2", "-o", "then=raise", "-e", "broken")
    assert run_cli("simulate", "-p", "grid-pwa@0.05", *args, cwd=tmp_path).returncode == 6
    assert list(read_run(str(tmp_path / "broken"), partial=True).clusters) == ["hpc2n", "ctc", "sdsc"]


@pytest.mark.parametrize("clusters", [["a"], {"a": 3}, {"a": "0-x"}, "0-3"])
def test_a_summary_with_invalid_clusters_is_rejected(clusters: object, tmp_path: Path) -> None:
    prefix = moved_jobs.simulated(tmp_path)
    path = tmp_path / "moved_summary.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"clusters": clusters}))
    found = read_run(str(prefix))
    with pytest.raises(InputError, match=r"moved_summary\.json: clusters: expected processors by name, as"):
        rows_of(found)


def test_the_page_lists_the_jobs_moved_most(tmp_path: Path) -> None:
    moved_jobs.simulated(tmp_path)
    assert run_cli("report", "moved", "--output", "p.html", cwd=tmp_path).returncode == 0
    page = (tmp_path / "p.html").read_text()
    assert "<h2>Jobs moved most</h2>" in page
    assert "3 of 6 jobs were moved, 7 times in all:" in page
    table = page.partition('id="moved0"')[2].partition("</table>")[0]
    assert [row.partition("<td")[2].partition("</td>")[0].partition(">")[2] for row in table.split("<tr>")[2:]] == [
        "w0!c",
        "w0!e",
        "w0!b",
        "w0!x&lt;b onclick=x&gt;1&lt;/b&gt;",
    ]


def test_at_most_twenty_moved_jobs_are_listed(tmp_path: Path) -> None:
    usual = {"res": 1, "profile": "9", "walltime": 10, "cluster": "ctc"}
    jobs = [{"id": k, "subtime": k, "facts": f"moves={k}", **usual} for k in range(30)]
    moved_jobs.run(tmp_path, "grid-pwa@0.05", [dict(job) for job in jobs])
    assert run_cli("report", "moved", "--output", "p.html", cwd=tmp_path).returncode == 0
    page = (tmp_path / "p.html").read_text()
    assert "29 of 30 jobs were moved, 435 times in all; the 20 moved most:" in page
    assert page.partition('id="moved0"')[2].partition("</table>")[0].count("<tr>") == 21
    moved_jobs.run(tmp_path, "grid-pwa@0.05", [job | {"facts": "moves=0"} for job in jobs])
    assert run_cli("report", "moved", "--output", "p.html", cwd=tmp_path).returncode == 0
    assert "0 of 30 jobs were moved, 0 times in all.</p>" in (tmp_path / "p.html").read_text()
    moved_jobs.run(tmp_path, "grid-pwa@0.05", [job | {"facts": "load_s=0"} for job in jobs])
    assert run_cli("report", "moved", "--output", "p.html", cwd=tmp_path).returncode == 0
    assert "moved most" not in (tmp_path / "p.html").read_text()


def test_the_figure_has_the_bands_as_well(tmp_path: Path) -> None:
    moved_jobs.simulated(tmp_path)
    assert run_cli("plot", "gantt", "moved", "--output", "g.svg", cwd=tmp_path).returncode == 0
    drawn = (tmp_path / "g.svg").read_text()
    assert all(f"<!-- {name} -->" in drawn for name in ("hpc2n", "ctc", "sdsc"))
    assert drawn.count("fill: #eef3fa") == 1  # every other one is tinted
