"""Draw the last two hours as SVG: for each kind of event a row with one bar for each minute."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from shardclock_server.gateway.console.strip import BAR_PX, HEIGHT_PX, LOWEST_PX, height_of_lag
from shardclock_server.service.overview import RECENT_MINUTES
from shardclock_server.sql.metrics.past import PastMinute, count_past
from shardclock_server.sql.metrics.status import read_clock
from shardclock_server.sql.session import Session

MINUTES = 120
MINUTE = timedelta(minutes=1)


class EventKind(NamedTuple):
    """A kind of event: its label, CSS class and name in the log, and a function that returns its number in a minute."""

    label: str
    css: str
    event: str
    number_of: Callable[[PastMinute], int]


FIRINGS = EventKind("Firings", "fired", "TRIGGERED", lambda it: it.fired)
LATE_FIRINGS = EventKind("Late firings", "late", "TRIGGERED", lambda it: it.late)
DELIVERIES = EventKind("Deliveries", "delivered", "DELIVERED", lambda it: it.delivered)
DEAD_LETTERS = EventKind("New dead letters", "died", "DEAD", lambda it: it.died)


@dataclass(frozen=True, slots=True)
class PastRow:
    """The bars and the total of one kind of event; `worst` is the minute with the highest bar, None without events.

    units:   `worst_lag_s` is the greatest lag of a late firing; None for other kinds
    """

    kind: EventKind
    bars: str
    total: int
    worst: PastMinute | None
    worst_lag_s: float | None = None

    @property
    def worst_count(self) -> int:
        """The number of events in the worst minute."""
        return 0 if self.worst is None else self.kind.number_of(self.worst)

    @property
    def worst_ends_at(self) -> datetime | None:
        """The end of the worst minute."""
        return None if self.worst is None else self.worst.ends_at


@dataclass(frozen=True, slots=True)
class Past:
    """The rows of the last two hours, and the numbers of the last minutes, the newest minute first."""

    began_at: datetime
    rows: Sequence[PastRow]
    recent: Sequence[PastMinute]
    estimated: bool
    width: int = MINUTES * BAR_PX
    height: int = HEIGHT_PX


async def read_past(session: Session, tenant_id: str, *, is_operator: bool, target: str | None = None) -> Past:
    """Read the last two hours of a tenant, or of one of its targets.

    errors:  StoreUnavailable  Postgres did not answer within the timeout
    """
    now = await read_clock(session)
    found = await count_past(session, tenant_id, target=target, with_jobs=is_operator, minutes=MINUTES, now=now)
    return past_of(found, now)


def past_of(minutes: Sequence[PastMinute], now: datetime) -> Past:
    """Draw the minutes that end with the present minute; a kind without an event has a row without bars."""
    began_at = now.replace(second=0, microsecond=0) - (MINUTES - 1) * MINUTE
    rows = (
        _row(FIRINGS, minutes, began_at),
        _late_row(minutes, began_at),
        _row(DELIVERIES, minutes, began_at),
        _row(DEAD_LETTERS, minutes, began_at),
    )
    recent_from = began_at + (MINUTES - RECENT_MINUTES) * MINUTE
    recent = [it for it in reversed(minutes) if it.began_at >= recent_from and it.fired]
    return Past(began_at, rows, recent, any(it.estimated for it in minutes))


def _row(kind: EventKind, minutes: Sequence[PastMinute], began_at: datetime) -> PastRow:
    counted = [(it, kind.number_of(it)) for it in minutes if kind.number_of(it)]
    worst, largest = max(counted, key=lambda it: it[1], default=(None, 0))
    heights = [(it, LOWEST_PX + round((HEIGHT_PX - LOWEST_PX) * number / largest)) for it, number in counted]
    return PastRow(kind, _bars(heights, began_at), sum(number for _, number in counted), worst)


def _late_row(minutes: Sequence[PastMinute], began_at: datetime) -> PastRow:
    """Create the row of late firings: the height of a bar is the greatest lag in the minute."""
    lags = [(it, it.latest_s or 0.0) for it in minutes if it.late]
    worst, lag_s = max(lags, key=lambda it: it[1], default=(None, None))
    bars = _bars([(it, height_of_lag(late_s)) for it, late_s in lags], began_at)
    return PastRow(LATE_FIRINGS, bars, sum(it.late for it, _ in lags), worst, lag_s)


def _bars(heights: Sequence[tuple[PastMinute, int]], began_at: datetime) -> str:
    places = [(round((it.began_at - began_at) / MINUTE), height) for it, height in heights]
    return "".join(f"M{place * BAR_PX + BAR_PX // 2} {HEIGHT_PX}v-{height}" for place, height in places)
