"""Batsim's workload files: accepted and rejected as by Batsim, with the place of the error."""

from __future__ import annotations

import copy
import gzip
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from support.places import GOLDEN, ROOT

from pybatsched.errors import InputError
from pybatsched.workload.formats import batsim4
from pybatsched.workload.model import Workload

GOOD: dict[str, Any] = {
    "nb_res": 4,
    "jobs": [{"id": "a", "subtime": 0, "res": 2, "profile": "d"}, {"id": 7, "subtime": 1.5, "res": 1, "profile": "c"}],
    "profiles": {
        "d": {"type": "delay", "delay": 5},
        "p": {"type": "parallel", "cpu": [1e9, 0], "com": [0, 1, 2, 0]},
        "h": {"type": "parallel_homogeneous", "cpu": 1e9, "com": 0, "ret": 3},
        "t": {"type": "parallel_homogeneous_total", "cpu": 1e9, "com": 5.5},
        "c": {"type": "composed", "seq": ["d", "inner"], "repeat": 2},
        "inner": {"type": "composed", "seq": ["h", "d"]},
    },
}


def written(path: Path, content: Any) -> Path:
    file = path / "w.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return file


def changed(*keys: Any, value: Any) -> dict[str, Any]:
    """Return the good workload with one value replaced, or left out (value `...`)."""
    content = copy.deepcopy(GOOD)
    place: Any = content
    for key in keys[:-1]:
        place = place[key]
    if value is ...:
        del place[keys[-1]]
    else:
        place[keys[-1]] = value
    return content


def refusal(path: Path, content: Any) -> str:
    file = written(path, content)
    with pytest.raises(InputError) as caught:
        batsim4.read(file)
    text = str(caught.value)
    assert text.startswith(f"{file}: "), text
    return text.removeprefix(f"{file}: ")


def test_a_valid_file_is_read_unchanged(tmp_path: Path) -> None:
    file = written(tmp_path, {**GOOD, "version": 3, "command": "make"})
    assert batsim4.read(file) == Workload(
        GOOD["jobs"], GOOD["profiles"], 4, str(file), {"version": 3, "command": "make"}
    )


@pytest.mark.skipif(not GOLDEN.exists(), reason="the recordings are not at hand (PYBATSCHED_GOLDEN)")
def test_all_files_that_batsim_loaded_are_loaded() -> None:
    paths = sorted((GOLDEN / "v4").glob("*/workload*.json"))
    assert len(paths) > 100
    for path in paths:
        content = json.loads(path.read_text())
        read = batsim4.read(path)
        assert (read.n_procs, read.jobs, read.profiles) == (content["nb_res"], content["jobs"], content["profiles"])


def test_the_example_is_loaded() -> None:
    assert len(batsim4.read(ROOT / "examples" / "workload.json").jobs) == 30


