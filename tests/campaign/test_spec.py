"""The campaign file: accepted content, errors, and the cells that follow from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.places import ROOT

from pybatsched.campaign import cells
from pybatsched.campaign.all_cells import points_of
from pybatsched.campaign.cells import Cell, cells_of, effective_seed
from pybatsched.campaign.prepare import Prepared, Preparer
from pybatsched.campaign.spec import PolicyTable, Spec, read_spec, spec_of
from pybatsched.campaign.store import Store
from pybatsched.errors import InputError

MINE = "from pybatsched import Policy\n\n\nclass Mine(Policy):\n    def decide(self, now):\n        return ()\n"


def content(**changes: Any) -> dict[str, Any]:
    return {
        "name": "trial",
        "workload": [{"name": "w", "file": "workload.json"}],
        "platform": [{"name": "p", "procs": 32}],
        "policy": [{"name": "easy"}],
    } | changes


def points(spec: Spec, folder: Path) -> list[tuple[dict[str, Any], Cell]]:
    with Store(folder) as store:
        return points_of(spec, store, [ROOT / "examples"])


def of_file(**more: Any) -> dict[str, Any]:
    return {"workload": [{"name": "w", "file": "f", **more}]}


def drawn(**more: Any) -> dict[str, Any]:
    return {"workload": [{"name": "w", "generate": {"procs": 8, "jobs": 9}, **more}]}


def merged(*logs: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"workload": [{"name": "w", "merge": [{"name": "a", "file": "f", **log} for log in logs or ({},)], **more}]}


def machine(**members: Any) -> dict[str, Any]:
    return {"platform": [{"name": "p", **members}]}


def easy(**members: Any) -> dict[str, Any]:
    return {"policy": [{"name": "easy", **members}]}


def chart(**members: Any) -> dict[str, Any]:
    return {"chart": [{"figure": "f", **members}]}


NAME = "name: expected letters, digits and . _ + -, a letter or digit first"
TIME = "expected seconds, or a number with m, h, d or w"
TWICE = "two entries have this label and the same options on"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        *(
            ({"name": name}, f"{NAME}, at most 80 characters, found {shown}")
            for name, shown in (("a/b", "'a/b'"), ("my study", "'my study'"), ("-a", "'-a'"), ("", "''"), ("a\n", "'a"))
        ),
        (machine(name="a b", procs=4), f"platform 1: {NAME}"),
        ({"colour": "red"}, "unknown key 'colour'; expected one of format, name,"),
        ({"workload": []}, "workload: expected a list of at least 1 value, found []"),
        ({"workload": [{"name": "w"}]}, "workload 1: expected one of file, merge and generate"),
        (of_file(walltimes="long"), "workload 1: walltimes: expected one of exact"),
        (drawn(generate={"procs": 8, "model": "x"}), "model: expected one of lublin"),
        (drawn(generate={"procs": 8}, weeks={}), "weeks: works only with file"),
        (of_file(deadlines={}), "deadlines: expected either every or share"),
        ({"workload": of_file()["workload"] * 2}, "workload: the name 'w' is used twice; expected unique names"),
        (machine(), "platform 1: expected one of procs, platform, nodes and of_workload = true, found none of them"),
        (machine(procs=0), "platform 1: procs: expected a whole number from 1 to 10,000,000, found 0"),
        (machine(procs=10**11), "platform 1: procs: expected a whole number from 1 to 10,000,000, found 100000000000"),
        (machine(of_workload="yes"), "platform 1: of_workload: expected true or false, found 'yes'"),
        (machine(of_workload=True, alpha=0.999), "platform 1: alpha: expected at most 0.99"),
        (machine(platform="curie", alpha=0.1), "alpha: works only with procs or of_workload"),
        (of_file(feedback=1), "workload 1: feedback: expected true or false, found 1"),
        (
            easy(reservations="r.toml", host_reservations="r.toml"),
            "s.toml: policy 1: reservations: expected one value, found both reservations and host_reservations",
        ),
        (easy(label=5), "s.toml: policy 1: label: expected a text, found 5"),
        ({"policy": [{"label": "x"}]}, "s.toml: policy 1: name is missing; expected the name of a policy"),
        (easy(given_by="x"), "s.toml: policy 1: unknown key 'given_by'; expected one of name, config, reservations, "),
        (easy(options={"order": []}), "order: expected a value, or a list of at least one value"),
        (easy(platforms=["nowhere"]), "policy easy: no platform is named 'nowhere'"),
        (easy(workloads=["none"]), "policy easy: no workload is named 'none'"),
        ({"policy": [{"name": "r", "options": {"t": t}} for t in ([1, 2], 2)]}, f"policy r: {TWICE}"),
        ({"policy": easy()["policy"] * 2}, f"policy easy: {TWICE}"),
        (easy(options={"t": float("nan")}), "t: expected a number, found nan"),
        ({"chart": [{"by": "policy"}]}, "chart 1: figure is missing; expected a text"),
        (chart(scale="root"), "chart 1: scale: expected one of auto, log, linear"),
        (chart(by="colour"), "chart 1: by: no policy has an option 'colour'; expected one of policy, platform"),
        (
            {"chart": chart()["chart"] + chart(where={"colour": 1})["chart"]},
            "chart 2: where: no policy has an option 'colour'; expected one of platform, policy, workload",
        ),
        (chart(where={"policy": ["e*", "fcfs"]}), "chart 1: where: no policy is named 'fcfs'; expected one of easy"),
        (chart(where={"workload": "v"}), "where: no workload is named 'v'; expected one of w"),
        (chart(each="user"), "each: the campaign has no figures by 'user'; expected a member each in the campaign"),
        (
            {"each": ["queue", "size"], **chart(each="user")},
            "chart 1: each: the campaign has no figures by 'user'; expected one of queue, size",
        ),
        ({"each": [""]}, "each 1: expected a text that is not empty, found ''"),
        (chart(over="fcfs"), "chart 1: over: no policy is named 'fcfs'; expected one of easy"),
        (drawn(memory_unit="MB"), "workload 1: memory_unit: cannot be used with generate"),
        (drawn(run_times="cut"), "workload 1: run_times: cannot be used with generate"),
        (drawn(timezone="UTC"), "workload 1: timezone: cannot be used with generate"),
        (drawn(**{"from": 0}), "workload 1: from: cannot be used with generate"),
        (of_file(size="largest"), "workload 1: size: expected one of allocated, requested"),
        (of_file(memory_unit="mb"), "workload 1: memory_unit: expected one of KB, MB, GB"),
        (of_file(size_in="sockets"), "workload 1: size_in: expected one of cores, nodes, gpus"),
        (of_file(jobs=5), "s.toml: workload 1: unknown key 'jobs'; expected each of its settings as a key"),
        (machine(procs=4, machine={"mmax": 1}), "s.toml: platform 1: unknown key 'machine'; expected each of its"),
        ({"run": {"stop_at": 3}, "tau_s": 5}, "s.toml: unknown key 'run'; expected each of its settings as a key"),
        (of_file(timezone="Mars"), "timezone: expected a name of the time zone database, such as Europe/Paris or UTC"),
        (
            of_file(urgent={"jobs": [[4, 60, 0], [4, 60]]}),
            "workload 1: urgent.jobs 2: expected [processors, seconds, instant], such as [256, 390, 86400], found [4, ",
        ),
        (of_file(urgent={"jobs": [[4, 60, "soon"]]}), f"workload 1: urgent.jobs 1: instant: {TIME}"),
        (merged(file="f"), "workload 1: expected one of file, merge and generate"),
        (merged({}, {"file": "g"}), "workload 1: merge: the name 'a' is used twice; expected unique names"),
        (
            merged({"name": "w1"}),
            'workload 1: merge 1: name: name "w1": expected a name without w1, which is a workload\'s name in Batsim',
        ),
        (merged({"size": 3}), "workload 1: merge 1: unknown key 'size'; expected one of name, file, procs"),
        (merged(procs=3), "workload 1: procs: expected in each log of merge, not in the workload"),
        (merged(external=1.1), "workload 1: external: expected at most 1"),
        (of_file(external=0.5), "workload 1: external: works only with merge"),
        (of_file(**{"from": "soon"}), f"workload 1: from: {TIME} as in 12h, found 'soon'"),
        (of_file(**{"from": "2d", "to": 7}), "workload 1: to 7: expected a time after from 172800"),
        (of_file(to=-1), f"workload 1: to: {TIME} as in 12h, found -1"),
        (of_file(weeks={}, to="2w"), "workload 1: weeks: works only with file, and without from and to"),
        ({"where": {"external": False}}, "where: works only with baseline (where selects the compared jobs)"),
        ({"baseline": "fcfs"}, "baseline: no policy is named 'fcfs'; expected one of easy"),
        (
            {"baseline": "easy", **easy(options={"order": ["fcfs", "sjf"]})},
            "baseline: 'easy' has several settings; expected one",
        ),
        (
            {
                "baseline": "b",
                "policy": [{"name": "easy", "label": "b"}, {"name": "fcfs", "label": "b", "options": {"x": 1}}],
            },
            "baseline: 'b' has several settings",
        ),
        ({"baseline": "easy", "where": {"size": float("nan")}}, "where: size: expected a number, found nan"),
        ({"repeats": 10**9}, "the campaign has up to 1,000,000,000 points; expected at most 1,000,000"),
        ({"tau_s": float("inf")}, "tau_s: expected seconds, 0 or more, found inf"),
        ({"seeds": [1, 1]}, "seeds: 1 is given twice; expected different seeds"),
        (of_file(seeds=[0, 7]), "workload w, seeds: 7 is not a seed of the campaign"),
        ({"seeds": [-1]}, "seeds 1: expected 0 or more"),
        ({"repeats": 0}, "repeats: expected more than 0"),
        ({"format": 2}, "format: expected 1"),
    ],
)
def test_wrong_files_name_the_member(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as error:
        spec_of(content(**changes), "s.toml")
    assert str(error.value).startswith("s.toml: ")
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [("x = ", "expected TOML"), ("a = 1\na = 2", "expected TOML"), (f"a = {'9' * 5000}", "expected TOML")],
)
def test_invalid_toml_is_an_input_error(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read_spec(path)
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_spec(tmp_path / "none.toml")


def test_options_are_a_grid() -> None:
    policy = PolicyTable.model_validate({"name": "x", "options": {"a": [1, 2], "b": "y", "c": [[3, 4]]}})
    assert list(policy.settings()) == [{"a": 1, "b": "y", "c": [3, 4]}, {"a": 2, "b": "y", "c": [3, 4]}]


def test_a_list_of_reservations_is_one_value() -> None:
    tables = [
        {"name": "a", "start": 0, "duration": 5, "hosts": 1},
        {"name": "b", "start": 9, "duration": 5, "hosts": 1},
    ]
    one = PolicyTable.model_validate({"name": "x", "options": {"host_reservations": tables, "b": [1, 2]}})
    assert list(one.settings()) == [{"host_reservations": tables, "b": 1}, {"host_reservations": tables, "b": 2}]
    several = PolicyTable.model_validate({"name": "x", "options": {"host_reservations": [tables, tables[:1]]}})
    assert list(several.settings()) == [{"host_reservations": tables}, {"host_reservations": tables[:1]}]


def test_charts_are_kept_and_cost_no_run(tmp_path: Path) -> None:
    weeks = {"name": "log", "file": "log.swf", "weeks": {}}
    policy = {"name": "redirection", "options": {"theta": [10, float("inf")]}}
    chart = {"figure": "mean_wait_s", "by": "theta", "where": {"theta": [float("inf"), [1, 2]], "policy": "re*"}}
    spec = spec_of(content(policy=[policy], chart=[chart]), "s")
    assert spec.model_dump(mode="json")["chart"][0]["where"] == {"theta": ["inf", [1, 2]], "policy": "re*"}
    addresses = [cell.address for _, cell in points(spec, tmp_path)]
    assert addresses == [cell.address for _, cell in points(spec_of(content(policy=[policy]), "s"), tmp_path)]
    spec_of(content(workload=[weeks], chart=[{"figure": "f", "where": {"workload": "log-week0[1-3]"}}]), "s")


def test_points_come_in_the_order_of_the_file(tmp_path: Path) -> None:
    spec = spec_of(
        content(
            platform=[{"name": "small", "procs": 32}, {"name": "own", "of_workload": True, "alpha": 0.2}],
            policy=[{"name": "easy", "options": {"order": ["fcfs", "sjf"]}}, {"name": "fcfs", "label": "first"}],
        ),
        "s",
    )
    found = points(spec, tmp_path)
    rows = [(point["platform"], point["policy"], point["options"], cell.machine["n_procs"]) for point, cell in found]
    assert rows == [
        ("small", "easy", {"order": "fcfs"}, 32),
        ("small", "easy", {"order": "sjf"}, 32),
        ("small", "first", {}, 32),
        ("own", "easy", {"order": "fcfs"}, 40),
        ("own", "easy", {"order": "sjf"}, 40),
        ("own", "first", {}, 40),
    ]
    assert len({cell.address for _, cell in found}) == 6


def test_seeds_that_nothing_depends_on_share_a_cell(tmp_path: Path) -> None:
    drawn = {"name": "d", "generate": {"procs": 16, "jobs": 5}}
    spec = spec_of(content(seeds=[1, 2], workload=[{"name": "w", "file": "workload.json"}, drawn]), "s")
    found = points(spec, tmp_path)
    addresses = {name: {c.address for p, c in found if p["workload"] == name} for name in ("w", "d")}
    assert {name: len(found) for name, found in addresses.items()} == {"w": 1, "d": 2}


def test_a_workload_may_be_tried_with_some_seeds_only(tmp_path: Path) -> None:
    drawn = {"generate": {"procs": 8, "jobs": 3}}
    workloads = [{"name": "often", **drawn}, {"name": "once", **drawn, "seeds": [2]}]
    spec = spec_of(content(seeds=[1, 2, 3], repeats=2, workload=workloads), "s")
    found = [(point["workload"], point["seed"], point["repeat"]) for point, _ in points(spec, tmp_path)]
    assert [place for place in found if place[0] == "once"] == [("once", 2, 0), ("once", 2, 1)]
    assert len(found) == 6 + 2


def test_each_repeat_has_its_own_seed(tmp_path: Path) -> None:
    assert effective_seed(7, 0) == 7
    assert effective_seed(7, 1) == effective_seed(7, 1) != effective_seed(7, 2) != effective_seed(8, 2)
    spec = spec_of(content(repeats=3, workload=[{"name": "d", "generate": {"procs": 16, "jobs": 5}}]), "s")
    assert len({cell.address for _, cell in points(spec, tmp_path)}) == 3


@pytest.mark.parametrize(
    "changes",
    [
        {"tau_s": 60.0},
        {"keep": "jobs"},
        {"platform": [{"name": "p", "procs": 33}]},
        {"policy": [{"name": "easy", "options": {"order": "sjf"}}]},
        {"policy": [{"name": "fcfs"}]},
        {"workload": [{"name": "w", "file": "workload.json", "walltimes": "exact"}]},
        {"workload": [{"name": "w", "file": "workload.json", "deadlines": {"every": 3}}]},
    ],
)
def test_the_cell_address_depends_on_all_inputs_of_the_result(changes: dict[str, Any], tmp_path: Path) -> None:
    ((_, before),) = points(spec_of(content(), "s"), tmp_path)
    ((_, after),) = points(spec_of(content(**changes), "s"), tmp_path)
    assert before.address != after.address


def test_the_cell_address_does_not_depend_on_names(tmp_path: Path) -> None:
    ((_, before),) = points(spec_of(content(), "s"), tmp_path / "a")
    other = content(
        name="other", workload=[{"name": "v", "file": "workload.json"}], policy=[{"name": "easy", "label": "x"}]
    )
    ((_, after),) = points(spec_of(other, "s"), tmp_path / "b")
    assert before.address == after.address


def test_the_cell_address_depends_on_the_code_of_the_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def address(text: str) -> str:
        path = tmp_path / "mine.py"
        path.write_text(text)
        cells._policy_digest.cache_clear()
        ((_, cell),) = points(spec_of(content(policy=[{"name": f"{path}:Mine"}]), "s"), tmp_path / "c")
        return cell.address

    assert address(MINE) != address(MINE + "# another\n")
    assert address(MINE) == address(MINE)


def test_files_are_looked_for_beside_the_campaign_and_then_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside, here = tmp_path / "study", tmp_path / "here"
    xml = (ROOT / "platforms" / "cluster32.xml").read_text()
    for folder in (beside, here):
        (folder / "parts").mkdir(parents=True)
    monkeypatch.chdir(here)
    given = content(platform=[{"name": "p", "platform": "parts/machine.xml"}], policy=[{"name": "parts/mine.py:Mine"}])
    spec = spec_of(given, "s")

    def cell() -> Cell:
        cells._policy_digest.cache_clear()
        cells._machine_digest.cache_clear()
        with Store(tmp_path / "out") as store:
            ((point, found),) = points_of(spec, store, [ROOT / "examples"], beside)
        assert point["policy"] == "parts/mine.py:Mine"  # as the file says it
        return found

    with pytest.raises(InputError) as error:
        cell()
    assert f"platform parts/machine.xml: no such file in {beside}, {here}, and no machine" in str(error.value)
    (here / "parts" / "machine.xml").write_text(xml)
    with pytest.raises(InputError) as error:
        cell()
    assert str(error.value) == f"policy 1: policy parts/mine.py:Mine: no such file in {beside}, {here}"
    (here / "parts" / "mine.py").write_text(MINE)
    first = cell()
    assert (first.machine["platform"], first.policy["policy"]) == (
        f"{here}/parts/machine.xml",
        f"{here}/parts/mine.py:Mine",
    )
    (beside / "parts" / "machine.xml").write_text(xml)
    (beside / "parts" / "mine.py").write_text(MINE)
    same = cell()
    assert (same.machine["platform"], same.policy["policy"]) == (
        f"{beside}/parts/machine.xml",
        f"{beside}/parts/mine.py:Mine",
    )
    assert same.address == first.address  # what is in them counts, not where they lie
    (beside / "parts" / "machine.xml").write_text(xml + "<!-- another -->\n")
    other_machine = cell().address
    (beside / "parts" / "mine.py").write_text(MINE + "# another\n")
    assert len({first.address, other_machine, cell().address}) == 3


def test_policies_with_the_same_file_name_differ(tmp_path: Path) -> None:
    found = []
    for text in (MINE, MINE + "# another\n"):
        for folder in ("a", "b"):
            (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / "a" / "mine.py").write_text(MINE)
        (tmp_path / "b" / "mine.py").write_text(text)
        cells._policy_digest.cache_clear()
        spec = spec_of(content(policy=[{"name": f"{folder}/mine.py:Mine"} for folder in ("a", "b")]), "s")
        with Store(tmp_path / "out") as store:
            found.append([cell.address for _, cell in points_of(spec, store, [ROOT / "examples"], tmp_path)])
    assert found[0][0] == found[0][1] == found[1][0] != found[1][1]


def test_options_that_a_policy_does_not_have(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="colour"):
        points(spec_of(content(policy=[{"name": "easy", "options": {"colour": "red"}}]), "s"), tmp_path)


def test_the_cell_address_depends_on_files_beside_the_policy(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    found = []
    for text in ("A = 1\n", "A = 2\n"):
        (tmp_path / "neighbour.py").write_text(text)
        cells._policy_digest.cache_clear()
        ((_, cell),) = points(spec_of(content(policy=[{"name": f"{tmp_path}/mine.py:Mine"}]), "s"), tmp_path / "c")
        found.append(cell.address)
    assert found[0] != found[1]


def test_errors_of_platforms_have_their_number(tmp_path: Path) -> None:
    wrong = {"name": "b", "platform": "ricc-node@0.01", "units": "pset"}
    spec = spec_of(content(platform=[{"name": "a", "procs": 4}, wrong]), "s")
    with pytest.raises(InputError) as caught:
        points(spec, tmp_path)
    assert str(caught.value).startswith("platform 2: units pset: expected a platform with a pset per host, found ricc-")


def test_a_missing_log_says_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"workload file log\.swf: not found in .*; use `--traces DIR` or set PYBATS"):
        points(spec_of(content(workload=[{"name": "w", "file": "log.swf"}]), "s"), tmp_path)


def test_infinity_is_stored_as_a_string_in_json() -> None:
    policy = PolicyTable.model_validate({"name": "redirection", "options": {"theta": [1, float("inf")]}})
    assert list(policy.settings()) == [{"theta": 1}, {"theta": "inf"}]


def test_a_policy_may_be_tried_on_some_platforms_only() -> None:
    spec = spec_of(
        content(
            platform=[{"name": "small", "procs": 4}, {"name": "large", "procs": 8}],
            policy=[{"name": "easy"}, {"name": "fcfs", "platforms": ["large"]}],
        ),
        "s.toml",
    )
    ready = [Prepared("w", "w.json", "digest", 4)]
    prepared = {(seed, name): ready for seed in spec.seeds for name in ("small", "large")}
    found = [(platform.name, cell.policy["policy"]) for platform, cell in cells_of(spec, prepared)]
    assert found == [("small", "easy"), ("large", "easy"), ("large", "fcfs")] * len(spec.seeds)


def test_a_policy_limited_to_a_workload_runs_on_all_its_weeks() -> None:
    spec = spec_of(
        content(
            workload=[{"name": "log", "file": "log.swf"}, {"name": "drawn", "generate": {"procs": 4, "jobs": 9}}],
            policy=[
                {"name": "easy", "options": {"order": "sjf"}, "workloads": ["drawn"]},
                {"name": "easy", "options": {"order": ["fcfs", "sjf"]}, "workloads": ["log"]},
            ],
        ),
        "s.toml",
    )
    ready = [Prepared("log-week01", "1.json", "1", 4, "log"), Prepared("drawn", "d.json", "d", 4, "drawn")]
    found = [(cell.workload["name"], cell.options["order"]) for _, cell in cells_of(spec, {(0, "p"): ready})]
    assert found == [("log-week01", "fcfs"), ("log-week01", "sjf"), ("drawn", "sjf")]


def test_a_prepared_workload_keeps_its_name_from_the_file(tmp_path: Path) -> None:
    with Store(tmp_path / "out") as store:
        spec = spec_of(content(), "s.toml")
        (ready,) = Preparer(store.prepared, [ROOT / "examples"]).prepare(spec.workload[0], 0)
        (again,) = Preparer(store.prepared, [ROOT / "examples"]).prepare(spec.workload[0], 0)
    assert ready.family == again.family == "w"


def test_one_mistake_gives_one_line() -> None:
    with pytest.raises(InputError) as raised:
        spec_of(content(workload=[{"name": "w", "file": "w.json", "zork": 1}]), "s.toml")
    assert str(raised.value).startswith("s.toml: workload 1: unknown key 'zork'; expected one of name, file, ")
    assert "\n" not in str(raised.value)


def test_all_mistakes_are_listed_up_to_five() -> None:
    wrong: dict[str, Any] = {
        "sedes": [1],
        "seeds": "three",
        "repeats": 0,
        "workload": [{}],
        "tau_s": "x",
        "keep": "all",
    }
    with pytest.raises(InputError) as raised:
        spec_of(content(**wrong), "s.toml")
    assert str(raised.value).splitlines() == [
        "s.toml: workload 1: name is missing; expected a text",
        "s.toml: seeds: expected a list of whole numbers such as [1, 2, 3], found 'three'",
        "s.toml: repeats: expected more than 0, found 0",
        "s.toml: tau_s: expected seconds, 0 or more, found 'x'",
        "s.toml: keep: expected one of figures, jobs, files, found 'all'",
        "s.toml: and 1 more",
    ]
    with pytest.raises(InputError, match=r"^s\.toml: unknown key 'sedes'; did you mean 'seeds'\?$"):
        spec_of(content(sedes=[1]), "s.toml")


def test_errors_of_policy_options_name_the_campaign(tmp_path: Path) -> None:
    spec = spec_of(content(policy=[{"name": "easy", "options": {"zz": 1}}]), "s.toml")
    prepared = {(seed, "p"): [Prepared("w", "w.json", "digest", 4)] for seed in spec.seeds}
    with pytest.raises(InputError, match=r"^policy 1: policy easy: unknown option 'zz' \(from the campaign\)"):
        list(cells_of(spec, prepared))


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.toml")), ids=lambda path: path.stem)
def test_the_example_campaigns_are_valid(path: Path) -> None:
    spec = read_spec(path)
    ready = [Prepared("w", "w.json", "digest", 93_312)]
    prepared = {(seed, platform.name): ready for seed in spec.seeds for platform in spec.platform}
    assert list(cells_of(spec, prepared, path.parent))  # options checked, too
