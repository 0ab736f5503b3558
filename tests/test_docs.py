"""The examples of the documentation are executed."""

from __future__ import annotations

import doctest
import importlib
import itertools
import json
import re
import shlex
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from support.packages import needed_for, without
from support.patience import PATIENCE_OF_WORK_S
from support.places import ROOT
from support.process import Peer, Server, run_cli

from pybatsched import testing
from pybatsched.cli import build_parser
from pybatsched.core.node_requests import REQUEST_FIELDS
from pybatsched.errors import InputError
from pybatsched.policies.learning import FEATURES
from pybatsched.policies.predictions import CORRECTORS, PREDICTORS
from pybatsched.testing import FakeBatsim, Workload

README = (ROOT / "README.md").read_text()
GUIDE = (ROOT / "docs" / "write-a-policy.md").read_text()
PYTHON = re.findall(r"```python\n(.*?)```", GUIDE, flags=re.DOTALL)


def test_the_readme_is_short_and_its_picture_small() -> None:
    assert len(README.splitlines()) <= 100
    (picture,) = re.findall(r"!\[.*\]\((.*)\)", README)
    assert (ROOT / picture).stat().st_size < 200_000


def test_the_documentation_by_hand_is_short() -> None:
    """All pages but the licences, without the tables that `make api` writes."""
    pages = [path.read_text() for path in (ROOT / "docs").rglob("*.md") if path.name != "licences.md"]
    by_hand = [re.sub(r"(<!-- make api: .*? -->\n).*?(<!-- end -->)", r"\1\2", page, flags=re.DOTALL) for page in pages]
    assert sum(page.count("\n") for page in by_hand) <= 5500