@pytest.mark.parametrize(
    ("keys", "value", "message"),
    [
        (("nb_res",), ..., "member nb_res: expected a whole number of processors, more than 0, found nothing"),
        (("nb_res",), 0, "member nb_res: expected a whole number of processors, more than 0, found 0"),
        (("nb_res",), 4.0, "member nb_res: expected a whole number of processors, more than 0, found 4.0"),
        (("nb_res",), True, "member nb_res: expected a whole number of processors, more than 0, found true"),
        (("jobs",), ..., "member jobs: expected an array of jobs, found nothing"),
        (("jobs",), {}, "member jobs: expected an array of jobs, found {}"),
        (("profiles",), [], "member profiles: expected an object of profiles by name, found []"),
        (("jobs", 0), 3, "jobs[0]: expected an object, found 3"),
        (("jobs", 0, "id"), ..., "jobs[0].id: expected a text or an integer, found nothing"),
        (("jobs", 0, "id"), 1.5, "jobs[0].id: expected a text that is not empty, or an integer, found 1.5"),
        (("jobs", 0, "id"), "", 'jobs[0].id: expected a text that is not empty, or an integer, found ""'),
        (("jobs", 0, "id"), False, "jobs[0].id: expected a text that is not empty, or an integer, found false"),
        (("jobs", 0, "subtime"), ..., 'job "a", field subtime: expected a number of seconds, 0 or more, found nothing'),
        (("jobs", 0, "subtime"), -1, 'job "a", field subtime: expected a number of seconds, 0 or more, found -1'),
        (("jobs", 0, "subtime"), "0", 'job "a", field subtime: expected a number of seconds, 0 or more, found "0"'),
        (("jobs", 0, "subtime"), 10**400, 'job "a", field subtime: expected a number of seconds, 0 or more'),
        (("jobs", 0, "res"), 2.0, 'job "a", field res: expected a whole number of processors, 0 or more, found 2.0'),
        (("jobs", 0, "res"), -2, 'job "a", field res: expected a whole number of processors, 0 or more, found -2'),
        (("jobs", 0, "res"), 1 << 31, 'job "a", field res: expected a whole number of processors'),
        (("jobs", 0, "walltime"), 0, 'job "a", field walltime: expected more than 0 seconds, or -1 for none, found 0'),
        (("jobs", 0, "walltime"), -2,
         'job "a", field walltime: expected more than 0 seconds, or -1 for none, found -2'),
        (("jobs", 0, "walltime"), None, 'job "a", field walltime: expected more than 0 seconds'),
        (("jobs", 0, "profile"), ..., 'job "a", field profile: expected the name of a profile, found nothing'),
        (("jobs", 0, "profile"), ["d"], 'job "a", field profile: expected the name of a profile, found ["d"]'),
        (("jobs", 0, "profile"), "z",
         'job "a", field profile: expected a profile of the file (d, p, h, t, c, …), found "z"'),
        (("jobs", 1, "profile"), "p", 'job 7, field res: expected 2 processors, as the profile "p" has, found 1'),
        (("jobs", 1, "id"), "a", 'job "a", field id: expected a unique id, found it in jobs[0] and jobs[1]'),
        (("jobs", 0, "smpi_ranks_to_hosts_mapping"), [0, 2],
         'job "a", field smpi_ranks_to_hosts_mapping: expected an array of whole numbers from 0 to 1, found [0, 2]'),
        (("profiles", "d"), 5, 'profile "d": expected an object, found 5'),
        (("profiles", "d", "type"), ..., 'profile "d", field type: expected one of delay, parallel'),
        (("profiles", "d", "type"), "dealy", 'recv, found "dealy"'),
        (("profiles", "d", "type"), ["delay"], 'recv, found ["delay"]'),
        (("profiles", "d", "delay"), 0, 'profile "d", field delay: expected more than 0 seconds, found 0'),
        (("profiles", "d", "delay"), ..., 'profile "d", field delay: expected more than 0 seconds, found nothing'),
        (("profiles", "d", "ret"), -1, 'profile "d", field ret: expected a whole number, 0 or more, found -1'),
        (("profiles", "d", "ret"), 1.0, 'profile "d", field ret: expected a whole number, 0 or more, found 1.0'),
        (("profiles", "p", "cpu"), 1,
         'profile "p", field cpu: expected an array of amounts, one per processor, found 1'),
        (("profiles", "p", "cpu"), [],
         'profile "p", field cpu: expected an array of amounts, one per processor, found []'),
        (("profiles", "p", "cpu"), [1, -1], 'profile "p", field cpu[1]: expected a number, 0 or more, found -1'),
        (("profiles", "p", "com"), [0, 0], 'profile "p", field com: expected an array of 4 amounts, 2 rows of 2'),
        (("profiles", "h", "cpu"), [1], 'profile "h", field cpu: expected a number, 0 or more, found [1]'),
        (("profiles", "h", "com"), ..., 'profile "h", field com: expected a number, 0 or more, found nothing'),
        (("profiles", "t", "cpu"), -1, 'profile "t", field cpu: expected a number, 0 or more, found -1'),
        (("profiles", "c", "seq"), [],
         'profile "c", field seq: expected an array of at least one profile name, found []'),
        (("profiles", "c", "seq"), ..., 'profile "c", field seq: expected an array of at least one profile name'),
        (("profiles", "c", "seq"), ["d", "z"],
         'profile "c", field seq[1]: expected the name of a profile of this file'),
        (("profiles", "c", "repeat"), 0, 'profile "c", field repeat: expected a whole number, 1 or more, found 0'),
        (("profiles", "inner", "seq"), ["c"], 'profile "inner", field seq: expected no cycle, found c → inner → c'),
        (("profiles", "inner", "seq"), ["inner"], 'profile "inner", field seq: expected no cycle, found inner → inner'),
    ],
)  # fmt: skip
def test_files_that_batsim_rejects_are_rejected(
    tmp_path: Path, keys: tuple[Any, ...], value: Any, message: str
) -> None:
    assert message in refusal(tmp_path, changed(*keys, value=value))


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        *((("jobs", 0, "walltime"), walltime) for walltime in (-1, -1.0, 0.5, 3600)),
        *(
            (("profiles", "other"), {"type": kind})  # other types are not checked by the reader
            for kind in ("parallel_homogeneous_pfs", "data_staging", "smpi", "usage_trace", "recv")
        ),
        (("profiles", "c", "seq"), ["inner", "d", "inner", "d"]),  # a part that is used twice is not a cycle
    ],
)
def test_files_that_batsim_accepts_are_accepted(tmp_path: Path, keys: tuple[Any, ...], value: Any) -> None:
    batsim4.read(written(tmp_path, changed(*keys, value=value)))


