"""The known machines, as data. Each number has its source, or is marked as an assumption."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from pybatsched.machines.model import HostUnit, LinkSpeeds, Machine, NodeClass, NodePower, Storage

_CORE: Final = HostUnit("core", n_nodes=0)
_NODE: Final = HostUnit("node")
_PWA: Final = "Parallel Workloads Archive"

_CURIE_POWER: Final = NodePower(
    117,
    358,
    14,
    (
        "117 W idle, 358 W at work, 14 W off: a thin node as remembered from Georgiou, Glesser, Trystram on power",
        "capping in Slurm (HAL hal-01102285); not checked. A like node drew 340 W (IBM slides, EnA-HPC).",
        "Assumed for the other nodes too, by their number of cores",
    ),
)


def _curie_power(cores: int) -> NodePower:
    return NodePower(
        _CURIE_POWER.idle * cores / 16,
        _CURIE_POWER.full * cores / 16,
        _CURIE_POWER.off * cores / 16,
        _CURIE_POWER.sources,
    )


CURIE: Final = Machine(
    "curie",
    "Curie (CEA/TGCC, Bull): 5,040 thin, 90 fat and 144 hybrid nodes",
    (
        NodeClass(
            "thin",
            5040,
            16,
            21.6e9,
            64,
            (
                "5,040 nodes of 2 x 8 cores Sandy Bridge-EP 2.7 GHz: PRACE checklist (uibk.ac.at)",
                "21.6 Gflop/s a core: 2.7 GHz x 8 flop, the peak",
                "64 GB: 4 GB a core (SPECFEM3D_GLOBE, DATA/Par_file) x 16",
            ),
            MappingProxyType({"node_type": "thin"}),
            _CURIE_POWER,
        ),
        NodeClass(
            "fat",
            90,
            128,
            9.08e9,
            512,
            (
                "90 nodes of 128 cores Nehalem-EX 2.27 GHz: PRACE checklist (uibk.ac.at)",
                "9.08 Gflop/s a core: 2.27 GHz x 4 flop, the peak",
                "512 GB: assumption",
            ),
            MappingProxyType({"node_type": "fat"}),
            _curie_power(128),
        ),
        NodeClass(
            "hybrid",
            144,
            8,
            10.68e9,
            24,
            (
                "144 nodes of 2 x 4 cores Westmere-EP 2.67 GHz with 2 GPUs: PRACE checklist (uibk.ac.at)",
                "10.68 Gflop/s a core: 2.67 GHz x 4 flop, the peak of the processors alone",
                "24 GB: assumption",
            ),
            MappingProxyType({"node_type": "hybrid"}),
            _curie_power(8),
        ),
    ),
    (_CORE, _NODE),
    LinkSpeeds(4e9, 1.3e-6, ("InfiniBand QDR, 4 GB/s and 1.3 us: assumption",)),
    remarks=(
        f"80,640 + 11,520 + 1,152 = 93,312 cores, as the log CEA-Curie-2011-2.1-cln says ({_PWA})",
        "The log's sizes are cores. By node, a job of q cores needs q/16 thin nodes, rounded up",
    ),
    references=("CEA-Curie-2011-2.1-cln",),
)

INTREPID: Final = Machine(
    "intrepid",
    "Intrepid (Argonne, IBM Blue Gene/P): 40,960 quad-core nodes on a torus",
    (
        NodeClass(
            "intrepid",
            40960,
            4,
            3.4e9,
            2,
            (
                f"40 racks, 40,960 nodes of 4 cores, 2 GB a node, 557 Tflop/s in all: {_PWA}, l_anl_int",
                "3.4 Gflop/s a core: 557 Tflop/s / 163,840, which is 850 MHz x 4 flop",
            ),
            power=NodePower(
                10,
                30,
                0,
                (
                    "30 W at work: 371 Mflop/s a watt (Blue Gene/P, Wikipedia) at 450 Tflop/s, over 40,960 nodes",
                    "10 W idle: the machine idles at almost a third (itnews.com.au, interview with its operators)",
                    "0 W off: assumption",
                ),
            ),
        ),
    ),
    (_CORE, HostUnit("pset", n_nodes=64), HostUnit("node", torus=(40, 32, 32))),
    LinkSpeeds(425e6, 1e-6, ("torus links of 425 MB/s, 1 us: assumption",)),
    remarks=(
        f"A pset is 64 nodes, 256 cores: the smallest partition, and each size in the log is a multiple of it ({_PWA})",
        "The torus of the whole machine as 40 x 32 x 32: assumption (its product is the number of nodes)",
    ),
    references=("ANL-Intrepid-2009-1",),
)

RICC: Final = Machine(
    "ricc",
    "RICC (RIKEN): 1,024 nodes of 8 cores",
    (
        NodeClass(
            "ricc",
            1024,
            8,
            11.72e9,
            12,
            (
                f"1,024 nodes of 2 x 4 cores, 12 GB a node: {_PWA}, l_ricc",
                "11.72 Gflop/s a core: Xeon X5570, 2.93 GHz x 4 flop: assumption",
            ),
        ),
    ),
    (HostUnit("core", n_nodes=0, group=("node", 8)), _NODE),
    LinkSpeeds(2e9, 2e-6, ("InfiniBand DDR, 2 GB/s and 2 us: assumption",)),
    remarks=("Jobs share nodes, so a host is a core; the property node tells which eight belong together",),
    references=("RICC-2010-2",),
)

_RACKHAM_POWER: Final = NodePower(
    90, 250, 10, ("90 W idle, 250 W at work, 10 W off: assumption (two processors of 85 W at most)",)
)
_RACKHAM_SPEED: Final = "35.2 Gflop/s a core: 2.2 GHz x 16 flop, the peak: assumption (AVX2)"


def _rackham(name: str, n_nodes: int, memory_gb: int, source: str) -> NodeClass:
    return NodeClass(
        name,
        n_nodes,
        20,
        35.2e9,
        memory_gb,
        (source, _RACKHAM_SPEED),
        MappingProxyType({"fs_bw_gbps": "0.1"}),
        _RACKHAM_POWER,
        cluster="rackham",
    )


_CREX: Final = Storage(
    "crex",
    100e6,
    (
        "crex is the shared file system (Lustre): UPPMAX documentation, storage/crex",
        "0.1 GB/s from each node to it: the cluster description of the locality study's authors",
    ),
)
_FDR: Final = LinkSpeeds(6.8e9, 1e-6, ("InfiniBand FDR, 6.8 GB/s and 1 us: assumption (as its sister cluster Snowy)",))
_RACKHAM_UNITS: Final = (HostUnit("core", n_nodes=0, group=("node", 20)), HostUnit("node", group=("node", 1)))

RACKHAM: Final = Machine(
    "rackham",
    "Rackham (UPPMAX): 486 nodes of 20 cores, of three sizes of memory",
    (
        _rackham(
            "128 GB",
            450,
            128,
            "450 nodes of 128 GB: what is left of 486 (locality study's authors; UPPMAX documents 272 of them)",
        ),
        _rackham("256 GB", 32, 256, "32 nodes of 256 GB, 2 x E5-2630 v4: UPPMAX documentation, clusters/rackham"),
        _rackham("1 TB", 4, 1024, "4 nodes of 1 TB, 2 x E5-2630 v4: UPPMAX documentation, clusters/rackham"),
    ),
    _RACKHAM_UNITS,
    _FDR,
    _CREX,
    ("Jobs share nodes, so a host is a core; the property node tells which twenty belong together",),
    references=("locality",),
)

RACKHAM_128: Final = Machine(
    "rackham-128gb",
    "Rackham with all 486 nodes declared as 128 GB, as the locality study ran it",
    (
        _rackham(
            "128 GB", 486, 128, "486 nodes, all declared as 128 GB: the final input of the locality study's authors"
        ),
    ),
    _RACKHAM_UNITS[:1],
    _FDR,
    _CREX,
    ("Jobs share nodes, so a host is a core; the property node tells which twenty belong together",),
    references=("locality",),
)

SX_AURORA: Final = Machine(
    "sx-aurora",
    "SX-Aurora TSUBASA as AOBA-A: 72 vector hosts with 8 vector engines each",
    (
        NodeClass(
            "sx-aurora",
            576,
            8,
            307.2e9,
            48,
            (
                "72 vector hosts x 8 engines of type 20B: assumption (AOBA-A, Tohoku University)",
                "8 cores of 307.2 Gflop/s and 48 GB an engine: fuse.wikichip.org, 2nd generation vector engine",
                "6.0 GB/s to swap: between the 5.4 and 6.3 measured in the UJFB paper, table 3",
            ),
            MappingProxyType({"swap_bw_gbps": "6.0"}),
            NodePower(
                40.6,
                300,
                0,
                (
                    "40.6 W idle (measured, SX-Aurora.github.io, 2020-07-19), 300 W at work (type 10B, the same site,",
                    "2018-06-20); type 20B assumed to be alike. 0 W off: assumption. The vector host is not in it",
                ),
            ),
        ),
    ),
    (HostUnit("ve", group=("vh", 8)),),
    LinkSpeeds(
        25e9,
        1e-6,
        ("PCIe gen 3 x16 to the vector host, 12 GB/s and 1 us; 2 x 12.5 GB/s from it to the others: assumption",),
        inner=(12e9, 1e-6),
    ),
    remarks=("A host is a vector engine (VE); the property vh tells which eight share a vector host",),
    references=("ujfb",),
)

SX_ACE: Final = Machine(
    "sx-ace",
    "SX-ACE: 1,280 nodes of 4 cores, as the UJFB study used it",
    (
        NodeClass(
            "sx-ace",
            1280,
            4,
            64e9,
            64,
            (
                "1,280 nodes: the experiment of the UJFB study (its plain trace file has 2,560)",
                "4 cores of 64 Gflop/s, 64 GB a node: ix.de on SC13",
            ),
        ),
    ),
    (_NODE,),
    LinkSpeeds(8e9, 2e-6, ("8 GB/s a node (ix.de on SC13); 2 us: assumption",)),
    references=("ujfb",),
)


def _site(name: str, n_cores: int, speed: str, source: str) -> NodeClass:
    return NodeClass(
        name,
        n_cores,
        1,
        float(speed) * 1e9,
        None,
        (source, f"speed {speed} relative to the slowest: the reallocation paper; 1 Gflop/s stands for 1"),
        shown_speed=speed,
    )


_WAN: Final = LinkSpeeds(
    125e6, 5e-5, ("1 Gb/s and 50 us in a site, 10 Gb/s and 5 ms between sites: assumption",), trunk=(1.25e9, 5e-3)
)
_PAPER: Final = "cores: the reallocation paper"
_BORDEAUX: Final = _site("bordeaux", 640, "1.0", f"640 {_PAPER}")
_CTC: Final = _site("ctc", 430, "1.2", f"430 {_PAPER} (the log at hand has 338)")
_SDSC: Final = _site("sdsc", 128, "1.4", f"128 {_PAPER}")

GRID5000: Final = Machine(
    "grid5000",
    "Grid'5000 as in the reallocation study: Bordeaux, Lyon and Toulouse",
    (_BORDEAUX, _site("lyon", 270, "1.2", f"270 {_PAPER}"), _site("toulouse", 434, "1.4", f"434 {_PAPER}")),
    (_CORE,),
    _WAN,
    references=("reallocation",),
)

GRID5000_PWA: Final = Machine(
    "grid5000-pwa",
    "The reallocation study's second platform: Bordeaux, CTC and SDSC",
    (_BORDEAUX, _CTC, _SDSC),
    (_CORE,),
    _WAN,
    references=("reallocation",),
)

GRID_PWA: Final = Machine(
    "grid-pwa",
    "Like the reallocation study's second platform, with logs that are at hand: HPC2N, CTC and SDSC",
    (
        _site("hpc2n", 240, "1.0", f"240 cores: {_PWA}, l_hpc2n; in the place of Bordeaux, whose log is not at hand"),
        _CTC,
        _SDSC,
    ),
    (_CORE,),
    _WAN,
    references=("reallocation", "HPC2N-2002-2.2-cln"),
)

MACHINES: Final = (CURIE, INTREPID, RICC, RACKHAM, RACKHAM_128, SX_AURORA, SX_ACE, GRID5000, GRID5000_PWA, GRID_PWA)
