"""Tables for papers: means with confidence intervals, by worked examples, and their output formats."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from support import campaigns
from support.process import run_cli

from pybatsched.errors import InputError
from pybatsched.metrics.compare.grouped import summary_table, to_csv, to_latex, to_markdown, to_text, with_interval
from pybatsched.metrics.figure_names import AGAINST, MEASURES, OF_RUNS, better_of

#: t of Student's distribution for 95 %, with 2 and 1 degrees of freedom; for 90 %, with 2.
T2, T1, T2_90 = 4.302652729911275, 12.706204736432095, 2.919985580355516
FIGURE = "mean_wait_s"


def runs(**columns: list[Any]) -> pl.DataFrame:
    return pl.DataFrame(columns)


def test_the_values_of_one_workload_are_its_seeds() -> None:
    frame = runs(
        workload=["w"] * 6, policy=["fcfs", "easy"] * 3, seed=[1, 1, 2, 2, 3, 3], mean_wait_s=[10, 5, 12, 5, 14, 5]
    )
    found = summary_table(frame, ["policy"], [FIGURE])
    assert found.columns == ["policy", FIGURE, "mean_wait_s_low", "mean_wait_s_high", "mean_wait_s_n"]
    half = T2 * 2 / 3**0.5
    first, second = found.rows()
    assert first == ("fcfs", 12.0, pytest.approx(12 - half), pytest.approx(12 + half), 3)
    assert second == ("easy", 5.0, 5.0, 5.0, 3)
    narrow = summary_table(frame, ["policy"], [FIGURE], 0.9)
    assert narrow["mean_wait_s_high"][0] == pytest.approx(12 + T2_90 * 2 / 3**0.5)


def test_the_values_of_a_family_are_its_weeks_with_means_over_seeds() -> None:
    """The weeks have means of 12 and 20; s is √32, and half of the interval t √32 / √2."""
    frame = runs(workload=["a-week01", "a-week01", "a-week02"], seed=[1, 2, 1], mean_wait_s=[10.0, 14.0, 20.0])
    ((mean, low, high, n),) = summary_table(frame, [], [FIGURE]).rows()
    assert (mean, n) == (16.0, 2)
    assert (high - low) / 2 == pytest.approx(T1 * 4)


def test_loads_of_one_workload_are_not_independent() -> None:
    """The seeds, copies or rows in order have means of 15 and 17 over two loads. One run of each load is one value."""
    loads, waits = ["w-load0.7", "w-load0.9"], [10.0, 20.0, 14.0, 20.0]
    seeds = runs(workload=loads * 2, seed=[1, 1, 2, 2], mean_wait_s=waits)
    copies = runs(workload=[f"{name}-shake{k:02}" for k in (1, 2) for name in loads], mean_wait_s=waits)
    for frame in (seeds, copies, runs(workload=loads * 2, mean_wait_s=waits)):
        ((mean, low, high, n),) = summary_table(frame, [], [FIGURE]).rows()
        assert (mean, n, (high - low) / 2) == (16.0, 2, pytest.approx(T1))
    assert summary_table(runs(workload=loads, mean_wait_s=[10.0, 20.0]), [], [FIGURE]).rows() == [(15.0, None, None, 1)]


def test_one_value_has_no_interval_and_no_value_no_mean() -> None:
    frame = runs(policy=["a", "b", "b"], seed=[1, 1, 2], mean_wait_s=[3.0, None, None])
    assert summary_table(frame, ["policy"], [FIGURE]).rows() == [("a", 3.0, None, None, 1), ("b", None, None, None, 0)]


def test_points_of_one_run_count_once() -> None:
    frame = runs(address=["x", "x", "y"], seed=[1, 2, 3], mean_wait_s=[4.0, 4.0, 8.0])
    ((mean, low, high, n),) = summary_table(frame, [], [FIGURE]).rows()
    assert (mean, n, (high - low) / 2) == (6.0, 2, pytest.approx(T1 * 2))


def test_rows_without_names_of_runs_are_values() -> None:
    ((mean, *_, n),) = summary_table(runs(mean_wait_s=[1.0, 2.0]), [], ["mean_wait_s"]).rows()
    assert (mean, n) == (1.5, 2)


@pytest.mark.parametrize(
    ("by", "figures", "level", "message"),
    [
        (["joy"], [FIGURE], 0.95, "unknown column 'joy' to group by; expected some of policy, seed"),
        (["policy"], ["joy"], 0.95, "unknown figure 'joy'; expected some of mean_wait_s"),
        (["seed"], ["policy"], 0.95, "unknown figure 'policy'; expected some of mean_wait_s"),
        (
            ["seed"],
            ["mean_wit"],
            0.95,
            "unknown figure 'mean_wit'; did you mean 'mean_wait_s'? Expected some of mean_wait_s",
        ),
        (["policy"], [FIGURE], 1.0, "confidence level 1: expected a number between 0 and 1, such as 0.95"),
    ],
)
def test_invalid_groups_and_figures_are_rejected(by: list[str], figures: list[str], level: float, message: str) -> None:
    with pytest.raises(InputError) as error:
        summary_table(runs(policy=["a"], seed=[1], mean_wait_s=[1.0]), by, figures, level)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("mean", "half", "texts"),
    [
        (41_712.4, 9_871.0, ("41,700", "9,900")),
        (0.71249, 0.05, ("0.712", "0.050")),
        (9.996, 12.7, ("10.0", "12.7")),
        (100.0, 0.0, ("100", "0")),
        (123.4, 0.0456, ("123.40", "0.05")),
        (-2.5, None, ("-2.50", "")),
        (1e-5, 2e-6, ("0.0000100", "0.0000020")),
    ],
)
def test_three_digits_and_an_interval_up_to_the_same_place(
    mean: float, half: float | None, texts: tuple[str, str]
) -> None:
    assert with_interval(mean, half) == texts


SUMMARY = pl.DataFrame(
    {
        "family": ["kth", "kth", "sdsc_sp2", "sdsc_sp2"],
        "policy": ["fcfs", "easy", "fcfs", "easy"],
        "mean_wait_s": [41_712.4, 4_312.0, 100.0, 100.0],
        "mean_wait_s_low": [31_841.4, 4_212.0, None, 99.0],
        "mean_wait_s_high": [51_583.4, 4_412.0, None, 101.0],
        "mean_wait_s_n": [3, 3, 1, 2],
        "utilisation": [0.7, 0.71249, None, 0.5],
        "utilisation_low": [0.65, 0.66249, None, 0.4],
        "utilisation_high": [0.75, 0.76249, None, 0.6],
        "utilisation_n": [3, 3, 0, 2],
    }
)


def test_the_text_in_latex() -> None:
    assert to_latex(SUMMARY, bold_best=True) == (
        r"""\begin{tabular}{llrrr}
