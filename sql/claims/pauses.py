"""Resume timers when their pauses end."""

from collections.abc import Mapping
from typing import NamedTuple

from shardclock_server.sql.bisection import values_at_fault
from shardclock_server.sql.session import Session, StatementRefused

ENDED_MAX = 1_000  # One call ends at most this many pauses, in about 80 ms.
REFUSED_MAX = 1_000  # The searches skip at most this many refused timers, because a longer list would slow them down.


class EndedPauses(NamedTuple):
    """The number of resumed timers, and the timers that Postgres refused to resume, with the reasons.

    units:   `next_s` is the time until the next end of a pause; None: no remaining pause has an end
    """

    ended: int
    next_s: float | None
    refused: Mapping[int, StatementRefused]


class PauseEnds:
    """Resume timers in batches. If Postgres refuses to resume a timer, the other timers of the batch are resumed.

    Later batches skip a refused timer until `forget` is called, because the refused timer would make Postgres refuse
    each of these batches.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._left_out: list[int] = []

    def forget(self) -> None:
        """Let later batches try the refused timers again."""
        self._left_out.clear()

    async def turn(self, most: int = ENDED_MAX) -> EndedPauses:
        """Resume at most `most` timers with ended pauses. A timer with a locked row is resumed by a later call.

        errors:  StoreUnavailable  the outcome is unknown: call again
        source:  sql/functions/timers/end_pauses.sql
        """
        batch, ended = most, 0
        refused: dict[int, StatementRefused] = {}
        while True:
            # For a batch of one timer, pass the timer's key, so that a refusal belongs to this timer.
            key = await self._first() if batch == 1 else None
            try:
                (row,) = await self._session.call("end_pauses", most=batch, without=self._left_out, key=key)
            except StatementRefused as error:
                if values_at_fault(error) is None or len(self._left_out) >= REFUSED_MAX:
                    raise
                if key is not None:
                    self._left_out.append(key)
                    refused[key] = error
                batch = max(1, batch // 2)
                continue
            ended += row["ended"]
            if row["ended"] < batch or ended >= most:
                return EndedPauses(ended, row["next_s"], refused)
            batch = min(2 * batch, most - ended)

    async def _first(self) -> int | None:
        rows = await self._session.rows("first_ended_pause", without=self._left_out)
        return next((int(row["timer_key"]) for row in rows), None)
