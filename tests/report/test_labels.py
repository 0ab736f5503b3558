"""Labels of runs on a page."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from support.examples import examples
from support.places import ROOT
from support.process import run_cli

from pybatsched.errors import InputError
from pybatsched.report.provenance import labels_of


@pytest.mark.parametrize(
    ("prefixes", "labels"),
    [
        (["out/easy"], ["easy"]),
        (["out/fcfs", "out/easy"], ["fcfs", "easy"]),
        (["a/fcfs", "b/easy"], ["fcfs", "easy"]),
        (["seed1/out/easy", "seed2/out/easy"], ["seed1", "seed2"]),
        (["x/seed1/out/easy", "x/seed2/out/easy", "x/seed2/out/fcfs"], ["seed1/easy", "seed2/easy", "seed2/fcfs"]),
        (["easy", "old/easy"], ["easy (1)", "easy (2)"]),
        (["/tmp/easy", "easy", "b/easy"], ["easy (1)", "easy (2)", "easy (3)"]),
        (["out/", "other/"], ["out", "other"]),
        (["easy", "./easy"], ["easy (1)", "easy (2)"]),
    ],
)
def test_the_shortest_parts_that_differ(prefixes: list[str], labels: list[str]) -> None:
    assert labels_of(prefixes) == labels


_PARTS = st.lists(st.sampled_from(["a", "b", "easy", "seed1"]), min_size=1, max_size=4).map("/".join)


@given(st.lists(_PARTS, min_size=1, max_size=5))
@examples(200)
def test_all_differ_and_none_is_empty(prefixes: list[str]) -> None:
    labels = labels_of(prefixes)
    assert len(set(labels)) == len(prefixes)
    assert all(labels)


def test_one_label_is_required_for_each_run() -> None:
    assert labels_of(["a", "b"], ["the first", "other"]) == ["the first", "other"]
    with pytest.raises(InputError, match="label: 1 label for 2 runs; expected one label per run, or none"):
        labels_of(["a", "b"], ["the first"])


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["x", "x"], "label x: found for a and for b; expected different names"),
        (["x", ""], "label: found an empty label for b; expected a name"),
        (["  ", "x"], "label: found an empty label for a; expected a name"),
    ],
)
def test_given_labels_must_differ(labels: list[str], message: str) -> None:
    with pytest.raises(InputError) as error:
        labels_of(["a", "b"], labels)
    assert str(error.value) == message


def test_the_page_uses_the_labels(tmp_path: Path) -> None:
    workload = str(ROOT / "examples" / "workload.json")
    for name in ("one/easy", "two/easy"):
        args = ("--procs", "32", "-w", workload, "--policy", "easy", "-e", name)
        assert run_cli("simulate", *args, cwd=tmp_path).returncode == 0
    for labels, heads in ((("--label", "<b>", "--label", "new"), "&lt;b&gt;, new"), ((), "one, two")):
        done = run_cli("report", "one/easy", "two/easy", *labels, "--output", "x.html", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        text = (tmp_path / "x.html").read_text()
        assert f"<title>{heads}</title>" in text
        first, second = heads.split(", ")
        assert text.count(f"<h3>{first}</h3>") == text.count(f"<h3>{second}</h3>") == 3  # a Gantt chart and two panels
    wrong = run_cli("report", "one/easy", "two/easy", "--label", "x", cwd=tmp_path)
    assert (wrong.returncode, "--label: 1 label for 2 runs" in wrong.stderr) == (2, True)
    empty = run_cli("report", "one/easy", "--label", "", cwd=tmp_path)
    assert (empty.returncode, "--label: found an empty label for one/easy" in empty.stderr) == (2, True)