def test_the_policy_of_the_readme_gives_the_output_shown(tmp_path: Path) -> None:
    (policy,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert len([line for line in policy.splitlines() if line]) <= 12
    (tmp_path / "shortest.py").write_text(policy)
    ((command, output),) = re.findall(r"^\$ pybatsched (.*)\n((?:.+\n)+)```", README, flags=re.MULTILINE)
    done = run_cli(*shlex.split(command.replace("examples/", f"{ROOT}/examples/")), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == output


def test_the_what_if_of_the_readme_gives_the_changes_named(tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (block,) = re.findall(r"^## What if.*?```sh\n(.*?)```", README, flags=re.MULTILINE | re.DOTALL)
    done = [run_cli(*shlex.split(line)[1:], cwd=tmp_path) for line in block.splitlines()]
    assert [one.returncode for one in done] == [0, 0, 0, 0], done
    changes = dict(re.findall(r"^(mean_\w+) .* (\S+%)$", done[2].stdout, flags=re.MULTILINE))
    wait, slowdown = changes["mean_wait_s"], changes["mean_bounded_slowdown"]
    assert f"mean wait changes by {wait}, the mean bounded slowdown by {slowdown}." in README


#: A number: with decimals, or of two digits and more; alone or with thousands separators. Not a part of a name.
NUMBER = re.compile(r"(?<![\w.,-])(?:\d{1,3}(?:,\d{3})+|\d+\.\d+|\d{2,})(?![\w]|\.\d|,\d)")


def numbers_without_source(text: str, pages: list[Path]) -> list[str]:
    """Return the numbers of a text that are in none of these pages."""
    known = {number for page in pages for number in NUMBER.findall(page.read_text())}
    without_years = re.sub(r"\b[A-Z]\w+ 20\d\d\b", "", text)  # SC 2020
    return [number for number in NUMBER.findall(without_years) if number not in known]


def test_numbers_that_the_readme_gives_are_on_the_pages_that_it_names() -> None:
    table = README.partition("## Checked against\n")[2].partition("\n\n## ")[0]
    rows = [row for row in table.splitlines() if row.startswith("| [")]
    assert len(rows) >= 7
    for row in rows:
        page = ROOT / re.findall(r"\]\(([^)#]+)", row)[0]
        assert numbers_without_source(row, [page]) == [], page.name
    assert numbers_without_source("1,385 starts", [ROOT / "docs" / "slurm.md"]) == ["1,385"]
    recordings = (ROOT / "tests" / "conformance" / "README.md").read_text()
    n = len(re.findall(r"^\| [\w-]+ \| .* \|$", recordings, flags=re.MULTILINE))
    assert f"each of the {n - 1} runs" in (ROOT / "docs" / "conformance.md").read_text()  # the first row is the head


PAPER = (ROOT / "docs" / "paper" / "paper.md").read_text()


def test_the_paper_has_the_form_and_length_of_its_journal() -> None:
    head, body = re.findall(r"^---\n(.*?)^---\n(.*)", PAPER, flags=re.DOTALL | re.MULTILINE)[0]
    assert {"title", "tags", "authors", "affiliations", "date", "bibliography"} <= set(
        re.findall(r"^\w+", head, flags=re.MULTILINE)
    )
    text = re.sub(r"<!--.*?-->", "", body, flags=re.DOTALL)
    assert 750 <= len(text.split()) <= 1750
    entries = (ROOT / "docs" / "paper" / "paper.bib").read_text()
    assert set(re.findall(r"@([\w]+)", text)) == set(re.findall(r"^@\w+\{(\w+),", entries, flags=re.MULTILINE))


def test_numbers_of_the_paper_are_on_the_pages_that_its_comments_name() -> None:
    body = PAPER.partition("# Summary")[2]
    sourced = re.findall(r"^((.*) <!-- numbers: (.*?) -->)$", body, flags=re.MULTILINE)
    assert len(sourced) >= 7
    for whole, text, names in sourced:
        assert numbers_without_source(text, [ROOT / name for name in names.split()]) == [], text
        body = body.replace(whole, "")
    left = re.sub(r"\[@.*?\]|<!--.*?-->", "", body, flags=re.DOTALL)
    assert NUMBER.findall(left) == ["3.1", "4.2"]  # the versions of Batsim


def test_commands_are_all_on_their_page() -> None:
    page = (ROOT / "docs" / "commands.md").read_text()
    commands = re.findall(r"^    (\w+)", run_cli("--help").stdout.partition("COMMAND\n")[2], flags=re.MULTILINE)
    assert len(commands) > 15
    assert [name for name in commands if f"`{name}`" not in page] == []
    for code in (*range(8), 130, 141, 143):
        assert re.search(rf"^\| [\d, ]*\b{code}\b", page, flags=re.MULTILINE), code


def test_extras_are_installed_from_a_clone() -> None:
    """The package is on no index: `pip install pybatsched[...]` would fail or install something else."""
    folders = ("docs", "examples", "pybatsched", "schedulers", "studies")
    pages = [ROOT / "README.md", *(path for name in folders for path in (ROOT / name).rglob("*.*"))]
    texts = [path.read_text() for path in pages if path.suffix in {".md", ".py", ".ipynb", ".yml"}]
    shown = re.compile(r"""pip install '\.\[([\w,]+)\]'|not_installed\(.*, "(\w+)"\)""")
    named = [extra for text in texts for found in shown.findall(text) for extra in "".join(found).split(",")]
    assert len(named) > 30
    assert set(named) <= set(metadata.metadata("pybatsched").get_all("Provides-Extra") or ())
    assert [text for text in texts if re.search(r"pip install [\"'`]*pybatsched", text)] == []


def shown_commands(page: Path) -> list[str]:
    """Return the pybatsched commands in the code blocks of a page, without their comments."""
    blocks = re.findall(r"^ *```(\w*)\n(.*?)^ *```", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    lines = "".join(block for language, block in blocks if language in {"", "sh"}).replace("\\\n", " ")
    return [
        re.split(r" +# | && ", args)[0]
        for args in re.findall(r"^ *(?:\$ )?pybatsched (.*)$", lines, flags=re.MULTILINE)
    ]


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))], ids=lambda page: page.stem
)
def test_options_of_shown_commands_exist(page: Path) -> None:
    for command in shown_commands(page):
        args = shlex.split(command.replace("simulate ...", "simulate --procs 4 -w w.json"))
        args = [*itertools.takewhile(lambda text: text not in {"--", ">"}, args)]  # the rest is for Batsim or a file
        if args[0] != "batsim":  # which has Batsim's own options
            arguments = ["serve", *args] if args[0].startswith("-") else args
            build_parser(arguments[:1]).parse_args(arguments)


@pytest.fixture
def shortest(tmp_path: Path) -> Path:
    path = tmp_path / "shortest.py"
    path.write_text(PYTHON[0])
    return path


def test_the_policy_of_the_guide_is_complete_and_short(shortest: Path) -> None:
    assert len(PYTHON[0].splitlines()) < 40
    shown = run_cli("policies", f"{shortest}:ShortestFirst")
    assert shown.returncode == 0
    assert "patience = 3600" in shown.stdout


