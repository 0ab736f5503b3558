"""docs/settings.md: its tables are those of the code, and each setting can be given in all three ways."""

from __future__ import annotations

import re

import pytest
from support.api_tables import names_of, with_tables
from support.places import ROOT
from support.setting_tables import ELSEWHERE, TABLES, VALUES, of_campaigns, places, tables

from pybatsched.runs.spec import RECORDS, MachineSpec, WorkloadSpec
from pybatsched.settings import Checked

DOCS = ROOT / "docs"
PAGE = (DOCS / "settings.md").read_text(encoding="utf-8")


def test_the_tables_are_those_of_the_code() -> None:
    assert {*TABLES, *VALUES} == {*RECORDS}
    assert sorted(names_of(PAGE)) == sorted(tables())
    assert with_tables(PAGE, tables()) == PAGE, "docs/settings.md is not what the code says: run make api"


def test_the_table_of_batch_jobs_is_that_of_the_code() -> None:
    page = (DOCS / "campaigns.md").read_text(encoding="utf-8")
    assert names_of(page) == ["batchspec"]
    assert with_tables(page, of_campaigns()) == page, "docs/campaigns.md is not what the code says: run make api"


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_each_setting_can_be_given_in_commands_python_and_campaigns(record: type[Checked]) -> None:
    """The list of exceptions has no setting that can be given."""
    missing = {
        (record, name, kind)
        for name in record.settings()
        for kind, place in places(record, name).items()
        if not any(place)
    }
    assert missing == {one for one in ELSEWHERE if one[0] is record}


def test_a_setting_has_the_meaning_of_its_own_record() -> None:
    """The option --procs and the keyword n_procs are two settings: of the machine of a run, and of a workload."""
    of_machine, of_workload = places(MachineSpec, "n_procs"), places(WorkloadSpec, "n_procs")
    assert of_machine["option"].takers == ("simulate",)
    assert of_machine["Python"].takers == ("simulate", "Simulation", "SchedulingEnv")
    assert of_workload["option"].takers == ("convert",)
    assert of_workload["Python"].takers == ("read_workload",)


@pytest.mark.parametrize(
    "page",
    ["../README", "commands", "python", "campaigns", "simulator", "workloads", "experiments", "faults", "learning"],
)
def test_pages_about_settings_link_to_the_table(page: str) -> None:
    assert re.search(r"\]\((docs/)?settings\.md[#)]", (DOCS / f"{page}.md").read_text(encoding="utf-8"))
