"""Schedule timers.

If the connection is lost during a commit, the outcome is unknown. For this reason, keys are drawn before the timers are
written. `schedule_timers` may be called again with the same keys: it adds the missing timers, and returns the outcome
of each timer. `ScheduleBatch` draws the keys and writes the timers. If a drawn key belongs to another timer, it draws a
new key.

A caller may pass an idempotent request (`IdempotentRequest`) with each timer. The transaction that writes the timer
then also stores the request. If the client repeats this request within a day, it gets the same response.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from shardclock_server.sql.clients.outcomes import KeyTaken, Refused, Scheduled
from shardclock_server.sql.clients.planned import PlannedTimer, plan_timer
from shardclock_server.sql.clients.writing import Drawn, LockPatience, WriteAttempt
from shardclock_server.sql.idempotency.requests import IdempotentRequest
from shardclock_server.sql.session import Session
from shardclock_server.sql.yielding import Yielder
from shardclock_server.timers.model import NewTimer
from shardclock_server.timers.refusal import InvalidTimer

# The limit of draws for one timer. If a drawn key is in use, the sequence moves beyond all used keys, so a timer rarely
# needs a second draw.
DRAWS = 5
NOT_TRIED = KeyTaken("")  # marks a timer that has no key yet


@dataclass(slots=True)
class ScheduleBatch:
    """A batch of timers; each timer is written only once, under its own key, even if Postgres's response is lost.

    shape:   `requests` is empty, or has one entry for each timer
    """

    timers: Sequence[NewTimer]
    requests: Sequence[IdempotentRequest | None] = ()
    _outcomes: dict[int, Scheduled | Refused] = field(default_factory=dict)
    _drawn: Drawn | None = None
    _keys: dict[int, int] = field(default_factory=dict)
    _drawn_at: dict[int, datetime] = field(default_factory=dict)

    async def send(self, session: Session, patience: LockPatience | None = None) -> list[Scheduled | Refused]:
        """Write all timers except faulty timers, which are refused.

        With `patience`, the other timers don't wait for a timer whose name another transaction has locked; the outcome
        of this timer is `Locked`.

        shape:   one outcome for each timer, in the order of the timers
        errors:  StoreUnavailable  the outcome is unknown: call again; no timer is written twice
        """
        for _ in range(DRAWS):
            left = [n for n in range(len(self.timers)) if isinstance(self._outcomes.get(n, NOT_TRIED), KeyTaken)]
            if not left:
                break
            self._drawn = self._drawn or await draw_keys(session, len(left))
            requests = [self.requests[n] for n in left] if self.requests else ()
            timers = [self.timers[n] for n in left]
            outcomes = await schedule_timers(session, self._drawn, timers, requests=requests, patience=patience)
            self._outcomes |= zip(left, outcomes, strict=True)
            self._keys |= zip(left, self._drawn.keys, strict=True)
            self._drawn_at |= dict.fromkeys(left, self._drawn.at)
            self._drawn = None
        return [self._outcomes[n] for n in range(len(self.timers))]

    def alone(self, number: int) -> "ScheduleBatch":
        """Return a batch of one locked timer. The batch has the same key, because an earlier attempt may have written
        the timer."""
        requests = [self.requests[number]] if self.requests else ()
        return ScheduleBatch(
            [self.timers[number]], requests, _drawn=Drawn([self._keys[number]], self._drawn_at[number])
        )


async def draw_keys(session: Session, count: int) -> Drawn:
    """Draw at least one key for new timers. After a crash, Postgres does not draw a key a second time.

    errors:  StoreUnavailable  call again; the keys of the failed call stay unused
    source:  sql/clients/draw_keys.sql
    """
    (row,) = await session.rows_telling("draw_keys", count=count)
    return Drawn(row["timer_keys"], at=row["drawn_at"])


async def schedule_timers(
    session: Session,
    drawn: Drawn,
    timers: Sequence[NewTimer],
    *,
    requests: Sequence[IdempotentRequest | None] = (),
    patience: LockPatience | None = None,
) -> list[Scheduled | Refused]:
    """Write timers under keys that were drawn before. A faulty timer is refused; the other timers are written.

    shape:   one outcome for each timer, in the order of the timers; `requests` is empty, or has one entry for each
             timer; without `patience` no outcome is `Locked`
    errors:  StoreUnavailable  the outcome is unknown: send the same keys and timers again
    source:  sql/clients/schedule_timers.sql, sql/clients/known_keys.sql; docs/decisions/0032-key-and-moment.md
    """
    outcomes: dict[int, Scheduled | Refused] = {}
    planned, yielder = list[PlannedTimer](), Yielder()
    for key, timer, request in zip(drawn.keys, timers, requests or [None] * len(timers), strict=True):
        try:
            planned.append(plan_timer(key, timer, drawn.at, request))
        except InvalidTimer as refusal:
            outcomes[key] = Refused(str(refusal), refusal.code)
        await yielder.yield_if_due()
    outcomes |= await WriteAttempt(session, drawn, patience).write(planned)
    if any(isinstance(outcome, KeyTaken) for outcome in outcomes.values()):
        await session.call("advance_keys")
    return [outcomes[key] for key in drawn.keys]