def test_the_policy_of_the_guide_runs_in_the_real_process(shortest: Path, tmp_path: Path) -> None:
    content = json.loads((ROOT / "examples" / "workload.json").read_text())
    journal = str(tmp_path / "run.pbj")
    arguments = ("--policy", f"{shortest}:ShortestFirst", "-o", "patience=600", "--journal", journal)
    with Server(*arguments) as server, Peer(server.wait_ready()) as peer:
        run = FakeBatsim(Workload.from_json(content), content["nb_res"]).run(peer.ask)
        assert server.finish() == 0, server.errors
    assert not run.deadlocked
    assert {job.final_state for job in run.jobs.values()} == {"COMPLETED_SUCCESSFULLY"}
    named = ("--policy", f"{shortest}:ShortestFirst")
    assert run_cli("replay", journal, *named).returncode == 0
    story = run_cli("explain", journal, "w0!23", *named).stdout
    assert "not started: needs 32 processors" in story
    assert "started on 0-31: shortest that fits: 350.3 s" in story


def test_the_test_of_the_guide_passes(shortest: Path) -> None:
    test = shortest.with_name("check.py")
    test.write_text(PYTHON[1])
    subprocess.run([sys.executable, str(test)], check=True, cwd=shortest.parent, timeout=PATIENCE_OF_WORK_S)


@pytest.mark.parametrize(
    ("index", "name"),
    [
        (2, "FirstFit"),
        (3, "Halves"),
        (4, "Rounds"),
        (5, "Pushy"),
        (None, "Booting"),
        (None, "Staging"),
        (None, "EarliestEnd"),
        (None, "Shares"),
    ],
)
def test_the_other_snippets_are_policies(index: int | None, name: str, tmp_path: Path) -> None:
    path = ROOT / "examples" / "more_policies.py"
    if index is not None:
        path = tmp_path / "snippet.py"
        path.write_text(PYTHON[index])
    shown = run_cli("policies", f"{path}:{name}")
    assert shown.returncode == 0, shown.stderr
    if name == "FirstFit":
        jobs = Workload().job("a", n=3, s=5).job("b", n=3, s=5, at=1).job("c", n=1, s=5, at=2)
        run = testing.run_policy(f"{path}:{name}", jobs, n_procs=4)
        assert [job.started_at for job in run.jobs.values()] == [0, 5, 2]
    elif name == "Halves":
        jobs = Workload().job("a", n=3, s=5, walltime=6).job("b", n=2, s=5, at=1).job("c", n=4, s=5, at=2, walltime=6)
        run = testing.run_policy(f"{path}:{name}", jobs, n_procs=8)
        assert [(job.started_at, str(job.procs)) for job in run.jobs.values()] == [(0, "4-6"), (1, "0-1"), (5, "4-7")]
    elif name == "Rounds":
        jobs = Workload().job("a", n=4, s=5000).job("b", n=4, s=5, at=10).job("c", n=1, s=5, at=7300)
        run = testing.run_policy(f"{path}:{name}", jobs, n_procs=4)
        assert [job.started_at for job in run.jobs.values()] == [0, 7210, 7300]
    elif name == "Booting":
        jobs = Workload().job("a", n=2, s=5).job("b", n=1, s=90, at=1).job("c", n=2, s=5, at=2)
        run = testing.run_policy(f"{path}:{name}", jobs, n_procs=4)
        found = [(job.started_at, str(job.procs), job.metadata) for job in run.jobs.values()]
        assert found == [(60, "0-1", "held_s=60"), (61, "2", "held_s=60"), (125, "0 3", "held_s=60")]
    elif name == "Staging":
        jobs = Workload()
        for number, (file, walltime) in enumerate((("f", 99), ("f", 99), ("g", 99), ("f", 15))):
            jobs.job(number, n=2, s=10, at=number, walltime=walltime, input_file=file, input_size_gb=2)
        config, hosts = {"dynamic-jobs-enabled": True}, [{"node": node} for node in "aabb"]
        run = testing.run_policy(f"{path}:{name}", jobs, n_procs=4, config=config, hosts=hosts)
        spans = [(job.started_at, job.ended_at, str(job.procs)) for job in run.jobs.values() if job.ended_at]
        assert spans == [(0, 30, "0-1"), (1, 31, "2-3"), (30, 60, "0-1"), (31, 41, "2-3")]
        assert [job.metadata.partition("extra_s=20;")[2] for job in run.jobs.values() if job.ended_at][:3] == [
            "load_s=20;reused=0"
        ] * 3
        assert run.jobs["w0!3"].metadata == "load_s=0;reused=1"
    elif name == "EarliestEnd":
        jobs = Workload().job("a", n=2, s=12, walltime=16).job("b", n=2, s=3, at=1, walltime=3)
        jobs.job("c", n=2, s=18, at=2, walltime=20).job("d", n=1, s=5, at=3)
        config, hosts = {"dynamic-jobs-enabled": True}, [{"cluster": name} for name in "xxyyyy"]
        run = testing.run_policy(f"{path}:{name}", jobs, n_procs=6, config=config, hosts=hosts)
        found_by_id = {
            job.id: (job.started_at, job.ended_at, str(job.procs)) for job in run.jobs.values() if job.ended_at
        }
        # a has y for half the time. b would wait for it until 8, and starts on x as it is. c is expected to end at
        # 4 + 20 on x and at 8 + 10 on y, which is free at 6 already. d plans with an hour, whatever its size.
        assert found_by_id == {
            "dyn!w0.a.1": (0, 6, "2-5"),
            "w0!b": (1, 4, "0-1"),
            "dyn!w0.c.1": (6, 15, "2-5"),
            "w0!d": (4, 9, "0"),
        }
    elif name == "Shares":
        jobs = Workload().job("a", n=2, s=5, project="x", share=0.5).job("b", n=1, s=5, at=1, project="x", share=0.5)
        run = testing.run_policy(f"{path}:{name}", jobs.job("c", n=2, s=5, at=2), n_procs=4)
        assert [job.started_at for job in run.jobs.values()] == [0, 5, 2]
        assert "project: the name of a project" in shown.stdout
        with pytest.raises(InputError, match="^job w0!d, field share: expected a number above 0, up to 1, found 2$"):
            testing.run_policy(f"{path}:{name}", Workload().job("d", n=1, s=5, share=2), n_procs=4)
    else:
        assert "Batsim must be started with --enable-dynamic-jobs" in shown.stdout


