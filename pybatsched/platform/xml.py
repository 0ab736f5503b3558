"""Safe reader of SimGrid's platform files (version 4 and 4.1).

Files are untrusted. The reader opens no other file, accepts only the five entities of XML, and limits size, depth and
number of hosts. The DOCTYPE may refer to SimGrid's DTD, which is never loaded; the table in
`pybatsched.platform.schema` replaces it. Errors have the line.
"""

from __future__ import annotations

import codecs
import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from xml.parsers import expat

from pybatsched.errors import InputError, did_you_mean
from pybatsched.platform.elements import Content
from pybatsched.platform.model import DEFAULT_MASTER, Platform
from pybatsched.platform.network import routing
from pybatsched.platform.notes import Element
from pybatsched.platform.roles import assemble
from pybatsched.platform.schema import DTDS, SCHEMAS, ElementSchema

MAX_BYTES = 512 * 1024 * 1024
MAX_DEPTH = 64

_OUTERMOST = ElementSchema(frozenset(), frozenset(), frozenset(("platform",)))

# The start of a section in which an ampersand has no meaning, or an ampersand that starts no known entity.
_MARK = re.compile(rb"<!--|<!\[CDATA\[|<\?|&(?!(?:amp|lt|gt|quot|apos|#[0-9]+|#x[0-9a-fA-F]+);)")
_LATE_DECLARATION = re.compile(rb"\s+<\?xml\s[^>]*\?>")
_CLOSING = {b"<!--": b"-->", b"<![CDATA[": b"]]>", b"<?": b"?>"}


def load(path: str | Path) -> bytes:
    """Return the content of a platform file, at most one byte more than the limit. Raises InputError."""
    try:
        with Path(path).open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a null byte in the path
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{path}: cannot be read: {reason}") from None


def parse(
    data: bytes, source: str, *, master: str = DEFAULT_MASTER, roles: Mapping[str, str] | None = None
) -> Platform:
    """Read a platform file; `source` names it in errors. O(bytes + n log n). Raises InputError with the line."""
    content = content_of(data, source)
    platform = assemble(content.hosts, source, master=master, roles=roles)
    found = paths_of(content, platform)
    refused = sorted(content.network.refused or found.missing)  # what is rejected is often why paths are missing
    return dataclasses.replace(
        platform,
        network=content.network,
        hop_s=found.hop_s,
        hop_at=found.hop_at,
        remarks=(*(f"{source}: line {line}: {text}" for line, text, _ in content.notes.remarks()), *platform.remarks),
        refused=tuple(f"{source}: line {line}: {text}" for line, text in refused),
    )


def content_of(data: bytes, source: str, problems: list[InputError] | None = None) -> Content:
    """Read the elements of a file. With `problems`, errors in elements are added there, and reading continues."""
    if len(data) > MAX_BYTES:
        raise InputError(f"{source}: the file is too large; expected at most {MAX_BYTES // 2**20} MiB")
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):  # expat would read it, but not the search below
        raise InputError(f"{source}: line 1: expected well-formed XML in UTF-8, found: UTF-16")
    # SimGrid accepts blanks before the declaration, and files with them exist. The encoding is fixed.
    late = _LATE_DECLARATION.match(data)
    if late is not None:
        data = re.sub(rb"[^\n]", b" ", late[0]) + data[late.end() :]
    content = _Parser(source, problems).parse(data)
    _refuse_entities(data, source)
    return content


def paths_of(content: Content, platform: Platform) -> routing.Findings:
    """Check the network paths of the platform."""
    storage = frozenset(host.name for host in platform.storage)
    return routing.find(content.network, content.hosts, content.slices, platform.master.name, storage)


def _refuse_entities(data: bytes, source: str) -> None:
    """Raise InputError for an entity that XML does not define: expat ignores it, as the DTD might have it. O(bytes)."""
    if b"&" not in data:
        return
    at = 0
    while match := _MARK.search(data, at):
        closing = _CLOSING.get(match[0])
        if closing is None:
            line = data.count(b"\n", 0, match.start()) + 1
            raise InputError(f"{source}: line {line}: '&' without a known entity; write &amp; for a plain '&'")
        at = data.index(closing, match.end()) + len(closing)


#: The reasons of expat for a file that ends too early.
_TRUNCATED: Final = frozenset({"no element found", "unclosed token", "unclosed CDATA section", "partial character"})