\toprule
family & policy & n & mean wait (s) & utilisation \\
\midrule
kth & fcfs & 3 & $41{,}700 \pm 9{,}900$ & $0.700 \pm 0.050$ \\
kth & easy & 3 & $\mathbf{4{,}310} \pm 100$ & $\mathbf{0.712} \pm 0.050$ \\
\addlinespace
sdsc\_sp2 & fcfs & 0 to 1 & $100$ & -- \\
sdsc\_sp2 & easy & 2 & $100 \pm 1$ & $0.500 \pm 0.100$ \\
\bottomrule
\end{tabular}
"""
    )
    assert "mathbf" not in to_latex(SUMMARY)


def test_latex_has_space_between_rows_that_are_not_compared() -> None:
    by_policy = SUMMARY.select("policy", pl.exclude("policy", "family"), family=pl.Series([0.7, 0.7, 0.9, 0.9]))
    lines = to_latex(by_policy.rename({"family": "load"})).splitlines()
    assert [k for k, line in enumerate(lines) if line == r"\addlinespace"] == [6]
    assert "addlinespace" not in to_latex(SUMMARY[::2])


def test_the_text_in_markdown() -> None:
    assert to_markdown(SUMMARY[:2], bold_best=True) == (
        "| family | policy | n | mean wait (s) | utilisation |\n"
        "|---|---|---:|---:|---:|\n"
        "| kth | fcfs | 3 | 41,700 ± 9,900 | 0.700 ± 0.050 |\n"
        "| kth | easy | 3 | **4,310** ± 100 | **0.712** ± 0.050 |\n"
    )


def test_plain_text() -> None:
    assert to_text(SUMMARY[:2]) == (
        "family  policy  n   mean wait (s)    utilisation\n"
        "kth     fcfs    3  41,700 ± 9,900  0.700 ± 0.050\n"
        "kth     easy    3     4,310 ± 100  0.712 ± 0.050\n"
    )
    assert to_text(SUMMARY[:2], bold_best=True).splitlines()[2] == (
        "kth     easy    3     4,310 ± 100 *  0.712 ± 0.050 *"
    )


def test_csv_has_all_digits_and_no_formula() -> None:
    frame = SUMMARY[:1].with_columns(policy=pl.lit("=1+1"))
    head, row = csv.reader(io.StringIO(to_csv(frame)))
    assert head == frame.columns
    assert row[:3] == ["kth", "'=1+1", "41712.4"]


def test_which_direction_is_better() -> None:
    assert {better_of(f"p95_{name}") for name in MEASURES if name != "runtime_s"} == {"lower"}
    assert [better_of(name) for name in ("utilisation", "early", "n_completed")] == ["higher"] * 3
    assert [better_of(name) for name in ("late", "response_ratio", "urgent_max_slowdown")] == ["lower"] * 3
    assert [better_of(name) for name in ("n_jobs", "mean_runtime_s", "total_load_s", "mean_joy", "tau_s")] == [""] * 5
    assert {one.better for one in (*OF_RUNS.values(), *AGAINST.values())} == {"lower", "higher", ""}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two weeks of a log with two policies: waits of 10 and 14, and of 5 and 5."""
    rows = [
        campaigns.Row(f"kth-week0{week}", policy, {FIGURE: wait, "utilisation": 0.5})
        for policy, waits in (("fcfs", (10.0, 14.0)), ("easy", (5.0, 5.0)))
        for week, wait in enumerate(waits, 1)
    ]
    return campaigns.keep(tmp_path_factory.mktemp("study"), rows, ["kth"])