def test_examples_of_the_pages_on_policies_hold() -> None:
    shared: dict[str, object] = {}
    studies = [f"studies/pybatsched_studies/{name}/README.md" for name in ("orders", "predictions")]
    for page in ("docs/policies.md", *studies):
        examples = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)
        for number, example in enumerate(examples, 1):
            exec(compile(example, f"example {number} of {page}", "exec"), shared)
        assert len(examples) == {"docs/policies.md": 9, studies[0]: 2, studies[1]: 1}[page]


def test_examples_of_the_page_on_nodes_hold() -> None:
    page = (ROOT / "docs" / "nodes.md").read_text()
    shared: dict[str, object] = {}
    examples = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    for number, example in enumerate(examples, 1):
        exec(compile(example, f"example {number} of docs/nodes.md", "exec"), shared)
    assert len(examples) == 2
    assert [name for name in REQUEST_FIELDS if f"| `{name}` |" not in page] == []


def test_the_page_on_workloads_describes_the_order_at_one_instant() -> None:
    page = (ROOT / "docs" / "workloads.md").read_text()
    (example,) = re.findall(r"### Jobs of one instant.*?```python\n(.*?)```", page, flags=re.DOTALL)
    exec(compile(example, "docs/workloads.md", "exec"), {})


def test_the_page_on_journals_shows_the_output_of_explain(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "journal.md").read_text()
    (shown,) = re.findall(r"```\n(job w0!05: .*?)```", page, flags=re.DOTALL)
    args = ("--procs", "32", "-w", str(ROOT / "examples" / "workload.json"), "--policy", "easy", "--journal", "run.pbj")
    assert run_cli("simulate", *args, cwd=tmp_path).returncode == 0
    assert run_cli("explain", "run.pbj", "w0!05", "--why-not-earlier", cwd=tmp_path).stdout == shown


def test_the_platform_with_a_network_gives_the_times_shown(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "platforms.md").read_text()
    for kind, name in (("xml", "network.xml"), ("json", "exchange.json")):
        (content,) = re.findall(rf"```{kind}\n(.*?)```", page, flags=re.DOTALL)
        (tmp_path / name).write_text(content)
    ((command, shown),) = re.findall(r"\$ pybatsched (simulate .*)\n\$ cut .*\n((?:.+\n)+)```", page)
    assert run_cli(*shlex.split(command), cwd=tmp_path).returncode == 0
    rows = [line.split(",") for line in (tmp_path / "out" / "network_jobs.csv").read_text().splitlines()]
    shown_rows = [line.split(",") for line in shown.splitlines()]
    assert [[row[0], *row[8:11]] for row in rows] == shown_rows


