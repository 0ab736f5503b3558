"""Platforms of hosts with properties, between which messages take no time."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from pybatsched.testing import Workload


def written(workload: Workload, hosts: Sequence[Mapping[str, str]], folder: Path) -> list[str]:
    """Write a workload and a platform of hosts with properties down, and give the arguments that name them."""
    content = {"nb_res": len(hosts), "jobs": workload.jobs, "profiles": workload.profiles}
    (folder / "w.json").write_text(json.dumps(content))
    told = []
    for index, properties in enumerate(hosts):
        props = "".join(f'<prop id="{name}" value="{value}"/>' for name, value in properties.items())
        told.append(f'<host id="c{index:02}" speed="1Gf">{props}</host>')
    master = '<host id="master" speed="1Gf"><prop id="role" value="master"/></host>'
    names = ["master", *(f"c{index:02}" for index in range(len(hosts)))]
    # Without routes Batsim's own messages take another step, and what happens in one instant is told in two.
    routes = "".join(
        f'<route src="{one}" dst="{other}"><link_ctn id="free"/></route>'
        for one, other in itertools.combinations_with_replacement(names, 2)
    )
    link = '<link id="free" bandwidth="1e300Bps" latency="0s"/>'
    zone = f'<zone id="main" routing="Full">{master}{"".join(told)}{link}{routes}</zone>'
    text = "<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
    (folder / "platform.xml").write_text(f'{text}<platform version="4.1">{zone}</platform>\n')
    return ["-p", str(folder / "platform.xml"), "-w", str(folder / "w.json"), "--enable-dynamic-jobs"]
