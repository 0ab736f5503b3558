"""Reading SimGrid's platform files (version 4 and 4.1) safely.

A file is data from anybody: nothing it names is opened, no entity but the five of XML is known, and size, depth and
number of hosts have limits. The DOCTYPE may point to SimGrid's DTD, which is never loaded; what it demands is checked
here by a table of our own (`pybatsched.platform.schema`). Errors tell the line.
"""

from __future__ import annotations

import codecs
import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path
from xml.parsers import expat

from pybatsched.errors import InputError
from pybatsched.platform import routing
from pybatsched.platform.elements import Content
from pybatsched.platform.model import DEFAULT_MASTER, Platform
from pybatsched.platform.notes import Place
from pybatsched.platform.roles import assemble
from pybatsched.platform.schema import DTDS, SHAPES, Shape

MAX_BYTES = 512 * 1024 * 1024
MAX_DEPTH = 64

_OUTERMOST = Shape(frozenset(), frozenset(), frozenset(("platform",)))

# What begins a part in which an ampersand is nothing special, or an ampersand that begins no entity that we know.
_MARK = re.compile(rb"<!--|<!\[CDATA\[|<\?|&(?!(?:amp|lt|gt|quot|apos|#[0-9]+|#x[0-9a-fA-F]+);)")
_LATE_DECLARATION = re.compile(rb"\s+<\?xml\s[^>]*\?>")
_CLOSING = {b"<!--": b"-->", b"<![CDATA[": b"]]>", b"<?": b"?>"}


def read(path: str | Path, *, master: str = DEFAULT_MASTER, roles: Mapping[str, str] | None = None) -> Platform:
    """Read a platform file; `master` and `roles` are Batsim's ``-m`` and ``-r``.

    O(bytes + n log n) for n hosts. Raises InputError that names file, line, element and attribute.
    """
    return parse(load(path), str(path), master=master, roles=roles)


def load(path: str | Path) -> bytes:
    """Give the content of a platform file, up to a byte more than may be. Raises InputError."""
    try:
        with Path(path).open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a null byte in the path
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{path}: cannot read the platform: {reason}") from None


def parse(
    data: bytes, source: str, *, master: str = DEFAULT_MASTER, roles: Mapping[str, str] | None = None
) -> Platform:
    """Read the content of a platform file; `source` names it in errors. See `read`."""
    content = content_of(data, source)
    platform = assemble(content.hosts, source, master=master, roles=roles)
    found = ways_of(content, platform)
    refused = sorted([*content.network.refused, *found.missing])
    return dataclasses.replace(
        platform,
        hop_s=found.hop_s,
        hop_at=found.hop_at,
        remarks=(*(f"{source}, line {line}: {text}" for line, text, _ in content.remarks()), *platform.remarks),
        refused=tuple(f"{source}, line {line}: {text}" for line, text in refused),
    )


def content_of(data: bytes, source: str, problems: list[InputError] | None = None) -> Content:
    """Read the elements of a file. With a list for problems, what is wrong with one goes there and the rest is read."""
    if len(data) > MAX_BYTES:
        raise InputError(f"{source}: the file is too large; expected {MAX_BYTES // 2**20} MiB at most")
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):  # expat would follow it, the search below not
        raise InputError(f"{source}, line 1: expected well-formed XML in UTF-8, got: UTF-16")
    # SimGrid takes blanks before the declaration, and files with them exist. The encoding is fixed anyway.
    late = _LATE_DECLARATION.match(data)
    if late is not None:
        data = re.sub(rb"[^\n]", b" ", late[0]) + data[late.end() :]
    content = _Parser(source, problems).parse(data)
    _refuse_entities(data, source)
    return content


def ways_of(content: Content, platform: Platform) -> routing.Findings:
    """Find where the platform's network leads."""
    storage = frozenset(host.name for host in platform.storage)
    return routing.find(content.network, content.hosts, content.slices, platform.master.name, storage)


def _refuse_entities(data: bytes, source: str) -> None:
    """Raise InputError if an entity is used that XML does not define itself. O(bytes).

    Expat drops it in silence, because the DTD that we do not load might declare it. The file is well-formed.
    """
    if b"&" not in data:
        return
    at = 0
    while match := _MARK.search(data, at):
        closing = _CLOSING.get(match[0])
        if closing is None:
            line = data.count(b"\n", 0, match.start()) + 1
            raise InputError(f"{source}, line {line}: an ampersand; expected &amp;, &lt;, &gt;, &quot; or &apos;")
        at = data.index(closing, match.end()) + len(closing)


