"""Draw a schedule's last firings as SVG: one bar for each firing; a late firing has a high bar."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from shardclock_server.service.wording import counted
from shardclock_server.sql.clients.firings import FIRINGS_MAX, PastFiring
from shardclock_server.sql.metrics.past import LATE_S

BAR_PX, HEIGHT_PX = 5, 24
LOWEST_PX = 4
HIGHEST_S = 3_600  # the lateness that gives a bar the full height
KINDS = {"punctual": "on time", "late": "late", "skipped": "skipped"}


@dataclass(frozen=True, slots=True)
class Strip:
    """The bars, as one SVG path for each outcome, and a sentence that describes the bars."""

    paths: Sequence[tuple[str, str]]
    label: str


def strip_of(firings: Sequence[PastFiring]) -> Strip:
    """Draw at most 30 firings, given the newest first; the newest is at the right end of the strip."""
    bars, numbers = dict.fromkeys(KINDS, ""), dict.fromkeys(KINDS, 0)
    for place, firing in enumerate(reversed(firings), start=FIRINGS_MAX - len(firings)):
        kind = _kind(firing)
        numbers[kind] += 1
        bars[kind] += f"M{place * BAR_PX + BAR_PX // 2} {HEIGHT_PX}v-{_height(firing)}"
    shown = ", ".join(f"{numbers[kind]} {words}" for kind, words in KINDS.items())
    label = f"last {counted(len(firings), 'firing')}: {shown}"
    paths = [(kind, path) for kind, path in bars.items() if path]
    return Strip(paths, label)


def _kind(firing: PastFiring) -> str:
    if firing.late_s is None:
        return "skipped"
    return "late" if firing.late_s > LATE_S else "punctual"


def _height(firing: PastFiring) -> int:
    return HEIGHT_PX if firing.late_s is None else height_of_lag(firing.late_s)


def height_of_lag(late_s: float) -> int:
    """Return the height of a bar for a lag, on a logarithmic scale."""
    share = math.log1p(max(0.0, late_s) * 1_000) / math.log1p(HIGHEST_S * 1_000)
    return LOWEST_PX + round((HEIGHT_PX - LOWEST_PX) * min(1.0, share))