@pytest.mark.parametrize(
    ("profile", "field"),
    [
        ({"type": "send"}, "msg"),
        ({"type": "send", "msg": "text"}, "msg"),
        ({"type": "send", "msg": {}, "sleeptime": 0}, "sleeptime"),
        ({"type": "send", "msg": {}, "sleeptime": "long"}, "sleeptime"),
        ({"type": "recv", "regex": "("}, "regex"),
        ({"type": "recv", "regex": 3}, "regex"),
        # patience: simulated seconds
        ({"type": "recv", "timeout": 3}, "timeout"),
        ({"type": "recv", "success": None}, "success"),
        ({"type": "recv", "polltime": 0}, "polltime"),
    ],
)
def test_profiles_with_messages_are_checked(tmp_path: Path, profile: dict[str, object], field: str) -> None:
    assert f'profile "other", field {field}' in refusal(tmp_path, changed("profiles", "other", value=profile))


def test_an_id_is_the_same_as_number_and_as_text(tmp_path: Path) -> None:
    assert "expected a unique id" in refusal(tmp_path, changed("jobs", 0, "id", value="7"))


def test_a_chain_as_long_as_the_file_needs_no_recursion(tmp_path: Path) -> None:
    n = 5 * sys.getrecursionlimit()
    content = copy.deepcopy(GOOD)
    content["profiles"] |= {f"x{k}": {"type": "composed", "seq": [f"x{k + 1}"]} for k in range(n)}
    content["profiles"][f"x{n}"] = {"type": "delay", "delay": 1}
    batsim4.read(written(tmp_path, content))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a JSON object, found an empty file"),
        (" \n\t\n", "expected a JSON object, found an empty file"),
        ('{"nb_res": 4,\n "jobs": [,]}', "line 2:11: broken JSON"),
        ('{"nb_res": 4, "jobs": []', "line 1:25: broken JSON"),
        (
            '{"job": 1}\n{"job": 2}',
            "line 2:1: broken JSON: Extra data; a table with an object on each line needs mapping",
        ),
        ("[1, 2]", "expected an object with nb_res, jobs and profiles, found [1, 2]"),
        (
            '{"nb_res": 4,\n"jobs": [{"id": "}", "res": 1, "res": 2}]}',
            'line 2:40: expected unique keys, found "res" twice',
        ),
        ('{"nb_res": 4, "nb_res": 4}', 'line 1:26: expected unique keys, found "nb_res" twice'),
        ('{"id": "NaN",\n "nb_res": NaN}', "line 2:12: expected a number, found NaN"),
        ('{"nb_res": -Infinity}', "line 1:12: expected a number, found -Infinity"),
        ('{"nb_res": 1e999}', "line 1:12: expected a number below 1e308, found 1e999"),
        ('{"nb_res": ' + "9" * 5000 + "}", "found one of thousands of digits"),
        ("[" * 200_000, "too many levels of brackets"),
        (
            '{"a": "\\ud83d\\ude00",\n"b": "x\\uD83d"}',
            'line 2:6: expected valid characters, found a single surrogate in "x\\ud83d"',
        ),
        ('{"\\ude00\\ud83d": 1}', "line 1:2: expected valid characters, found a single surrogate in"),
    ],
    ids=range(15),
)
def test_broken_json_is_reported_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    assert message in refusal(tmp_path, text)


def test_files_that_are_not_workloads_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="w: expected a workload file, found a directory"):
        (tmp_path / "w").mkdir()
        batsim4.read(tmp_path / "w")
    with pytest.raises(InputError, match=re.escape("no.json: cannot be read: No such file or directory")):
        batsim4.read(tmp_path / "no.json")
    (tmp_path / "b.json").write_bytes(b'{"nb_res":\n \xff\x00}')
    with pytest.raises(InputError, match="line 2: expected JSON in UTF-8"):
        batsim4.read(tmp_path / "b.json")


