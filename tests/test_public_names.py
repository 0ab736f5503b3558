"""The promise of docs/stability.md: public names stay until a major version."""

from __future__ import annotations

from support.public_names import current, listed


def test_no_public_name_has_disappeared() -> None:
    found = current()
    gone = {place: names - found.get(place, set()) for place, names in listed().items()}
    assert {place: names for place, names in gone.items() if names} == {}, "deprecate a name before you remove it"


def test_new_public_names_are_listed() -> None:
    before = listed()
    new = {place: names - before.get(place, set()) for place, names in current().items()}
    assert {place: names for place, names in new.items() if names} == {}, "run make api"
