"""What `pybatsched cite` prints: the entries of pybatsched, and of what runs, campaigns and studies used."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.citation_files import FILES
from support.places import ROOT
from support.process import run_cli
from support.tables import ALCF

import pybatsched
from pybatsched.campaign import studies
from pybatsched.cli.cite import BATSIM, SIMGRID
from pybatsched.machines.catalogue import MACHINES
from pybatsched.policies import predictions, registry
from pybatsched.version import AUTHORS, TITLE
from pybatsched.workload.formats.files import SETS
from pybatsched.workload.origins import ARCHIVE_PAPER, LUBLIN, origins, references_of

WORKLOAD = str(ROOT / "examples" / "workload.json")
ENTRY = re.compile(r"@(\w+)\{([\w.-]+),\n((?:  .+\n(?:    .+\n)?)+)\}")
FIELD = re.compile(r"^  (\w+) = (\{.*?\}),$", re.MULTILINE | re.DOTALL)


def cited(*paths: object, cwd: Path) -> dict[str, str]:
    """Return what each printed entry is for, by its key."""
    done = run_cli("cite", *map(str, paths), cwd=cwd)
    assert done.returncode == 0, done.stderr
    return {key: why for why, key in re.findall(r"(?:^% (.*)\n)?^@\w+\{([^,]+),", done.stdout, flags=re.MULTILINE)}


def simulate(cwd: Path, *args: str, policy: str = "easy", prefix: str = "run") -> None:
    words = ("--procs", "32", "-w", WORKLOAD, *args, "--policy", policy, "-e", prefix, "-q")
    done = run_cli("simulate", *words, cwd=cwd)
    assert done.returncode == 0, done.stderr


def every_entry() -> list[str]:
    """Return all entries that this distribution can print."""
    own = [run_cli("cite").stdout.strip(), BATSIM, SIMGRID, ARCHIVE_PAPER, LUBLIN]
    own += [entry for name in ("HPC2N-2002-2.2-cln", *SETS) for entry in references_of(name)]
    own += [entry for entries in predictions.references_of("last2 + mean2 + linear").values() for entry in entries]
    policies = [name for name in registry.available() if registry.find(name).origin.startswith("pybatsched_")]
    return [*own, *(entry for name in policies for entry in registry.find(name).cls.references)]


@pytest.mark.parametrize("entry", dict.fromkeys(every_entry()), ids=lambda entry: entry.partition(",")[0])
def test_an_entry_is_complete_bibtex(entry: str) -> None:
    found = ENTRY.fullmatch(entry)
    assert found is not None, entry
    fields = dict(FIELD.findall(found[3]))
    assert len(fields) == found[3].count(" = {"), "each field ends with a comma"
    assert all(value.count("{") == value.count("}") for value in fields.values())
    assert "title" in fields
    assert found[1] == "misc" or {"author", "year"} <= fields.keys()
    assert {"article": "journal", "inproceedings": "booktitle"}.get(found[1], "title") in fields
    assert re.fullmatch(r"\{10\.\d{4,5}/[^\s{}]+\}", fields.get("doi", "{10.1234/x}"))
    assert entry.isascii(), "classic BibTeX reads ASCII"


def test_a_key_means_one_entry() -> None:
    entries = dict.fromkeys(every_entry())
    assert len({entry.partition(",")[0] for entry in entries}) == len(entries)


def test_the_paper_has_the_same_entries() -> None:
    paper = (ROOT / "docs" / "paper" / "paper.bib").read_text().strip().split("\n\n")
    own = {entry.partition(",")[0]: entry for entry in every_entry()}
    shared = [entry for entry in paper if entry.partition(",")[0] in own]
    assert len(shared) >= 8
    assert all(entry == own[entry.partition(",")[0]].strip() for entry in shared)


def test_the_entry_without_a_run_has_the_version(tmp_path: Path) -> None:
    shown = run_cli("cite", cwd=tmp_path).stdout
    assert f"version {pybatsched.__version__}" in shown
    assert f"{{{TITLE}}}" in shown
    assert shown.count("@") == 1


def test_a_run_cites_its_policy_and_batsim(tmp_path: Path) -> None:
    simulate(tmp_path)
    found = cited("run", cwd=tmp_path)
    assert found == {"pybatsched": "", "dutot2016batsim": "simulated: Batsim 4.2.1", "lifka1995anl": "policy easy"}
    assert f"% no entry is known for: workload {WORKLOAD}" in run_cli("cite", "run", cwd=tmp_path).stdout


def test_simgrid_is_cited_for_a_run_with_its_clock(tmp_path: Path) -> None:
    simulate(tmp_path, "--clock", "simgrid")
    assert cited("run", cwd=tmp_path)["casanova2014simgrid"] == "the model of clock and network"


def test_a_run_of_a_real_batsim_cites_batsim_and_simgrid(tmp_path: Path) -> None:
    simulate(tmp_path)
    path = tmp_path / "run_summary.json"
    summary = json.loads(path.read_text())
    del summary["versions"]["behaves_as_batsim"]
    summary["versions"] |= {"batsim": "4.1.0", "pybatsched": "0.1.0"}
    path.write_text(json.dumps(summary))
    found = cited("run", cwd=tmp_path)
    assert found["dutot2016batsim"] == "Batsim 4.1.0"
    assert found["casanova2014simgrid"] == "the models of Batsim"
    assert "version 0.1.0" in run_cli("cite", "run", cwd=tmp_path).stdout


def test_several_runs_share_entries(tmp_path: Path) -> None:
    simulate(tmp_path)
    simulate(tmp_path, policy="conservative", prefix="other")
    assert cited("run", "other", cwd=tmp_path).keys() == {
        "pybatsched",
        "dutot2016batsim",
        "lifka1995anl",
        "mualem2001utilization",
    }


def test_logs_are_cited_by_their_files_also_after_a_conversion(tmp_path: Path) -> None:
    log = tmp_path / "HPC2N-2002-2.2-cln.swf"
    log.write_text(f"; MaxProcs: 4\n1 0 0 10 1 -1 -1 1 20{' -1' * 9}\n")
    assert run_cli("workload", "convert", str(log), "w.json", cwd=tmp_path).returncode == 0
    for name in (log.name, "w.json"):
        args = ("--procs", "4", "-w", name, "--policy", "fcfs", "-e", "run", "-q")
        assert run_cli("simulate", *args, cwd=tmp_path).returncode == 0
        found = cited("run", cwd=tmp_path)
        assert found.keys() == {"pybatsched", "dutot2016batsim", "feitelson2014archive", "HPC2N-2002-2.2-cln"}
        assert "l_hpc2n/" in run_cli("cite", "run", cwd=tmp_path).stdout


def test_a_public_set_is_recognised_by_its_columns(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(ALCF)
    assert run_cli("simulate", "-w", "jobs.csv", "--policy", "fcfs", "-e", "run", "-q", cwd=tmp_path).returncode == 0
    assert cited("run", cwd=tmp_path)["alcf"] == "workload alcf"


def test_origins_of_merged_workloads() -> None:
    parts: list[dict[str, Any]] = [
        {"source": "CTC-SP2-1996-3.1-cln.swf.gz"},
        {"set": "fdata", "source": "21_04.parquet"},
        {"source": "our.swf"},
    ]
    assert origins({"merged": [*parts, {"generated": {"model": "lublin-batch"}}]}, "w.json") == [
        "CTC-SP2-1996-3.1-cln",
        "fdata",
        "our.swf",
        "lublin",
    ]
    assert origins({"source": "SX-ACE-2019.swf.gz"}, "w.json") == ["SX-ACE-2019.swf.gz"]
    others: list[dict[str, Any]] = [{}, {"set": "x"}, {"generated": {"model": "poisson"}}, {"merged": [{}]}]
    assert [origins(other, "w.json") for other in others] == [["w.json"]] * 4


def own_log(path: Path) -> str:
    """Write a log that nobody else has, and return its name."""
    path.write_text(f"; MaxProcs: 4\n1 0 0 10 1 -1 -1 1 20{' -1' * 9}\n")
    return path.name


def test_each_unknown_log_is_named_beside_known_ones(tmp_path: Path) -> None:
    names = [own_log(tmp_path / name) for name in ("HPC2N-2002-2.2-cln.swf", "our.swf")]
    words = [word for name in names for word in ("-w", name)]
    args = ("simulate", "--procs", "4", *words, "--policy", "fcfs", "-e", "run", "-q")
    assert run_cli(*args, cwd=tmp_path).returncode == 0
    simulate(tmp_path, prefix="other")
    shown = run_cli("cite", "run", "other", cwd=tmp_path).stdout
    assert "% workload HPC2N-2002-2.2-cln\n@misc{HPC2N-2002-2.2-cln," in shown
    assert f"% no entry is known for: policy fcfs, workload our.swf, workload {WORKLOAD}\n" in shown


def test_a_campaign_names_its_unknown_logs(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    own_log(tmp_path / "logs" / "our.swf")
    (tmp_path / "c.toml").write_text(
        """
