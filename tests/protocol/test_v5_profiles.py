"""Profiles and users' fields in messages of Batsim 5, in both directions."""

from __future__ import annotations

from typing import Any

from hypothesis import given, strategies as st

from pybatsched.protocol.v5_members import Members, extra_data_of, fields_of
from pybatsched.protocol.v5_profiles import read_profile, write_profile

NAMES = st.text("abcxyz_0", min_size=1, max_size=6)
AMOUNT = st.floats(0, 1e12)
OWN = st.dictionaries(st.sampled_from(["np", "app", "é"]), st.one_of(st.integers(), NAMES, st.booleans()), max_size=2)
PROFILES = st.one_of(
    st.fixed_dictionaries({"type": st.just("delay"), "delay": AMOUNT}),
    st.fixed_dictionaries({"type": st.just("parallel_homogeneous"), "cpu": AMOUNT, "com": AMOUNT}),
    st.fixed_dictionaries({"type": st.just("parallel_homogeneous_total"), "cpu": AMOUNT, "com": AMOUNT}),
    st.fixed_dictionaries({"type": st.just("parallel"), "cpu": st.lists(AMOUNT), "com": st.lists(AMOUNT)}),
    st.fixed_dictionaries({"type": st.just("composed"), "repeat": st.integers(1, 9), "seq": st.lists(NAMES)}),
    st.fixed_dictionaries({"type": st.just("usage_trace"), "trace": NAMES}),
    st.fixed_dictionaries({"type": st.just("smpi"), "trace": NAMES}),
    st.fixed_dictionaries({"type": st.just("data_staging"), "nb_bytes": AMOUNT, "from": NAMES, "to": NAMES}),
    st.fixed_dictionaries(
        {
            "type": st.just("parallel_homogeneous_pfs"),
            "bytes_to_read": AMOUNT,
            "bytes_to_write": AMOUNT,
            "storage": NAMES,
        }
    ),
)


@given(PROFILES, OWN)
def test_profiles_are_unchanged_after_encoding_and_decoding(profile: dict[str, Any], own: dict[str, Any]) -> None:
    whole = {**profile, **own}
    assert read_profile(Members(write_profile("w0!p", whole), "profile")) == ("w0!p", whole)


def test_fields_of_a_profile_of_batsim_5_alone_are_not_among_its_members() -> None:
    """Convert makes such profiles of bytes that are read and written in other amounts; Batsim refuses a member more."""
    said_of_it = {"storage_name": "pfs", "bytes_to_read": 1, "generation_strategy": "DefinedAmountsSpreadUniformly"}
    written: dict[str, Any] = {"id": "w0!s", "profile_type": "ParallelTaskOnStorageHomogeneousProfile"}
    written |= {"profile": said_of_it, "extra_data": '{"app": "x"}'}
    assert write_profile(*read_profile(Members(written, "profile"))) == written


def test_a_type_of_batsim_5_alone_is_kept() -> None:
    written = {"id": "w0!f", "profile_type": "ForkJoinCompositionProfile", "profile": {"profile_ids": ["w0!a"]}}
    identifier, profile = read_profile(Members(written, "profile"))
    assert profile == {"type": "ForkJoinCompositionProfile", "profile_ids": ["w0!a"]}
    assert write_profile(identifier, profile) == written


@given(st.dictionaries(st.one_of(NAMES, st.just("extra_data")), st.one_of(st.integers(-9, 9), st.text(), st.none())))
def test_fields_are_unchanged_after_encoding_and_decoding(fields: dict[str, Any]) -> None:
    assert fields_of(extra_data_of(fields)) == fields