def test_links_between_documents_lead_somewhere() -> None:
    for document in (*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "studies").rglob("*.md")):
        for target in re.findall(r"\]\((?!http)([^)#]+)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name} links to {target}"


def test_the_demo_runs_on_what_make_demo_installs(tmp_path: Path) -> None:
    command = without(needed_for("dev") - needed_for("report"), ROOT / "examples" / "demo.py")
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=PATIENCE_OF_WORK_S
    )
    assert done.returncode == 0, done.stderr
    assert "a page about all three, to open in a browser: out/demo.html" in done.stdout
    assert "a week of 2,951 jobs on 128 processors" in done.stdout
    table = [line.split() for line in done.stdout.splitlines() if line.startswith(("fcfs", "easy", "conservative"))]
    waits = {args[0]: float(args[1].replace(",", "")) for args in table}
    assert waits["fcfs"] > waits["easy"] > 0
    assert waits["fcfs"] > waits["conservative"] > 0
    assert "the job with the longest wait under conservative" in done.stdout
    page = (tmp_path / "out" / "demo.html").read_text()
    (what_was_run,) = re.findall(r'<table class="what".*?</table>', page, flags=re.DOTALL)
    for policy in ("fcfs", "easy", "conservative"):
        assert f"<td>{policy}\n(pybatsched_schedulers.{policy}:" in what_was_run
        assert f"<span>--policy</span> {policy}</td>" in what_was_run
    assert what_was_run.count("<td>out/demo_week.json\n") == 3


MODULES = [path for name in ("pybatsched", "schedulers", "studies") for path in sorted((ROOT / name).rglob("*.py"))]
WITH_EXAMPLES = [path for path in MODULES if ">>> " in path.read_text()]


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=lambda path: path.stem)
def test_examples_in_docstrings(path: Path) -> None:
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    module = importlib.import_module(name.removeprefix("schedulers."))
    result = doctest.testmod(module)
    assert result.attempted
    assert not result.failed


def test_every_rule_is_documented() -> None:
    """The table of rules in docs/protocol.md names every rule the code can report."""
    message = (ROOT / "docs" / "protocol.md").read_text()
    for module in ("validator", "actions", "requeue", "engine"):
        text = (ROOT / "pybatsched" / "core" / f"{module}.py").read_text()
        for rule in re.findall(r'(?:Violation\(\s*|rule=)"([a-z -]+)"', text):
            assert rule in message, rule


def test_the_paths_of_untrusted_input_name_tests_and_modules_that_exist() -> None:
    page = (ROOT / "tests" / "reliability" / "README.md").read_text().partition("## Paths of untrusted input")[2]
    named = set(re.findall(r"`(test_\w+)`", page))
    there = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)\(", path.read_text(), flags=re.MULTILINE)
    }
    assert len(named) > 25
    assert named <= there, named - there
    modules = {
        ".".join(path.relative_to(ROOT / "pybatsched").with_suffix("").parts)
        for path in MODULES
        if path.is_relative_to(ROOT / "pybatsched")
    }
    cells = [row.split(" | ")[1] for row in page.splitlines() if row.startswith("| ")][1:]
    assert len(cells) > 25
    rooms = {module.partition(".")[0] for module in modules}
    assert {name for cell in cells for name in re.findall(r"`([a-z_.]+)`", cell)} <= modules | rooms


def test_the_page_on_learning_runs(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "learning.md").read_text()
    loop, agent, model = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    exec(compile(loop.replace("examples/", f"{ROOT}/examples/"), "docs/learning.md", "exec"), {})
    compile(model, "docs/learning.md", "exec")
    (tmp_path / "mine.py").write_text(agent)
    content = json.loads((ROOT / "examples" / "workload.json").read_text())
    jobs = Workload.from_json(content)
    mine = testing.run_policy("rl", jobs, 32, agent=f"{tmp_path}/mine.py:shortest", window=128)
    sjf = testing.run_policy("easy", jobs, 32, order="sjf")
    assert {name: job.started_at for name, job in mine.jobs.items()} == {
        name: job.started_at for name, job in sjf.jobs.items()
    }


def test_examples_of_the_page_on_predictions_hold() -> None:
    page = (ROOT / "docs" / "predictions.md").read_text()
    shared: dict[str, object] = {}
    examples = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    for number, example in enumerate(examples, 1):
        exec(compile(example, f"example {number} of docs/predictions.md", "exec"), shared)
    assert len(examples) == 4
    assert all(f"| `{name}` |" in page or f"| [`{name}`]" in page for name in PREDICTORS)
    assert all(f"| `{name}` |" in page for name in CORRECTORS)
    assert [name for name in FEATURES if f"`{name}`" not in page] == []
