"""Invalid numbers of cores of a host."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybatsched.errors import InputError
from pybatsched.machines import names
from pybatsched.platform.groups import host_size

PLATFORM = """<?xml version="1.0"?><!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd"><platform version="4.1">
<zone id="z" routing="Full"><host id="master_host" speed="1Gf"/>
<host id="x" speed="1Gf"><prop id="cores" value="{}"/></host></zone></platform>
"""


@pytest.mark.parametrize("text", ["0", "-1", "x", "2147483648", "9" * 6000])
def test_invalid_numbers_of_cores_are_rejected(text: str, tmp_path: Path) -> None:
    path = tmp_path / "p.xml"
    path.write_text(PLATFORM.format(text))
    with pytest.raises(InputError, match="property cores: expected a whole number from 1, found"):
        host_size(names.find(str(path), energy=False).read())
