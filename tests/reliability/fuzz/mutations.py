"""Mutations of input: bytes, tokens of a text, values of JSON and msgpack, lines, and the order of messages.

All choices come from the bytes of a case. Hypothesis draws them, and makes them smaller for a case that fails.
"""

from __future__ import annotations

import itertools
import re
from array import array
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias

import msgspec

from reliability.cases import Dice

Mutator: TypeAlias = Callable[[Dice, bytes, bytes], bytes]  # what is mutated, and another piece of its kind

#: Numbers, as JSON and other texts may write them.
NUMBERS: Final = (
    *b"0 -0 -0.0 1 -1 2 3 8 0.5 1.5 1. .5 +1 1e 1e5 007 0x10 1_000 NaN Infinity -Infinity nan inf 0.1234567".split(),
    *b"1e-7 -1e-300 5e-324 1e308 -1e308 1e309 1e400 1e15 1e22 1000000 1000000000 2147483648 4294967296".split(),
    *b"9007199254740993 9223372036854775807 9223372036854775808 -9223372036854775809 18446744073709551616".split(),
    *(b"1" + b"0" * 400, b"-1" + b"0" * 400, b"9" * 5000, b"0." + b"3" * 400),
)

#: What may be written in place of a name, without its quotes.
TEXTS: Final = (
    *b"! w0! !1 w0!1!2 w1!0 dyn!w0.1.1 dyn!1 no-such-job 0 -1 3-0 0-99999999 - inf nan 1e999 true %s%n {}".split(),
    *rb"\u0000 \ud800 \n \u001b[2J \u202e ../../../etc/passwd /dev/null tests/support/agents.py:by_numbers".split(),
    *b"x.py:X \xff\xfe \xed\xa0\x80 \xf0\x9f\x92\xa3 COMPLETED_SUCCESSFULLY REJECTED".split(),
    *b"NOT_SUBMITTED idle sleeping generic parent=w0!1;segment=1;kind=requeue segment=;parent=;= delay".split(),
    *b"composed parallel parallel_homogeneous_total recv event_machine_unavailable".split(),
    *(b"", b" ", b"0 0 0", b"0-3 5", b"x" * 70000),
)
#: JSON values in place of others.
VALUES: Final = tuple(b'null true false [] {} "" "0" [[]] [null] {"":null} [1,2] {"id":1}'.split())
#: Bytes that may be inserted.
_MORE: Final = (*(bytes([one]) for one in b'\0\n\r",{]\\\x85'), b"\xef\xbb\xbf")
DEEP: Final = (40, 600, 1200, 20000)
_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null')
_WORD: Final = re.compile(rb"[A-Za-z_][\w.!-]*|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_N_KEPT: Final = 8192
_MAX_BYTES: Final = 20_000


@lru_cache(_N_KEPT)
def _edges(pattern: re.Pattern[bytes], raw: bytes) -> array[int]:
    """Return the starts and ends of tokens, one after the other. O(size)."""
    return array("I", [edge for found in pattern.finditer(raw) for edge in found.span()])


def _span(dice: Dice, pattern: re.Pattern[bytes], raw: bytes) -> tuple[int, int] | None:
    """Choose a token; in a large text one near its start; None if there is none."""
    edges = _edges(pattern, raw[:_MAX_BYTES])
    at = 2 * int(dice.part() * (len(edges) // 2))
    return (edges[at], edges[at + 1]) if edges else None


def _flip(dice: Dice, raw: bytes, _: bytes) -> bytes:
    changed = bytearray(raw)
    for _n in range(dice.choice((1, 1, 1, 2, 8)) if raw else 0):
        changed[dice.below(len(changed))] ^= 1 << dice.below(8)
    return bytes(changed)


def _cut(dice: Dice, raw: bytes, _: bytes) -> bytes:
    return raw[: dice.below(len(raw) + 1)]


def _behead(dice: Dice, raw: bytes, _: bytes) -> bytes:
    return raw[dice.below(len(raw) + 1) :]


def _slice(dice: Dice, raw: bytes) -> tuple[int, int]:
    at = dice.below(len(raw) + 1)
    return at, min(at + int((1 - dice.part()) ** (-1 / 0.7)), len(raw))


def _drop(dice: Dice, raw: bytes, _: bytes) -> bytes:
    begin, end = _slice(dice, raw)
    return raw[:begin] + raw[end:]


def _double(dice: Dice, raw: bytes, _: bytes) -> bytes:
    begin, end = _slice(dice, raw)
    return raw[:end] + raw[begin:]


def _insert(dice: Dice, raw: bytes, _: bytes) -> bytes:
    at = dice.below(len(raw) + 1)
    more = dice.choice((*_MORE, bytes(dice.byte() for _ in range(3))))
    return raw[:at] + more + raw[at:]


def _splice(dice: Dice, raw: bytes, other: bytes) -> bytes:
    return raw[: dice.below(len(raw) + 1)] + other[dice.below(len(other) + 1) :]


BYTES: Final[tuple[Mutator, ...]] = (_flip, _cut, _behead, _drop, _double, _insert, _splice)


def _put(raw: bytes, span: tuple[int, int], token: bytes) -> bytes:
    return raw[: span[0]] + token + raw[span[1] :]


def _token(dice: Dice, raw: bytes, other: bytes) -> bytes:
    """Put something else in place of a JSON value or name that is no container, mostly of its own kind."""
    span = _span(dice, _TOKEN, raw)
    if span is None:
        return _flip(dice, raw, other)
    how = dice.part()
    if how < 0.45 and raw[span[0]] == 0x22:
        token = b'"' + dice.choice(TEXTS) + b'"'
    elif how < 0.45 or 0.65 <= how < 0.75:
        token = dice.choice(NUMBERS)
    elif how < 0.65:  # a name of another job, say
        token = _another(dice, _TOKEN, raw, other)
    elif how < 0.97:
        token = dice.choice(VALUES)
    else:
        depth = dice.choice(DEEP)
        token = b"[" * depth + b"]" * depth if dice.part() < 0.5 else b'{"a":' * depth + b"1" + b"}" * depth
    return _put(raw, span, token)


def _another(dice: Dice, pattern: re.Pattern[bytes], raw: bytes, other: bytes) -> bytes:
    source = raw if dice.part() < 0.6 else other
    begin, end = _span(dice, pattern, source) or (0, 0)
    return source[begin:end]


def _mild(dice: Dice, raw: bytes, other: bytes) -> bytes:
    """Replace a number or text by another one of the input, or by a number nearby: many results are valid."""
    span = _span(dice, _TOKEN, raw)
    if span is None:
        return _flip(dice, raw, other)
    token = raw[slice(*span)]
    candidates = (_another(dice, _TOKEN, raw, other) for _ in range(8))
    same_kind = (one for one in candidates if (one[:1] == b'"') is (token[:1] == b'"') and one != token)
    token = next(same_kind, token)
    if token.isdigit() and dice.part() < 0.5:
        token = b"%d" % (int(token[:15]) + dice.choice((-1, 1, 7)))
    return _put(raw, span, token)


def _word(dice: Dice, raw: bytes, other: bytes) -> bytes:
    """Replace a word or a number of a text."""
    span = _span(dice, _WORD, raw)
    if span is None:
        return _flip(dice, raw, other)
    how = dice.part()
    if how < 0.2:
        return _put(raw, span, _another(dice, _WORD, raw, other))
    return _put(raw, span, dice.choice(NUMBERS if how < 0.7 else TEXTS))


def _line(dice: Dice, raw: bytes, other: bytes) -> bytes:
    """Drop, repeat, swap, join or cut lines, or put one of another file there."""
    lines = raw.split(b"\n")
    first, second = dice.below(len(lines)), dice.below(len(lines))
    match dice.below(7):
        case 0:
            del lines[first]
        case 1:
            lines.insert(second, lines[first])
        case 2:
            lines[first], lines[second] = lines[second], lines[first]
        case 3:
            lines[first : first + 2] = [b" ".join(lines[first : first + 2])]
        case 4:
            fields = lines[first].split()
            lines[first] = b" ".join(fields[: dice.below(len(fields) + 1)])
        case 5:
            lines.insert(first, dice.choice(other.split(b"\n")))
        case _:
            return b"\r\n".join(lines)
    return b"\n".join(lines)


def _containers(value: Any) -> list[Any]:
    """Return all containers within a value that hold something, itself included; up to some thousands. O(size)."""
    found = [value] if isinstance(value, dict | list) and value else []
    for one in found:
        if len(found) > 3000:
            break
        members = one.values() if isinstance(one, dict) else one
        found += [part for part in members if isinstance(part, dict | list) and part]
    return found


def change_value(dice: Dice, value: Any) -> None:
    """Change a tree of JSON in place: drop, repeat, rename, swap, or wrap members and elements."""
    containers = _containers(value)
    if not containers:
        return
    one, how = dice.choice(containers), dice.below(6)
    keys: Sequence[Any] = list(one) if isinstance(one, dict) else range(len(one))
    first, second = dice.choice(keys), dice.choice(keys)
    wrapped: tuple[Any, ...] = (
        [one[first]],
        None,
        {"": one[first]},
        str(one[first])[:99],
        [one[first]] * 50,
        [],
        {},
        0,
        -1,
        1.5,
        True,
    )
    if how == 0:
        del one[first]
    elif how == 3:
        one[first], one[second] = one[second], one[first]
    elif how == 5:
        one[first] = dice.choice(wrapped)
    elif isinstance(one, list):
        one.sort(key=lambda _: dice.byte()) if how == 4 else one.insert(second, one[first])
    elif how == 4:
        one[dice.choice(("extra", "beside", "", "event_type", "policy", "depends_on"))] = one[first]
    else:
        one[dice.choice(("", "id", "x", "type", "job_id", "timestamp", str(first).upper()))] = one.pop(first)


def _tree(dice: Dice, raw: bytes, other: bytes) -> bytes:
    """Change the structure of a JSON text; of another text its bytes."""
    try:
        value = msgspec.json.decode(raw.rstrip(b"\0"))
        change_value(dice, value)
        return msgspec.json.encode(value)
    except (ValueError, RecursionError):
        return _drop(dice, raw, other)


def _twice(dice: Dice, raw: bytes, _: bytes) -> bytes:
    """Write a member of a JSON text a second time, as no tree can."""
    begin, end = _span(dice, _TOKEN, raw) or (0, len(raw))
    return raw[:end] + b"," + raw[begin:]


LINES: Final[tuple[Mutator, ...]] = (_line,) * 4
JSON: Final[tuple[Mutator, ...]] = (*BYTES, *(_token,) * 9, *(_tree,) * 5, *(_mild,) * 9, _twice)
TEXT: Final[tuple[Mutator, ...]] = (*BYTES, *(_word,) * 9, *LINES)
#: Files that were not written, or not copied, to their end. Other damage can make polars abort the process.
HALVES: Final[tuple[Mutator, ...]] = (_cut, _behead)


def mutated(dice: Dice, raw: bytes, other: bytes, mutators: Sequence[Mutator] = JSON) -> bytes:
    """Mutate a piece once, or a few times. O(size)."""
    for _ in range(dice.choice((1, 1, 1, 1, 2, 3))):
        raw = dice.choice(mutators)(dice, raw, other)
    return raw


def mutated_conversation(dice: Dice, pieces: Sequence[bytes], others: Sequence[bytes], at: int) -> Iterator[bytes]:
    """Return what comes from message `at` on, for ever: mutated, repeated, out of order, left out, or as it was."""
    for place in itertools.count(at):
        how = dice.part()
        raw = pieces[min(place, len(pieces) - 1)]
        if how < 0.8:
            yield mutated(dice, raw, dice.choice(others))
        elif how < 0.9:
            yield dice.choice(pieces)
        elif how < 0.95:
            yield raw