name = "c"
[[workload]]
name = "log"
file = "logs/our.swf"
[[workload]]
name = "both"
merge = [{ name = "a", file = "logs/our.swf" }, { name = "b", file = "logs/HPC2N-2002-2.2-cln.swf" }]
[[platform]]
name = "curie"
platform = "curie"
[[policy]]
name = "easy"
options = { predict = "mean2" }
"""
    )
    own_log(tmp_path / "logs" / "HPC2N-2002-2.2-cln.swf")
    assert run_cli("campaign", "run", "c.toml", "--output", "out", "--workers", "1", "-q", cwd=tmp_path).returncode == 0
    found = cited("out", cwd=tmp_path)
    assert found.keys() >= {"feitelson2014archive", "HPC2N-2002-2.2-cln", "lifka1995anl", "CEA-Curie-2011-2.1-cln"}
    assert found["gaussier2015improving"] == "predictor mean2"
    assert run_cli("cite", "out", cwd=tmp_path).stdout.endswith("\n% no entry is known for: workload our.swf\n")


@pytest.mark.parametrize(
    ("platform", "machine", "key"),
    [
        ("sx-ace", "sx-ace", "agung2021preemptive"),
        ("rackham-node@0.1", "rackham", "gonthier2024locality"),
        (str(ROOT / "platforms" / "grid-pwa-core.xml"), "grid-pwa", "caniou2011reallocation"),
    ],
)
def test_a_known_machine_is_cited(platform: str, machine: str, key: str, tmp_path: Path) -> None:
    args = ("simulate", "-p", platform, "-w", WORKLOAD, "--policy", "fcfs", "-e", "run", "-q")
    assert run_cli(*args, cwd=tmp_path).returncode == 0
    assert cited("run", cwd=tmp_path)[key] == f"machine {machine}"


def test_each_machine_says_what_to_cite() -> None:
    policies = registry.available()
    for machine in MACHINES:
        assert machine.references
        for one in machine.references:
            assert registry.find(one).cls.references if one in policies else references_of(one), machine.name


def test_predictors_are_cited(tmp_path: Path) -> None:
    simulate(tmp_path, "-o", "predict=min(last2, linear)")
    found = cited("run", cwd=tmp_path)
    assert {key: why for key, why in found.items() if why.startswith("predictor")} == {
        "tsafrir2007backfilling": "predictor last2",
        "ross2013normalized": "predictor linear",
        "gaussier2015improving": "predictor linear",
    }
    (tmp_path / "mine.py").write_text("import pybatsched as pb\nclass Last2(pb.Predictor): pass\n")
    simulate(tmp_path, "-o", "predict=mine.py:Last2")
    assert cited("run", cwd=tmp_path).keys() == {"pybatsched", "dutot2016batsim", "lifka1995anl"}
    assert "predictor mine.py:Last2" in run_cli("cite", "run", cwd=tmp_path).stdout


POLICY = """
from pybatsched import Policy, ExecuteJob