def test_gzip_is_known_by_its_content(tmp_path: Path) -> None:
    packed = gzip.compress(json.dumps(GOOD).encode())
    (tmp_path / "w.json").write_bytes(packed)
    assert batsim4.read(tmp_path / "w.json").n_procs == 4
    for cut in (len(packed) - 9, len(packed) // 2, 5):
        (tmp_path / "cut.json.gz").write_bytes(packed[:cut])
        with pytest.raises(InputError, match="cut.json.gz: the gzip data is truncated or damaged"):
            batsim4.read(tmp_path / "cut.json.gz")
    damaged = bytearray(packed)
    damaged[len(packed) // 2] ^= 0xFF
    (tmp_path / "cut.json.gz").write_bytes(damaged)
    with pytest.raises(InputError, match="truncated or damaged"):
        batsim4.read(tmp_path / "cut.json.gz")


def test_a_byte_order_mark_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "w.json").write_bytes(b"\xef\xbb\xbf" + json.dumps(GOOD).encode())
    assert batsim4.read(tmp_path / "w.json").n_procs == 4


def test_files_have_one_line_per_job_and_are_deterministic(tmp_path: Path) -> None:
    workload = Workload(GOOD["jobs"], {"d": GOOD["profiles"]["d"]}, 4, "x", {"note": "é"})
    batsim4.write(workload, tmp_path / "w.json")
    assert (tmp_path / "w.json").read_text().splitlines() == [
        '{"nb_res": 4,', '"note": "\\u00e9",', '"jobs": [', '{"id": "a", "subtime": 0, "res": 2, "profile": "d"},',
        '{"id": 7, "subtime": 1.5, "res": 1, "profile": "c"}', "],", '"profiles": {',
        '"d": {"type": "delay", "delay": 5}', "}}",
    ]  # fmt: skip
    for name in ("a.json.gz", "b.json.gz"):
        batsim4.write(workload, tmp_path / name)
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()
    assert gzip.decompress((tmp_path / "a.json.gz").read_bytes()) == (tmp_path / "w.json").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json.gz", "b.json.gz", "w.json"]


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    workload = Workload([], {}, 1)
    batsim4.write(workload, tmp_path / "out" / "deep" / "w.json")  # directories are made
    assert batsim4.read(tmp_path / "out" / "deep" / "w.json").n_procs == 1
    with pytest.raises(InputError, match=r"w\.json/no/w\.json: cannot be written: Not a directory"):
        batsim4.write(workload, tmp_path / "out" / "deep" / "w.json" / "no" / "w.json")
    with pytest.raises(InputError, match="cannot be written: it is a directory"):
        batsim4.write(workload, tmp_path)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    durations = draw(st.lists(st.floats(1e-6, 1e9), min_size=1, max_size=4, unique=True))
    profiles = {f"p{k}": {"type": "delay", "delay": delay, "app": draw(VALUES)} for k, delay in enumerate(durations)}
    own = ("id", "subtime", "res", "profile", "walltime", "smpi_ranks_to_hosts_mapping")
    jobs = [
        {
            "id": name,
            "subtime": draw(st.floats(0, 1e9) | st.integers(0, 10**9)),
            "res": draw(st.integers(0, 100)),
            "profile": draw(st.sampled_from(sorted(profiles))),
            **draw(st.dictionaries(st.text().filter(lambda key: key not in own), VALUES, max_size=3)),
        }
        for name in draw(st.lists(st.integers() | st.text(min_size=1), max_size=6, unique_by=str))
    ]
    about = draw(st.dictionaries(st.text().filter(lambda key: key not in ("nb_res", "jobs", "profiles")), VALUES))
    return Workload(jobs, profiles, draw(st.integers(1, 1000)), "", about)


@given(workloads(), st.sampled_from(["w.json", "w.json.gz"]))
def test_what_is_written_is_read_back(tmp_path_factory: pytest.TempPathFactory, workload: Workload, name: str) -> None:
    file = tmp_path_factory.getbasetemp() / name
    batsim4.write(workload, file)
    read = batsim4.read(file)
    assert (read.jobs, read.profiles, read.n_procs, read.about) == (
        workload.jobs,
        workload.profiles,
        workload.n_procs,
        workload.about,
    )
