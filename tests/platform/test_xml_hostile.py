"""Malicious or damaged platform files: always an InputError, quickly, and no other file is opened."""

from __future__ import annotations

import builtins
import io
import socket
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from support.examples import examples
from support.platforms import read_platform

from pybatsched.errors import InputError
from pybatsched.platform import xml

GOOD = """<?xml version="1.0"?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<!-- bread & butter, and <host> -->
<platform version="4.1">
 <zone id="site" routing="Full">
  <prop id="site" value="R&amp;D"/>
  <cluster id="nodes" prefix="n" suffix="" radical="0-3,7" speed="1Gf,2f" core="2" bw="1GBps" lat="1us">
   <prop id="cores" value="2"/>
  </cluster>
  <zone id="front" routing="Full"><host id="master_host" speed="1Gf" coordinates="0 0 0"/></zone>
  <link id="l" bandwidth="1e300Bps" latency="0"/>
  <zoneRoute src="nodes" dst="front" gw_src="nnodes_router" gw_dst="master_host"><link_ctn id="l"/></zoneRoute>
 </zone>
</platform>
"""
BODY = GOOD.split('simgrid.dtd">\n', 1)[1]

LAUGHS = '<!DOCTYPE platform [<!ENTITY a "ha">' + "".join(
    f'<!ENTITY {name} "{f"&{before};" * 10}">' for before, name in zip("abcdefghi", "bcdefghij", strict=True)
)


def complaint(data: str | bytes) -> str:
    with pytest.raises(InputError) as error:
        xml.parse(data.encode() if isinstance(data, str) else data, "p.xml")
    return str(error.value)


def cluster(radical: str) -> str:
    return GOOD.replace("0-3,7", radical)


def test_the_unchanged_file_is_accepted() -> None:
    platform = xml.parse(GOOD.encode(), "p.xml")
    assert [host.name for host in platform.compute] == ["n0", "n1", "n2", "n3", "n7"]
    assert platform.compute[0].zone_properties["site"] == "R&D"