class Mine(Policy):
    references = ("@misc{mine, title = {My policy}, year = {2026}}",)

    def on_begin(self, cluster):
        self.machine, self.waiting = cluster.add_partition("all", cluster.procs), []

    def on_job_submitted(self, job, now):
        self.waiting.append(job)

    def decide(self, now):
        while self.waiting and self.waiting[0].n_procs <= self.machine.n_free:
            job = self.waiting.pop(0)
            yield ExecuteJob(job.id, self.machine.free.first(job.n_procs))
"""


def test_the_references_of_a_policy_in_a_file_are_kept_with_the_run(tmp_path: Path) -> None:
    """They are in the summary: `cite` does not run the code of a file that a summary names."""
    file = tmp_path / "mine.py"
    file.write_text(POLICY)
    simulate(tmp_path, policy="mine.py:Mine")
    file.unlink()
    assert cited("run", cwd=tmp_path)["mine"] == "policy mine.py:Mine"


def test_references_that_are_not_bibtex_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(POLICY.replace("@misc{mine, title = {My policy}, year = {2026}}", "Mine, 2026"))
    simulate(tmp_path, policy="mine.py:Mine")
    done = run_cli("cite", "run", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == (
        "pybatsched: policy mine.py:Mine: references: expected an entry in BibTeX such as @article{key, title = "
        "{...}}, found 'Mine, 2026'\n"
    )


def test_a_campaign_cites_all_of_its_cells(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(
        """