def table(study: Path, *args: str) -> tuple[int, str, str]:
    done = run_cli("campaign", "table", str(study), "--figures", FIGURE, *args)
    return done.returncode, done.stdout, done.stderr


def test_the_command_prints_means_by_family_and_policy(study: Path) -> None:
    half = T1 * 2  # s is √8, over √2
    wanted = (
        f"family  policy  n  mean wait (s)\nkth     fcfs    2    12.0 ± {half:.1f}\nkth     easy    2    5.00 ± 0.00\n"
    )
    assert table(study, "--ci", "0.95") == (0, wanted, "")
    assert table(study, "--ci", "0.95", "--by", "family,policy") == (0, wanted, "")
    _, latex, _ = table(study, "--ci", "0.95", "--format", "latex", "--bold-best")
    assert "kth & easy & 2 & $\\mathbf{5.00} \\pm 0.00$ \\\\\n" in latex


def test_the_command_prints_points_and_means_as_before(study: Path) -> None:
    _, text, _ = table(study, "--by", "family,policy")
    assert text.splitlines() == [
        "family  policy  points  mean_wait_s",
        "kth     fcfs         2           12",
        "kth     easy         2            5",
    ]
    _, text, _ = table(study)
    assert text.splitlines()[:2] == [
        "workload    family  platform  policy  options  seed  repeat  mean_wait_s",
        "kth-week01  kth     own       fcfs    {}          0       0           10",
    ]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            ("--by", "joy", "--ci", "0.95"),
            "unknown column 'joy' to group by; expected some of workload, platform, policy, options",
        ),
        (("--by", "joy"), "unknown column 'joy'; expected some of workload, platform, policy, options"),
        (("--ci", "95"), "--ci 95: expected a confidence level between 0 and 1, such as 0.95"),
        (("--ci", "much"), "--ci much: expected a confidence level between 0 and 1, such as 0.95"),
        (("--format", "html"), "argument --format: invalid choice: 'html'"),
        (("--bold-best",), "--bold-best: works only with --ci, and with --format text, markdown or latex"),
        (
            ("--bold-best", "--ci", "0.9", "--format", "csv"),
            "--bold-best: works only with --ci, and with --format text, markdown",
        ),
    ],
)
def test_invalid_arguments_of_the_command_are_rejected(args: tuple[str, ...], message: str, study: Path) -> None:
    code, out, err = table(study, *args)
    assert (code, out) == (2, "")
    assert message in err
