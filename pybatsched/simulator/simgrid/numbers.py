"""Numbers as Batsim reads them from JSON.

Batsim's reader (RapidJSON, without its option of full precision) keeps at most 17 digits in a double and divides by a
power of ten once. A number with more than 15 digits may therefore differ from the nearest double in the last bit. The
text of a number is taken to be the shortest one, as Python and most other programs write it.
"""

from __future__ import annotations

from typing import Final

_EXACT: Final = 2**53 - 1  # the largest significand to which the reader adds another digit exactly
_MAX_DIGITS: Final = 17
_LOWEST: Final = -308


def as_read(value: float) -> float:
    """Return the number that Batsim gets when it parses the JSON text of `value`. O(digits).

    >>> as_read(9.500499999999999)
    9.5005
    >>> as_read(0.1)
    0.1
    """
    text = repr(value)
    if len(text) <= 16 and "e" not in text:  # up to 15 digits: the quotient of two exact doubles
        return value
    digits, _, power = text.lstrip("-").partition("e")
    whole, _, fraction = digits.partition(".")
    exponent = int(power or 0)
    significand = int(whole)
    n_digits = len(whole) - 1  # the reader does not count the first
    rest = ""
    for place, digit in enumerate(fraction):
        if significand > _EXACT:
            rest = fraction[place:]
            break
        significand = significand * 10 + int(digit)
        exponent -= 1
        n_digits += significand != 0
    number = float(significand)
    for digit in rest:
        if n_digits < _MAX_DIGITS:
            number = number * 10.0 + int(digit)
            exponent -= 1
            n_digits += 1
    if exponent < _LOWEST:
        number = _scaled(number, _LOWEST)
        exponent -= _LOWEST
    number = _scaled(number, exponent)
    return -number if value < 0 else number


def _scaled(number: float, exponent: int) -> float:
    power = float(f"1e{abs(exponent)}")
    return number * power if exponent >= 0 else number / power