@pytest.fixture
def no_other_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail where anything is opened or looked up while a text is parsed."""

    def refuse(*args: Any, **_: Any) -> Any:
        raise AssertionError(f"somebody opens {args}")

    monkeypatch.setattr(builtins, "open", refuse)
    monkeypatch.setattr(io, "open", refuse)
    monkeypatch.setattr(Path, "open", refuse)
    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.mark.usefixtures("no_other_file")
@pytest.mark.parametrize(
    "doctype",
    [
        LAUGHS + "]>",
        '<!DOCTYPE platform SYSTEM "simgrid.dtd" [<!ENTITY x SYSTEM "file:///etc/passwd">]>',
        '<!DOCTYPE platform [<!ENTITY x SYSTEM "http://127.0.0.1:9/x">]>',
        '<!DOCTYPE platform [<!ENTITY % x SYSTEM "file:///etc/passwd"> %x;]>',
        '<!DOCTYPE platform [<!ENTITY x "harmless">]>',
        '<!DOCTYPE platform [<!ATTLIST host core CDATA "64">]>',
        '<!DOCTYPE platform [<!NOTATION n SYSTEM "x"><!ENTITY x SYSTEM "f" NDATA n>]>',
        "<!DOCTYPE platform []>",
    ],
)
@pytest.mark.parametrize("use", ["", "&x;", "&j;"])
def test_no_entities_are_declared(doctype: str, use: str) -> None:
    errors = complaint(doctype + BODY.replace("R&amp;D", use))
    assert errors.startswith("p.xml: line ")
    assert "expected none" in errors or "write &amp; for a plain" in errors


def test_an_entity_bomb_is_rejected_without_expansion() -> None:
    tracemalloc.start()
    try:
        errors = complaint(LAUGHS + "]>" + BODY.replace("R&amp;D", "&amp;"))
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()
    assert errors == "p.xml: line 1: the DOCTYPE has internal declarations; expected none (SimGrid also rejects them)"


@pytest.mark.usefixtures("no_other_file")
@pytest.mark.parametrize(
    "address", ["https://simgrid.org/simgrid.dtd", "simgrid.dtd", "file:///etc/passwd", "/dev/zero"]
)
def test_the_dtd_is_never_loaded(address: str) -> None:
    text = GOOD.replace("https://simgrid.org/simgrid.dtd", address)
    assert xml.parse(text.encode(), "p.xml").n_procs == 5


@pytest.mark.parametrize(
    "value", ["&x;", "a&x;b", "&", "&;", "& ;", "&nbsp;", "&#x;", "&#xZZ;", "&amp", "<!-- &x; -->", "&#0;", "&#xFFFE;"]
)
def test_unknown_entities_are_not_dropped(value: str) -> None:
    """Expat alone would read them as nothing, because of the DTD that is not loaded."""
    errors = complaint(GOOD.replace("R&amp;D", value))
    assert errors.startswith("p.xml: line 6: ")


def test_ampersands_in_comments_and_sections_are_text() -> None:
    text = GOOD.replace(
        ' <zone id="site"',
        ' <!-- &x; --><?pi &y; ?><trace id="t" periodicity="1"><![CDATA[&z;]]></trace><zone id="site"',
    )
    assert xml.parse(text.encode(), "p.xml").n_procs == 5
    hidden = GOOD.replace("https://simgrid.org/simgrid.dtd", "<!--").replace("R&amp;D", "&x;")
    assert "expected an address without <" in complaint(hidden)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b" \n ",
        b"\0",
        b"\x7fELF\x02\x01\x01" + bytes(range(256)),
        b"PK\x03\x04" + b"\0" * 100,
        b"\x1f\x8b\x08" + b"x" * 100,
        GOOD.encode("utf-16"),
        GOOD.encode("utf-32"),
        GOOD.replace("R&amp;D", "\N{LATIN SMALL LETTER E WITH ACUTE}").encode("latin-1"),
        GOOD.replace("R&amp;D", "\0").encode(),
        GOOD.encode() + GOOD.encode(),
        b"<a>" * 1_000_000,
        b'{"platform": 1}',
    ],
    ids=lambda data: repr(data[:12]),
)
def test_files_that_are_not_xml_are_rejected(data: bytes) -> None:
    errors = complaint(data)
    assert errors.startswith("p.xml: line ")
    assert "expected well-formed XML in UTF-8, found: " in errors or "unknown element <a>" in errors


def test_a_byte_order_mark_is_accepted() -> None:
    assert xml.parse(GOOD.encode("utf-8-sig"), "p.xml").n_procs == 5


@pytest.mark.parametrize("n_lines", range(1, 13))
def test_truncated_files(n_lines: int) -> None:
    errors = complaint("\n".join(GOOD.splitlines()[:n_lines]))
    is_inside = n_lines > 3  # before, no element is open
    expected = "the file ends inside <" if is_inside else "expected well-formed XML in UTF-8, found: no element found"
    assert expected in errors


def test_deep_nesting() -> None:
    opened = "".join(f'<zone id="z{n}" routing="Full">\n' for n in range(100_000))
    errors = complaint(f'<!DOCTYPE platform SYSTEM "x"><platform version="4.1">{opened}')
    assert errors == "p.xml: line 64: elements are nested too deeply; expected at most 64 levels"


@pytest.mark.parametrize(
    "radical",
    [
        "0-1000000000",
        "0-999999999,2000000000",
        ",".join(["0-9999999"] * 1000),
        "0-" + "9" * 5000,
        "9" * 5000,
        "0-9999999,5",
    ],
)
def test_huge_radicals_are_rejected_before_they_are_made(radical: str) -> None:
    tracemalloc.start()
    try:
        errors = complaint(cluster(radical))
        assert tracemalloc.get_traced_memory()[1] < 4 * 2**20
    finally:
        tracemalloc.stop()
    assert errors.startswith("p.xml: line 7: <cluster id=nodes> attribute radical: expected ")
    assert len(errors) < 300


def test_the_limit_counts_all_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pybatsched.platform.elements.MAX_HOSTS", 6)
    assert xml.parse(GOOD.encode(), "p.xml").n_procs == 5
    assert "attribute radical: expected" in complaint(cluster("0-6"))
    assert "<host id=master_host>: too many hosts; expected at most 6" in complaint(cluster("0-5"))
    more = '<cluster id="more" prefix="m" suffix="" radical="0-1" speed="1Gf" bw="1GBps" lat="0"/>'
    errors = complaint(GOOD.replace('  <zone id="front"', f'{more}<zone id="front"'))
    assert errors.startswith("p.xml: line 10: <cluster id=more> attribute radical: expected ")


def test_files_that_are_too_large(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "p.xml"
    path.write_text(GOOD)
    monkeypatch.setattr(xml, "MAX_BYTES", len(GOOD))
    assert read_platform(path).n_procs == 5
    monkeypatch.setattr(xml, "MAX_BYTES", len(GOOD) - 1)
    with pytest.raises(InputError, match="the file is too large"):
        read_platform(path)
    with pytest.raises(InputError, match="the file is too large"):
        read_platform("/dev/zero")


@pytest.mark.parametrize("piece", ["<!--", "<![CDATA[", "<?", "&amp;", "<", "-->", "&"])
def test_long_inputs_are_rejected_in_linear_time(piece: str) -> None:
    started = time.process_time()
    complaint(GOOD.replace("R&amp;D", "&amp;" + piece * 400_000 + '<"'))
    assert time.process_time() - started < 20  # a quadratic search takes hours


def test_long_texts_are_cut_in_errors() -> None:
    for old, new in [("1Gf,2f", "x" * 10**6), ('"nodes"', f'"{"y" * 10**6}" z="1"'), ("<link ", f"<{'q' * 10**6} ")]:
        assert len(complaint(GOOD.replace(old, new))) < 500
    assert "\n" not in complaint(GOOD.replace('"nodes"', '"a&#10;b" z="1"'))


@examples(150)
@given(st.data())
def test_damaged_files_give_input_errors_only(data: st.DataObject) -> None:
    raw = bytearray(GOOD.encode())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(raw) - 1))
        match data.draw(st.sampled_from(["change", "cut", "swap", "repeat"])):
            case "change":
                raw[at] = data.draw(st.sampled_from(b"\"'<>&;-,0123456789 =/!\x00\xff") | st.integers(0, 255))
            case "cut":
                del raw[at : at + data.draw(st.integers(1, 40))]
            case "swap":
                other = data.draw(st.integers(0, len(raw) - 1))
                raw[at], raw[other] = raw[other], raw[at]
            case _:
                raw[at:at] = raw[at : at + data.draw(st.integers(1, 200))]
        if not raw:
            break
    try:
        platform = xml.parse(bytes(raw), "p.xml")
    except InputError as error:
        assert str(error).startswith("p.xml")
    else:
        assert len(platform.compute) >= 1
        assert platform.master.role == "master"


@examples(60)
@given(
    st.text(max_size=30),
    st.sampled_from(["1Gf,2f", "0-3,7", "1GBps", "1us", "4.1", '2" bw', "Full", "0 0 0", "R&amp;D"]),
)
def test_any_attribute_value_is_read_or_an_input_error(value: str, instead_of: str) -> None:
    escaped = value.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
    try:
        data = GOOD.replace(instead_of, escaped + instead_of[instead_of.find('"') :] if '"' in instead_of else escaped)
        xml.parse(data.encode("utf-8", "surrogatepass"), "p.xml")
    except InputError as error:
        assert str(error).startswith("p.xml")
