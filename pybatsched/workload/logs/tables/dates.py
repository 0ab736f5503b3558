"""Find the formats of dates that are not ISO 8601, such as 01.03.2024 12:00, 3/1/2024 5:07 PM or 2024/03/01."""

from __future__ import annotations

import re
from calendar import month_name
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

Order = tuple[str, str]
DAY_FIRST: Final[Order] = ("%d", "%m")
MONTH_FIRST: Final[Order] = ("%m", "%d")
_TIME: Final = re.compile(
    r"(?:(?P<year>[0-9]{4})(?P<before>[./-])[0-9]{1,2}(?P=before)[0-9]{1,2}"
    r"|[0-9]{1,2}(?P<mark>[./-])[0-9]{1,2}(?P=mark)[0-9]{4})"
    r"(?:(?P<between>,?\s+|T)[0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?P<fraction>[.,][0-9]{1,6})?)?(?P<half>\s*[AP]M)?)?",
    re.IGNORECASE,
)
_DATE: Final = re.compile(r"([0-9]{1,2})([./-])([0-9]{1,2})\2[0-9]{4}")


@dataclass
class Dates:
    """The dates of one column. `form` is their format, with {} for day and month, which `mark` separates.

    `order` is that of day and month, if it is known, and `usual` the one that is used else. `example` is a date whose
    day and month may be exchanged. `other` is a time in another format.
    """

    form: str
    mark: str
    usual: Order
    order: Order | None = None
    example: str = ""
    other: str = ""

    @property
    def is_undecided(self) -> bool:
        """Return whether day and month may be exchanged."""
        return bool(self.mark) and self.order is None

    @property
    def format(self) -> str:
        """Return the format."""
        return self.form.format(*(self.order or self.usual))

    def take(self, cells: Iterable[Any]) -> None:
        """Look at more values: one above 12 is a day. O(cells)."""
        for date in filter(None, map(_DATE.match, dict.fromkeys(str(cell).strip()[:10] for cell in cells))):
            first, second = int(date[1]), int(date[3])
            if date[2] != self.mark or first == second:
                continue
            self.example = self.example or date[0]
            if max(first, second) > 12:
                self.order = self.order or (DAY_FIRST if first > 12 else MONTH_FIRST)

    def meaning(self) -> str:
        """Return the example and its meaning in words: 01.03.2024 the 1st of March."""
        first, second, _ = (int(one) for one in self.example.split(self.mark))
        day, month = (first, second) if self.usual == DAY_FIRST else (second, first)
        ending = {1: "st", 2: "nd", 3: "rd"}.get(day, "th")
        return f"{self.example} the {day}{ending} of {month_name[month]}"

    def exchanged(self) -> str:
        """Return the format of dates with day and month in the other order."""
        return self.mark.join([*reversed(self.usual), "%Y"])


def dates_of(sample: Iterable[Any]) -> Dates | None:
    """Return the dates that texts are, None if they are ISO 8601 or no dates. The first form counts.

    Usually, the month is first where slashes are, else the day.
    """
    found: dict[tuple[str, str], str] = {}
    are_iso = True
    for cell in sample:
        if isinstance(cell, str) and (match := _TIME.fullmatch(cell.strip())):
            found.setdefault(_form(match), cell.strip())
            are_iso = are_iso and _is_iso(cell.strip())
    if are_iso:
        return None
    (form, mark), *others = found
    return Dates(form, mark, MONTH_FIRST if mark == "/" else DAY_FIRST, other=found[others[0]] if others else "")


def _is_iso(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _form(time: re.Match[str]) -> tuple[str, str]:
    """Return the format of a time, with {} for day and month, and what separates these if they may be exchanged."""
    before, mark = time["before"], time["mark"]
    form = f"%Y{before}%m{before}%d" if time["year"] else f"{{}}{mark}{{}}{mark}%Y"
    if between := time["between"]:
        form += re.sub(r"\s+", " ", between) + ("%I:%M" if time["half"] else "%H:%M")
        form += ":%S" if time[0].count(":") == 2 else ""
        form += f"{time['fraction'][0]}%f" if time["fraction"] else ""
        form += ("%p" if len(time["half"]) == 2 else " %p") if time["half"] else ""
    return form, mark or ""
