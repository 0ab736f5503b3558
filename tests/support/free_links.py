"""Platforms of hosts with properties, between which messages take no time."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from pybatsched.testing import Workload

_TWO_CLUSTERS = """\
<?xml version="1.0"?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
 <zone id="site" routing="Full">
  <cluster id="nodes" prefix="node" suffix="" radical="100-{last}" bw="1e300Bps" lat="0" {described}>{nodes}</cluster>
  <cluster id="front" prefix="boss" suffix="" radical="0-0" speed="1Gf" bw="1e300Bps" lat="0">
    <prop id="role" value="master"/>
    <prop id="wattage_per_state" value="10:10:10"/>
  </cluster>
  <link id="trunk" bandwidth="1e300Bps" latency="0"/>
  <zoneRoute src="nodes" dst="front" gw_src="nodenodes_router" gw_dst="bossfront_router">
    <link_ctn id="trunk"/>
  </zoneRoute>
 </zone>
</platform>
"""


def equal_nodes(n: int, *, speed: str = "1Gf", n_cores: int = 1, properties: Mapping[str, str] | None = None) -> str:
    """Write a platform of n equal nodes and a master beside them, which draws 10 W."""
    message = "".join(f'\n    <prop id="{name}" value="{value}"/>' for name, value in (properties or {}).items())
    return _TWO_CLUSTERS.format(last=99 + n, described=f'speed="{speed}" core="{n_cores}"', nodes=message)


def written(workload: Workload, hosts: Sequence[Mapping[str, str]], folder: Path) -> list[str]:
    """Write a workload and a platform of hosts with properties down, and give the arguments that name them."""
    content = {"nb_res": len(hosts), "jobs": workload.jobs, "profiles": workload.profiles}
    (folder / "w.json").write_text(json.dumps(content))
    lines = []
    for index, properties in enumerate(hosts):
        props = "".join(f'<prop id="{name}" value="{value}"/>' for name, value in properties.items())
        lines.append(f'<host id="c{index:02}" speed="1Gf">{props}</host>')
    master = '<host id="master" speed="1Gf"><prop id="role" value="master"/></host>'
    names = ["master", *(f"c{index:02}" for index in range(len(hosts)))]
    # Without routes Batsim's messages take another step, and events of one instant arrive in two messages.
    routes = "".join(
        f'<route src="{one}" dst="{other}"><link_ctn id="free"/></route>'
        for one, other in itertools.combinations_with_replacement(names, 2)
    )
    link = '<link id="free" bandwidth="1e300Bps" latency="0s"/>'
    zone = f'<zone id="main" routing="Full">{master}{"".join(lines)}{link}{routes}</zone>'
    text = "<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
    (folder / "platform.xml").write_text(f'{text}<platform version="4.1">{zone}</platform>\n')
    return ["-p", str(folder / "platform.xml"), "-w", str(folder / "w.json"), "--enable-dynamic-jobs"]
