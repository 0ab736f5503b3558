"""Machines that are described by their nodes: ``4 x 16 cores 64 GB, 2 x 32 cores 128 GB 4 gpus:a100``."""

from __future__ import annotations

import re
from typing import Final

from pybatsched.errors import InputError
from pybatsched.machines.model import HostUnit, LinkSpeeds, Machine, NodeClass

#: A description for messages.
EXAMPLE: Final = "4 x 16 cores 64 GB, 2 x 32 cores 128 GB 4 gpus:a100"
_GROUP: Final = re.compile(
    r"(?P<n>\d{1,7}) x (?P<cores>\d{1,5}) cores?(?: (?P<memory>\d{1,9}(?:\.\d{1,6})?) GB)?"
    r"(?P<gpus>(?: \d{1,4} gpus?(?::[\w.-]+)?)*)(?: features (?P<features>[\w.:=-]+(?:&[\w.:=-]+)*))?"
    r"(?: weight (?P<weight>\d{1,9}(?:\.\d{1,6})?))?",
    re.ASCII,
)
_GPUS: Final = re.compile(r"(\d+) gpus?(?::([\w.-]+))?", re.ASCII)


def machine_of_nodes(text: str) -> Machine:
    """Return the machine of a description, whose hosts are cores. Raises InputError for an invalid one.

    A group of equal nodes is ``N x C cores``, then memory, GPUs by type, features joined by ``&`` and a weight, each
    of them optional and in this order.

    >>> machine = machine_of_nodes("4 x 16 cores 64 GB, 1 x 8 cores 2 gpus:a100 1 gpu:v100 features ib&nvme weight 3")
    >>> machine.n_cores, [dict(part.properties) for part in machine.classes]
    (72, [{}, {'gpus': 'a100:2,v100:1', 'features': 'ib,nvme', 'weight': '3'}])
    """
    classes = [_class_of(number, " ".join(part.split())) for number, part in enumerate(text.split(","))]
    return Machine(
        "nodes",
        f"Nodes: {' '.join(text.split())}",
        tuple(classes),
        (HostUnit("core", n_nodes=0, group=("node", 0)),),
        LinkSpeeds(1.25e9, 1e-5, ("10 Gbit/s and 10 us: assumption",)),
        remarks=("The property node tells which cores belong together",),
    )


def _class_of(number: int, text: str) -> NodeClass:
    match = _GROUP.fullmatch(text)
    if match is None or not int(match["n"]) or not int(match["cores"]):
        raise InputError(f"nodes: expected groups of nodes such as '{EXAMPLE}', found {text!r:.80}")
    gpus = ",".join(f"{kind}:{n}" if kind else n for n, kind in _GPUS.findall(match["gpus"] or ""))
    properties = {"gpus": gpus, "features": (match["features"] or "").replace("&", ","), "weight": match["weight"]}
    return NodeClass(
        f"group{number}",
        int(match["n"]),
        int(match["cores"]),
        1e9,
        None if match["memory"] is None else float(match["memory"]),
        (f"{text}; 1 Gflop/s a core: assumption",),
        {key: value for key, value in properties.items() if value},
        cluster="nodes",
    )
