"""Arguments for Docker: image names and mounts cannot become other options."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybatsched.errors import InputError
from pybatsched.live import batsim


@pytest.fixture(autouse=True)
def docker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pybatsched.live.batsim.shutil.which", lambda name: f"/usr/bin/{name}")


@pytest.mark.parametrize("image", ["--privileged", "-v/:/host", "", "a b", "a;reboot", "$(x)", "a\nb", "../x"])
def test_invalid_image_names_are_rejected(image: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected the name of an image, such as oarteam/batsim:4.0.0"):
        batsim.in_docker(image, (), tmp_path)


@pytest.mark.parametrize("image", ["batsim", "oarteam/batsim:4.0.0", "localhost:5000/a_b/c-d:1@sha256:0ab"])
def test_valid_image_names_are_accepted(image: str, tmp_path: Path) -> None:
    assert batsim.in_docker(image, (), tmp_path).command[-1] == image


def test_a_directory_with_a_colon_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected directories without a colon"):
        batsim.in_docker("batsim", [tmp_path / "x:" / "etc:rw" / "w.json"], tmp_path)
