"""Jobs that communicate, compared with the real Batsim: the same messages to random schedulers, to the last digit."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from support.external_runs import SIMULATE, comparable, exit_code_of, run_to_end
from support.fuzzer import Fuzzer, machine_events, random_workload
from support.networks import (
    KINDS,
    N_PROCS,
    EnergyFuzzer,
    NetworkFuzzer,
    communicating_workload,
    random_platform,
    with_pstates,
)
from support.replying import DROP_IN
from support.simulated import same_but_for_halves, simgrid_version
from support.wild_networks import WildFuzzer, WildPlatform, wild_workload

from pybatsched.errors import InputError

pytestmark = pytest.mark.batsim


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(30))
def test_random_schedulers_get_the_same_messages_from_both(kind: str, seed: int, tmp_path: Path) -> None:
    dice = random.Random(f"{kind} {seed}")
    (tmp_path / "platform.xml").write_text(random_platform(dice, kind))
    (tmp_path / "w.json").write_text(json.dumps(communicating_workload(seed, dice.randint(1, 40))))
    args = ["-p", "platform.xml", "-w", "w.json", "--enable-compute-sharing"]
    if dice.random() < 0.6:
        args.pop()
    theirs, mine = (NetworkFuzzer(seed, sharing=len(args) > 4) for _ in range(2))
    code = exit_code_of(["batsim", *args, "-e", "theirs", "-q"], tmp_path, theirs)
    my_code = exit_code_of([*SIMULATE, *args, "--clock", "simgrid", "-e", "mine"], tmp_path, mine)
    assert [comparable(m) for m in mine.requests] == [comparable(m) for m in theirs.requests]
    assert (my_code in {0, 8}) == (code == 0)  # 8: no job completed
    if code == 0:
        same_but_for_halves(tmp_path / "mine_jobs.csv", tmp_path / "theirs_jobs.csv")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(100, 103))
def test_delays_on_slow_links(kind: str, seed: int, tmp_path: Path) -> None:
    """No job communicates, but the messages of Batsim take time: the drop-in does the same by default."""
    dice = random.Random(f"{kind} {seed}")
    (tmp_path / "platform.xml").write_text(random_platform(dice, kind))
    (tmp_path / "w.json").write_text(json.dumps(random_workload(seed, dice.randint(1, 40), N_PROCS)))
    args = ["-p", "platform.xml", "-w", "w.json", "-q"]
    theirs, mine = (Fuzzer(seed) for _ in range(2))
    codes = [
        exit_code_of([*program, *args, "-e", prefix], tmp_path, fuzzer)
        for program, prefix, fuzzer in ((["batsim"], "theirs", theirs), ([*DROP_IN], "mine", mine))
    ]
    assert codes[0] == codes[1]
    assert [comparable(m) for m in mine.requests] == [comparable(m) for m in theirs.requests]
    if codes[0] == 0:
        same_but_for_halves(tmp_path / "mine_jobs.csv", tmp_path / "theirs_jobs.csv")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(200, 205))
def test_speeds_and_energy(kind: str, seed: int, tmp_path: Path) -> None:
    """Speeds change under running tasks, and the load that results draws power."""
    dice = random.Random(f"{kind} {seed}")
    (tmp_path / "platform.xml").write_text(with_pstates(random_platform(dice, kind)))
    (tmp_path / "w.json").write_text(json.dumps(communicating_workload(seed, dice.randint(1, 30))))
    args = ["-p", "platform.xml", "-w", "w.json", "-E", "--enable-compute-sharing"]
    if dice.random() < 0.6:
        args.pop()
    theirs, mine = (EnergyFuzzer(seed, sharing=len(args) > 5) for _ in range(2))
    code = exit_code_of(["batsim", *args, "-e", "theirs", "-q"], tmp_path, theirs)
    my_code = exit_code_of([*SIMULATE, *args, "--clock", "simgrid", "-e", "mine"], tmp_path, mine)
    assert [comparable(m) for m in mine.requests] == [comparable(m) for m in theirs.requests]
    assert (my_code in {0, 8}) == (code == 0)  # 8: no job completed
    if code == 0:
        same_but_for_halves(tmp_path / "mine_jobs.csv", tmp_path / "theirs_jobs.csv")


#: Seeds with other times since SimGrid 3.34: describing a parallel task takes no rounds of the kernel there.
DIFFERENT_SINCE_3_34 = {325}


@pytest.mark.parametrize("seed", range(345))
def test_everything_together(seed: int, tmp_path: Path) -> None:
    """Many zones, uneven numbers, matrices in composed profiles, mappings, registered jobs, pstates and energy."""
    dice = random.Random(f"wild {seed}")
    energy = dice.random() < 0.35
    platform = WildPlatform(dice, energy=energy)
    (tmp_path / "platform.xml").write_text(platform.text)
    workload = wild_workload(seed, dice.randint(1, 30), platform.n_procs, platform.least)
    (tmp_path / "w.json").write_text(json.dumps(workload))
    sharing, dynamic = dice.random() < 0.4, dice.random() < 0.4
    args = ["-p", "platform.xml", "-w", "w.json"]
    args += ["-E"] if energy else []
    args += ["--enable-compute-sharing"] if sharing else []
    if dynamic:
        args += ["--enable-dynamic-jobs", *(["--acknowledge-dynamic-jobs"] if dice.random() < 0.5 else [])]
    if dice.random() < 0.2:
        (tmp_path / "events.txt").write_text(machine_events(dice, platform.n_procs))
        args += ["--events", "events.txt"]
    if dice.random() < 0.2:
        second = wild_workload(seed + 5000, dice.randint(0, 10), platform.n_procs, platform.least)
        (tmp_path / "w2.json").write_text(json.dumps(second))
        args += ["-w", "w2.json"]
        workload["profiles"] |= {name: {"type": "composed"} for name in second["profiles"]}  # of either workload
    theirs, mine = (
        WildFuzzer(seed, workload["profiles"], platform.least, dynamic=dynamic, sharing=sharing, energy=energy)
        for _ in range(2)
    )
    done = run_to_end([*SIMULATE, *args, "--clock", "simgrid", "-e", "mine"], tmp_path, mine)
    my_code = done.returncode
    if my_code == InputError.exit_code and "SimGrid's solver would need more than" in done.stderr:
        pytest.skip("SimGrid's solver takes minutes")
    if seed in DIFFERENT_SINCE_3_34 and simgrid_version() >= (3, 34):
        pytest.skip("SimGrid 3.34 has fewer rounds")
    code = exit_code_of(["batsim", *args, "-e", "theirs", "-q"], tmp_path, theirs)
    assert [comparable(m) for m in mine.requests] == [comparable(m) for m in theirs.requests]
    assert (my_code in {0, 8}) == (code == 0)  # 8: no job completed
    if code == 0:
        same_but_for_halves(tmp_path / "mine_jobs.csv", tmp_path / "theirs_jobs.csv")
        states = [(tmp_path / f"{prefix}_machine_states.csv").read_text() for prefix in ("mine", "theirs")]
        assert states[0] == states[1]
