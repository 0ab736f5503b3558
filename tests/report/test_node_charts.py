"""Charts of runs on nodes: rows by node, colours by partition and GPUs, and what was in use over time."""

from __future__ import annotations

import re
from bisect import bisect_right
from pathlib import Path

import numpy as np
import pytest
from support.nodes_example import simulate_example
from support.process import run_cli

from pybatsched.errors import InputError
from pybatsched.metrics.saved_runs import SavedRun, read_run
from pybatsched.report import page
from pybatsched.report.charts import PlotOptions, chart_of
from pybatsched.report.gantt.chart import table_of
from pybatsched.report.gantt.cluster_rows import Band
from pybatsched.report.gantt.colors import colorings_of
from pybatsched.report.lines import of_nodes, over_time, resources_over_time, time_axis


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> SavedRun:
    place = tmp_path_factory.mktemp("nodes")
    simulate_example(place, "run")
    return read_run(str(place / "run"))


def test_each_node_is_a_band(run: SavedRun) -> None:
    table = table_of(run)
    assert table.rows is not None
    assert table.rows.bands == [Band(f"{node}", 4 * node, 4 * node + 4) for node in range(4)]
    assert table.rows.is_plain
    found, ids = table.rectangles, run.jobs.ran["id"].to_list()
    notes = {ids[job]: found.notes[note] for job, note in zip(found.job, found.note, strict=True)}
    assert (notes["w0!a"], notes["w0!e"]) == ("node 0", "nodes 2, 3")
    axes = chart_of("gantt", [run]).axes[0]
    assert [text.get_text() for text in axes.texts] == ["0", "1", "2", "3"]


def test_colours_by_partition_and_gpus(run: SavedRun) -> None:
    by_name = {one.name: one for one in colorings_of([run])}
    partition, gpus = by_name["partition"], by_name["gpus"]
    ids = [job_id.removeprefix("w0!") for job_id in run.jobs.ran["id"]]
    found = dict(zip(ids, partition.classes[0].tolist(), strict=True))
    assert {name: partition.words[one] for name, one in found.items()} == {
        name: f"partition {'gpu' if name in 'cdeg' else 'main'}" for name in "abcdefgh"
    }
    found = dict(zip(ids, gpus.classes[0].tolist(), strict=True))
    words = {"c": "2 to 3 GPUs", "d": "1 GPU", "e": "4 to 7 GPUs", "g": "1 GPU"}
    assert {name: gpus.words[one] for name, one in found.items()} == dict.fromkeys("abfh", "no GPU") | words
    for options, coloring in ((PlotOptions(color="partition"), partition), (PlotOptions(color="gpus"), gpus)):
        figure = chart_of("gantt", [run], options)
        legend = [text.get_text() for one in figure.legends for text in one.get_texts()]
        assert legend == list(coloring.words)


def test_resources_over_time(run: SavedRun) -> None:
    table = resources_over_time(run, time_axis(0, 90), (0, 90))
    assert [line.label for line in table.lines] == ["processors", "memory", "GPUs", "stranded processors"]

    def at(label: str, time: float) -> float:
        line = next(one for one in table.lines if one.label == label)
        return line.y[bisect_right(line.x, time) - 1]

    assert at("GPUs", 0) == 2 / 4
    assert at("GPUs", 30) == 1
    assert at("GPUs", 40) == 1 / 4
    assert at("memory", 5) == (16 + 12 + 8 + 4) / 96
    assert at("stranded processors", 30) == 2 / 16
    assert at("processors", 30) == 6 / 16
    memory = over_time([("run", (run,))], "memory", time_axis(0, 90), (0, 90))
    assert list(memory.limits) == [96]
    lines = chart_of("resources", [run]).axes[0].get_lines()
    drawn: list[list[float]] = [np.asarray(line.get_ydata()).tolist()[:-1] for line in lines]
    assert drawn == [list(line.y) for line in table.lines]


def test_the_page_shows_the_quantities_of_nodes(run: SavedRun) -> None:
    text = page.of_runs([run])
    for title in ("Memory in use (GB)", "GPUs in use", "Stranded processors"):
        assert f"<h2>{title}</h2>" in text
    assert re.search(r"memory utilisation</td><td[^>]*>0.07407", text)
    assert "request: memory" in text


def test_a_run_without_nodes_has_none_of_these(tmp_path: Path, run: SavedRun) -> None:
    file = next(one for one in run.workload_files)
    done = run_cli("simulate", "--procs", "16", "-w", file, "--policy", "easy", "-e", "plain", "--quiet", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    plain = read_run(str(tmp_path / "plain"))
    assert table_of(plain).rows is None
    assert of_nodes([plain]) == of_nodes([run, plain]) == []
    with pytest.raises(InputError, match="resources: plain: expected a run whose jobs request memory"):
        chart_of("resources", [plain])
    with pytest.raises(InputError, match="gpus: expected jobs of different numbers of GPUs"):
        chart_of("gantt", [plain], PlotOptions(color="gpus"))