class _Parser:
    """One pass over a file. The schema of an open element with a mistake is None, and its content is skipped."""

    def __init__(self, source: str, problems: list[InputError] | None = None) -> None:
        self._source = source
        self._problems = problems
        self._content = Content(source)
        self._open: list[tuple[Element, ElementSchema | None]] = []
        self._has_doctype = False
        # The encoding is fixed, so that bytes can be searched for entities; the file's declaration is ignored.
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
            if reason in _TRUNCATED and self._open:
                inner = self._open[-1][0]
                text = f"the file ends inside {inner.name} (line {inner.line}); expected </{inner.tag}>"
                raise self._error(text, error.lineno) from None
            raise self._error(f"expected well-formed XML in UTF-8, found: {reason}", error.lineno) from None
        if data.startswith(codecs.BOM_UTF8):
            self._content.notes.remark(
                "BOM", 1, "the file starts with a byte order mark; SimGrid rejects it", is_refused=True
            )
        if not self._has_doctype:
            text = "the file has no DOCTYPE; SimGrid rejects it"
            self._content.notes.remark("DOCTYPE", 1, text, is_refused=True)
        return self._content

    def _error(self, text: str, line: int | None = None) -> InputError:
        return InputError(f"{self._source}: line {line or self._expat.CurrentLineNumber}: {text}")

    def _report(self, error: InputError) -> None:
        if self._problems is None:
            raise error
        self._problems.append(error)

    def _doctype(self, name: str, system: str | None, public: str | None, has_subset: int) -> None:
        self._has_doctype = True
        if name != "platform":
            raise self._error(f"DOCTYPE {name:.80}; expected platform")
        if system is not None and "<" in system:  # _refuse_entities would treat it as a comment
            raise self._error(f"DOCTYPE with the address {system!r:.80}; expected an address without <")
        if system not in DTDS or public is not None:
            text = f"DOCTYPE with the address {system!r:.80}; SimGrid accepts only {min(DTDS, key=len)}"
            self._content.notes.remark("DOCTYPE", self._expat.CurrentLineNumber, text, is_refused=True)
        if has_subset:
            raise self._error("the DOCTYPE has internal declarations; expected none (SimGrid also rejects them)")

    def _refuse(self, *_: object) -> int:
        raise self._error("the file declares or includes an entity; expected none")

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        if len(self._open) >= MAX_DEPTH:
            raise self._error(f"elements are nested too deeply; expected at most {MAX_DEPTH} levels")
        element = Element(tag, attributes, self._expat.CurrentLineNumber)
        outer, outer_schema = self._open[-1] if self._open else (None, _OUTERMOST)
        schema = None
        if outer_schema is not None:
            try:
                schema = self._schema(element, outer, outer_schema)
                self._content.begin(element, outer)
            except InputError as error:
                self._report(error)
                schema = None
        self._open.append((element, schema))

    def _schema(self, element: Element, outer: Element | None, outer_schema: ElementSchema) -> ElementSchema:
        """Return the schema of an element, and check its position and attributes."""
        tag, attributes = element.tag, element.attributes
        schema = SCHEMAS.get(tag)
        if schema is None:
            raise self._error(f"unknown element <{tag:.80}>{did_you_mean(tag, SCHEMAS, '')}")
        if tag not in outer_schema.children:
            if outer is None:
                raise self._error(f"<{tag}> is the outermost element; expected <platform>")
            expected = ", ".join(sorted(outer_schema.children)) or "nothing"
            raise self._error(f"<{tag}> inside {outer.name}; expected {expected}")
        if not schema.required <= attributes.keys() <= schema.attributes:
            self._check_attributes(element, schema)
        return schema

    def _check_attributes(self, element: Element, schema: ElementSchema) -> None:
        for key in sorted(element.attributes.keys() - schema.attributes):
            known = ", ".join(sorted(schema.attributes))
            raise self._error(f"{element.name} has an unknown attribute {key:.80}; expected {known}")
        for key in sorted(schema.required - element.attributes.keys()):
            raise self._error(f"{element.name} has no attribute {key}; expected one")

    def _end(self, _tag: str) -> None:
        element, schema = self._open.pop()
        if schema is not None:
            try:
                self._content.end(element)
            except InputError as error:
                self._report(error)

    def _text(self, text: str) -> None:
        if not text.isspace() and self._open and self._open[-1][0].tag != "trace":
            name = self._open[-1][0].name
            self._report(self._error(f"text inside {name}: {text.strip()!r:.40}; expected elements only"))
