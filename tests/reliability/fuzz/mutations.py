"""Mutations of input: bytes, tokens of a text, values of JSON and msgpack, lines, and the order of messages.

All choices come from the bytes of a case. Hypothesis draws them, and makes them smaller for a case that fails.
"""

from __future__ import annotations

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
    *(b"", b" ", b"!", b"w0!", b"!1", b"w0!1!2", b"w1!0", b"dyn!w0.1.1", b"dyn!1", b"no-such-job", b"0", b"-1"),
    b"0-3 5",
    *(b"3-0", b"0-99999999", b"0 0 0", b"-", b"\\u0000", b"\\ud800", b"\\n", b"\\u001b[2J", b"\\u202e", b"%s%n", b"{}"),
    *(
        b"../../../etc/passwd",
        b"/dev/null",
        b"tests/support/agents.py:by_numbers",
        b"x.py:X",
        b"\xff\xfe",
        b"\xed\xa0\x80",
    ),
    *(b"\xf0\x9f\x92\xa3", b"x" * 70000, b"inf", b"nan", b"1e999", b"true", b"COMPLETED_SUCCESSFULLY", b"REJECTED"),
    *(b"NOT_SUBMITTED", b"idle", b"sleeping", b"generic", b"parent=w0!1;segment=1;kind=requeue", b"segment=;parent=;="),
    *(b"delay", b"composed", b"parallel", b"parallel_homogeneous_total", b"recv", b"event_machine_unavailable"),
)
#: JSON values in place of others.
VALUES: Final = (
    *(b"null", b"true", b"false", b"[]", b"{}", b'""', b'"0"'),
    *(b"[[]]", b"[null]", b'{"":null}', b"[1,2]", b'{"id":1}'),
)
DEEP: Final = (40, 600, 1200, 20000)
_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null')
_WORD: Final = re.compile(rb"[A-Za-z_][\w.!-]*|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_N_KEPT: Final = 8192
_MAX_BYTES: Final = 20_000


@lru_cache(_N_KEPT)
def _edges(pattern: re.Pattern[bytes], raw: bytes) -> array[int]:
    """Return the starts and ends of tokens, one after the other. O(size)."""
    return array("I", [edge for found in pattern.finditer(raw) for edge in found.span()])


def _n_tokens(pattern: re.Pattern[bytes], raw: bytes) -> int:
    return len(_edges(pattern, raw[:_MAX_BYTES])) // 2


def _span(dice: Dice, pattern: re.Pattern[bytes], raw: bytes) -> tuple[int, int]:
    """Choose a token; in a large text one near its start; None if there is none."""
    edges = _edges(pattern, raw[:_MAX_BYTES])
    at = 2 * int(dice.part() * (len(edges) // 2))
    return (edges[at], edges[at + 1]) if edges else (0, 0)


def _flip(dice: Dice, raw: bytes, _: bytes) -> bytes:
    changed = bytearray(raw)
    for _n in range(dice.choice((1, 1, 1, 2, 8))):
        if changed:
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
    more = dice.choice(
        (
            b"\0",
            b"\n",
            b"\r",
            b'"',
            b",",
            b"{",
            b"]",
            b"\\",
            b"\xef\xbb\xbf",
            b"\x85",
            bytes(dice.byte() for _ in range(3)),
        )
    )
    return raw[:at] + more + raw[at:]


def _splice(dice: Dice, raw: bytes, other: bytes) -> bytes:
    return raw[: dice.below(len(raw) + 1)] + other[dice.below(len(other) + 1) :]


BYTES: Final[tuple[Mutator, ...]] = (_flip, _cut, _behead, _drop, _double, _insert, _splice)


def _put(raw: bytes, span: tuple[int, int], token: bytes) -> bytes:
    return raw[: span[0]] + token + raw[span[1] :]


def _token(dice: Dice, raw: bytes, other: bytes) -> bytes:
    """Put something else in place of a JSON value or name that is no container, mostly of its own kind."""
    if not _n_tokens(_TOKEN, raw):
        return _flip(dice, raw, other)
    span = _span(dice, _TOKEN, raw)
    how = dice.part()
    is_text = raw[span[0]] == 0x22
    if how < 0.45:
        token = b'"' + dice.choice(TEXTS) + b'"' if is_text else dice.choice(NUMBERS)
    elif how < 0.65:  # a name of another job, say
        token = _another(dice, raw, other)
    elif how < 0.75:
        token = dice.choice(NUMBERS)
    elif how < 0.97:
        token = dice.choice(VALUES)
    else:
        depth = dice.choice(DEEP)
        token = b"[" * depth + b"]" * depth if dice.part() < 0.5 else b'{"a":' * depth + b"1" + b"}" * depth
    return _put(raw, span, token)


def _another(dice: Dice, raw: bytes, other: bytes) -> bytes:
    source = raw if dice.part() < 0.6 else other
    begin, end = _span(dice, _TOKEN, source)
    return source[begin:end]


def _mild(dice: Dice, raw: bytes, other: bytes) -> bytes:
    """Replace a number or text by another one of the input, or by a number nearby: many results are valid."""
    if not _n_tokens(_TOKEN, raw):
        return _flip(dice, raw, other)
    span = _span(dice, _TOKEN, raw)
    token = raw[span[0] : span[1]]
    for _ in range(8):  # to find one of the same kind
        found = _another(dice, raw, other)
        if (found[:1] == b'"') is (token[:1] == b'"') and found != token:
            token = found
            break
    if token[:1] != b'"' and dice.part() < 0.5 and token.isdigit():
        token = b"%d" % (int(token[:15]) + dice.choice((-1, 1, 7)))
    return _put(raw, span, token)


def _replace_token(dice: Dice, raw: bytes, other: bytes) -> bytes:
    """Replace a token or a number of a text."""
    if not _n_tokens(_WORD, raw):
        return _flip(dice, raw, other)
    how = dice.part()
    if how < 0.5:
        token = dice.choice(NUMBERS)
    elif how < 0.7:
        begin, end = _span(dice, _WORD, raw)
        token = raw[begin:end]
    else:
        token = dice.choice(TEXTS)
    return _put(raw, _span(dice, _WORD, raw), token)


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


def _places(value: Any) -> Iterator[Any]:
    """Return all containers within a value, itself included; up to some thousands. O(size)."""
    found = [value]
    for one in found:
        if len(found) > 3000:
            break
        inner = one.values() if isinstance(one, dict) else one
        found += [part for part in inner if isinstance(part, dict | list) and part]
    return iter(found)


def change_value(dice: Dice, value: Any) -> None:
    """Change a tree of JSON in place: drop, repeat, rename, swap, or wrap members and elements."""
    if not isinstance(value, dict | list) or not value:
        return
    one = dice.choice(list(_places(value)))
    how = dice.below(6)
    if isinstance(one, list):
        first, second = dice.below(len(one)), dice.below(len(one))
        if how == 0:
            del one[first]
        elif how in {1, 2}:
            one.insert(second, one[first])
        elif how == 3:
            one[first], one[second] = one[second], one[first]
        elif how == 4:
            one.sort(key=lambda _: dice.byte())
        else:
            one[first] = dice.choice(([one[first]], None, {"": one[first]}, str(one[first])[:99], [one[first]] * 50))
        return
    keys = list(one)
    first, second = dice.choice(keys), dice.choice(keys)
    if how in {0, 1}:
        del one[first]
    elif how == 2:
        one[dice.choice(("", "id", "x", "type", "job_id", "timestamp", str(first).upper()))] = one.pop(first)
    elif how == 3:
        one[first], one[second] = one[second], one[first]
    elif how == 4:
        one[dice.choice(("extra", "beside", "", "event_type", "policy", "depends_on"))] = one[first]
    else:
        one[first] = dice.choice(([one[first]], None, {"": one[first]}, str(one[first])[:99], [], {}, 0, -1, 1.5, True))


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
    if _n_tokens(_TOKEN, raw) < 2:
        return raw + raw
    begin, end = _span(dice, _TOKEN, raw)[0], _span(dice, _TOKEN, raw)[1]
    begin, end = min(begin, end), max(begin, end)
    return raw[:end] + b"," + raw[begin:]


JSON: Final[tuple[Mutator, ...]] = (*BYTES, *(_token,) * 9, *(_tree,) * 5, *(_mild,) * 9, _twice)
TEXT: Final[tuple[Mutator, ...]] = (*BYTES, *(_replace_token,) * 9, *(_line,) * 4)


def mutated(dice: Dice, raw: bytes, other: bytes, mutators: Sequence[Mutator] = JSON) -> bytes:
    """Mutate a piece once, or a few times. O(size)."""
    for _ in range(dice.choice((1, 1, 1, 1, 2, 3))):
        raw = dice.choice(mutators)(dice, raw, other)
    return raw


def mutated_conversation(dice: Dice, pieces: Sequence[bytes], others: Sequence[bytes], at: int) -> Iterator[bytes]:
    """Return what comes from message `at` on, for ever: mutated, repeated, out of order, left out, or as it was."""
    while True:
        raw = pieces[min(at, len(pieces) - 1)]
        how = dice.part()
        if how < 0.8:
            raw = mutated(dice, raw, dice.choice(others))
        elif how < 0.9:
            raw = dice.choice(pieces)
        else:
            at += 1
            raw = pieces[min(at, len(pieces) - 1)]
        yield raw
        at += 1