name = "c"
[[workload]]
name = "random"
generate = { model = "lublin", procs = 8, jobs = 20 }
[[platform]]
name = "own"
of_workload = true
[[policy]]
name = "easy"
[[policy]]
name = "dbf"
"""
    )
    assert run_cli("campaign", "run", "c.toml", "--output", "out", "--workers", "1", "-q", cwd=tmp_path).returncode == 0
    assert cited("out", cwd=tmp_path) == {
        "pybatsched": "",
        "dutot2016batsim": "simulated: Batsim 4.2.1",
        "lifka1995anl": "policy easy",
        "lublin2003workload": "workload lublin",
        "ntakpe2016prise": "policy dbf",
    }
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    manifest["command"] = "pybatsched reproduce backfilling --quick"
    (tmp_path / "out" / "manifest.json").write_text(json.dumps(manifest))
    assert cited("out", cwd=tmp_path)["ntakpe2016prise"] == "study backfilling, policy dbf"


def test_each_study_says_what_to_cite() -> None:
    for name in studies.names():
        for one in studies.read_study(name).references or ("",):
            assert registry.find(one).cls.references, f"{name}: {one}"


def test_runs_that_cannot_be_cited_are_errors(tmp_path: Path) -> None:
    done = run_cli("cite", "nothing", cwd=tmp_path)
    assert done.returncode == 2
    assert "nothing_summary.json" in done.stderr
    simulate(tmp_path)
    path = tmp_path / "run_summary.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"policy": "easy"}))
    done = run_cli("cite", "run", cwd=tmp_path)
    assert done.returncode == 2
    assert (
        done.stderr
        == "pybatsched: run: expected the summary of a run; Expected `object | null`, got `str` - at `$.policy`\n"
    )


def test_a_run_that_is_not_finished_is_an_error(tmp_path: Path) -> None:
    simulate(tmp_path)
    path = tmp_path / "run_state.json"
    for file in {*tmp_path.glob("run_*")} - {path}:
        file.rename(tmp_path / file.name.replace("run_", "run.part_"))
    path.write_text(json.dumps(json.loads(path.read_text()) | {"state": "running"}))
    done = run_cli("cite", "run", cwd=tmp_path)
    assert done.returncode == 7
    assert "expected a finished run" in done.stderr


def test_the_files_for_citations_have_the_facts_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == pybatsched.__version__
    assert f"{project['name']}: {project['description']}" == TITLE
    assert AUTHORS in (ROOT / "LICENSE").read_text()
    for name, made in FILES.items():
        assert (ROOT / name).read_text() == made(), f"{name} differs from the package; run `make api`"
    cff = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    codemeta = json.loads((ROOT / "codemeta.json").read_text())
    assert (cff["title"], cff["version"], cff["license"]) == (TITLE, project["version"], project["license"])
    assert (codemeta["version"], codemeta["keywords"]) == (project["version"], project["keywords"])
    assert cff["authors"] == [{"name": AUTHORS}]
