"""Where the jobs of a workload come from, and what to cite for it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pybatsched.workload.formats.files import SETS

#: The names of files of the Parallel Workloads Archive: machine, year, version.
_OF_ARCHIVE: Final = re.compile(r"([A-Z][A-Za-z0-9-]*-[12][0-9]{3}-[0-9.]+(?:-cln)?)\.swf(?:\.gz)?")

ARCHIVE_PAPER: Final = """\
@article{feitelson2014archive,
  author = {Feitelson, Dror G. and Tsafrir, Dan and Krakov, David},
  title = {Experience with using the {Parallel Workloads Archive}},
  journal = {Journal of Parallel and Distributed Computing},
  volume = {74},
  number = {10},
  pages = {2967--2982},
  year = {2014},
  doi = {10.1016/j.jpdc.2014.06.013},
}"""
LUBLIN: Final = """\
@article{lublin2003workload,
  author = {Lublin, Uri and Feitelson, Dror G.},
  title = {The workload on parallel supercomputers: modeling the characteristics of rigid jobs},
  journal = {Journal of Parallel and Distributed Computing},
  volume = {63},
  number = {11},
  pages = {1105--1122},
  year = {2003},
}"""


def origins(about: Mapping[str, Any], name: str) -> list[str]:
    """Return the sources of a workload by its description (`Workload.about`): logs, public sets and models.

    A source that is not known is the file of a log, or `name`.

    >>> origins({"source": "HPC2N-2002-2.2-cln.swf.gz"}, "w.json"), origins({"source": "jobs.csv", "set": "pm100"}, "")
    (['HPC2N-2002-2.2-cln'], ['pm100'])
    >>> origins({"merged": [{"source": "our.swf"}, {"generated": {"model": "lublin"}}]}, "w.json")
    ['our.swf', 'lublin']
    """
    merged = [part for part in about.get("merged", ()) if isinstance(part, dict)]
    found = [*_known(about), *(one for part in merged for one in origins(part, name))]
    return found or [str(about.get("source") or name)]


def _known(about: Mapping[str, Any]) -> Iterator[str]:
    """Yield the sources that can be cited."""
    if found := _OF_ARCHIVE.fullmatch(str(about.get("source", ""))):
        yield found[1]
    if about.get("set") in SETS:
        yield str(about["set"])
    generated = about.get("generated")
    if isinstance(generated, dict) and str(generated.get("model", "")).startswith("lublin"):
        yield "lublin"


def references_of(origin: str) -> tuple[str, ...]:
    """Return what to cite for a source, as entries in BibTeX; nothing for an unknown one."""
    if origin == "lublin":
        return (LUBLIN,)
    if origin in SETS:
        from pybatsched.workload.logs.tables.mapping import shipped  # noqa: PLC0415  only for tables

        return shipped(origin).references
    return (ARCHIVE_PAPER, _entry_of_log(origin)) if _OF_ARCHIVE.fullmatch(f"{origin}.swf") else ()


def _entry_of_log(name: str) -> str:
    """Return the entry of a log of the archive, with the address of its page if that is known."""
    from pybatsched.workload.archive import ARCHIVE, LOGS  # noqa: PLC0415  it imports the network

    page = next((f"/{log.page}" for log in LOGS.values() if log.file.startswith(f"{name}.")), "")
    return f"""\
@misc{{{name},
  title = {{{{{name}}}}},
  howpublished = {{Parallel Workloads Archive}},
  url = {{{ARCHIVE}{page}/}},
  note = {{The page of the log names its providers, who are to be thanked}},
}}"""