class _Parser:
    """One pass over a file: what is XML's matter and the DTD's.

    Elements open at any time are on `_open`; the shape of one with a mistake is None, and what is in it is passed over.
    """

    def __init__(self, source: str, problems: list[InputError] | None = None) -> None:
        self._source = source
        self._problems = problems
        self._content = Content(source)
        self._open: list[tuple[Place, Shape | None]] = []
        self._has_doctype = False
        # The encoding is fixed, whatever the file declares, so that bytes can be searched for entities.
        self._expat = expat.ParserCreate("utf-8")
        self._expat.buffer_text = True
        self._expat.StartElementHandler = self._start
        self._expat.EndElementHandler = self._end
        self._expat.CharacterDataHandler = self._text
        self._expat.StartDoctypeDeclHandler = self._doctype
        self._expat.EntityDeclHandler = self._refuse
        self._expat.UnparsedEntityDeclHandler = self._refuse
        self._expat.ExternalEntityRefHandler = self._refuse

    def parse(self, data: bytes) -> Content:
        try:
            self._expat.Parse(data, True)
        except expat.ExpatError as error:
            reason = expat.ErrorString(error.code)
            raise self._error(f"expected well-formed XML in UTF-8, got: {reason}", error.lineno) from None
        if data.startswith(codecs.BOM_UTF8):
            self._content.remark(
                "BOM", 1, "the file begins with a byte order mark; SimGrid refuses it", is_refused=True
            )
        if not self._has_doctype:
            text = "there is no DOCTYPE; SimGrid refuses such a file"
            self._content.remark("DOCTYPE", 1, text, is_refused=True)
        return self._content

    def _error(self, text: str, line: int | None = None) -> InputError:
        return InputError(f"{self._source}, line {line or self._expat.CurrentLineNumber}: {text}")

    def _report(self, error: InputError) -> None:
        if self._problems is None:
            raise error
        self._problems.append(error)

    def _doctype(self, name: str, system: str | None, public: str | None, has_subset: int) -> None:
        self._has_doctype = True
        if name != "platform":
            raise self._error(f"DOCTYPE {name:.80}; expected platform")
        if system is not None and "<" in system:  # it would look like a comment to _refuse_entities
            raise self._error(f"DOCTYPE with the address {system!r:.80}; expected none with a <")
        if system not in DTDS or public is not None:
            text = f"DOCTYPE with the address {system!r:.80}; SimGrid takes {min(DTDS, key=len)} only"
            self._content.remark("DOCTYPE", self._expat.CurrentLineNumber, text, is_refused=True)
        if has_subset:
            raise self._error("the DOCTYPE has declarations of its own; expected none (nor does SimGrid take them)")

    def _refuse(self, *_: object) -> int:
        raise self._error("an entity is declared or fetched; expected none")

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        if len(self._open) >= MAX_DEPTH:
            raise self._error(f"elements are nested too deeply; expected {MAX_DEPTH} levels at most")
        place = Place(tag, attributes, self._expat.CurrentLineNumber)
        outer, outer_shape = self._open[-1] if self._open else (None, _OUTERMOST)
        shape = None
        if outer_shape is not None:
            try:
                shape = self._shape(place, outer, outer_shape)
                self._content.begin(place, outer)
            except InputError as error:
                self._report(error)
                shape = None
        self._open.append((place, shape))

    def _shape(self, place: Place, outer: Place | None, outer_shape: Shape) -> Shape:
        """Find the shape of an element, and make sure that it may be there as it is."""
        tag, attributes = place.tag, place.attributes
        shape = SHAPES.get(tag)
        if shape is None:
            raise self._error(f"unknown element <{tag:.80}>")
        if tag not in outer_shape.children:
            if outer is None:
                raise self._error(f"<{tag}> is the outermost element; expected <platform>")
            expected = ", ".join(sorted(outer_shape.children)) or "nothing"
            raise self._error(f"<{tag}> inside {outer.name}; expected {expected}")
        if not shape.required <= attributes.keys() <= shape.attributes:
            self._check_attributes(place, shape)
        return shape

    def _check_attributes(self, place: Place, shape: Shape) -> None:
        for key in sorted(shape.required - place.attributes.keys()):
            raise self._error(f"{place.name} has no attribute {key}; expected one")
        for key in sorted(place.attributes.keys() - shape.attributes):
            known = ", ".join(sorted(shape.attributes))
            raise self._error(f"{place.name} has an attribute {key:.80}; expected {known}")

    def _end(self, _tag: str) -> None:
        place, shape = self._open.pop()
        if shape is not None:
            try:
                self._content.end(place)
            except InputError as error:
                self._report(error)

    def _text(self, text: str) -> None:
        if not text.isspace() and self._open and self._open[-1][0].tag != "trace":
            name = self._open[-1][0].name
            self._report(self._error(f"text inside {name}: {text.strip()!r:.40}; expected elements only"))
