"""Schedule timers: what a client does first.

If the connection is lost during a commit, the outcome is unknown. So keys are drawn before the timers are written, and
`schedule_timers` may be sent again with the same keys as often as needed: it adds missing timers and reports on all.
`Batch` does both, and draws other keys for timers whose first keys turn out to belong to other timers.

A timer may come with the request that asked for it (`IdempotentRequest`). Then the request is stored in the transaction
that writes the timer, and the same request, sent again within a day by anybody, gets the same answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from shardclock_server.sql.clients.outcomes import KeyTaken, Refused, Scheduled
from shardclock_server.sql.clients.planned import PlannedTimer, plan_timer
from shardclock_server.sql.clients.writing import Drawn, LockPatience, WriteAttempt
from shardclock_server.sql.requests.requests import IdempotentRequest
from shardclock_server.sql.session import Session
from shardclock_server.sql.turns import Turns
from shardclock_server.timers.model import NewTimer
from shardclock_server.timers.refusal import InvalidTimer

# Of keys for one timer. A taken key moves the sequence forward, so a second draw is rare, and a third very rare.
DRAWS = 5
NOT_TRIED = KeyTaken("")  # as one whose key was taken: it needs a key


@dataclass(slots=True)
class Batch:
    """Timers to be written, each under its own key and once, even if answers are lost.

    shape:   `requests` is empty, or has one entry for each timer
    """

    timers: Sequence[NewTimer]
    requests: Sequence[IdempotentRequest | None] = ()
    _outcomes: dict[int, Scheduled | Refused] = field(default_factory=dict)
    _drawn: Drawn | None = None
    _keys: dict[int, int] = field(default_factory=dict)
    _drawn_at: dict[int, datetime] = field(default_factory=dict)

    async def send(self, session: Session, patience: LockPatience | None = None) -> list[Scheduled | Refused]:
        """Write all timers that can be written; a faulty one is refused alone.

        With `patience`, one for which another transaction has a lock is `Locked`, so that the others need not wait.

        shape:   one outcome for each timer, in their order
        errors:  StoreUnavailable  the outcome is unknown: call again, none is written twice
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

    def alone(self, number: int) -> "Batch":
        """Make a batch of one timer that was locked, under its key: an earlier attempt may have written it."""
        requests = [self.requests[number]] if self.requests else ()
        return Batch([self.timers[number]], requests, _drawn=Drawn([self._keys[number]], self._drawn_at[number]))


async def draw_keys(session: Session, count: int) -> Drawn:
    """Draw keys, at least one, for timers that are still to be written; they are not drawn again after a crash.

    errors:  StoreUnavailable  call again; there are always more keys
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
    """Write timers under keys drawn before, all that can be written; a faulty one is refused alone.

    shape:   one outcome for each timer, in their order; `requests` is empty, or has one entry for each timer; without
             `patience` none is `Locked`
    errors:  StoreUnavailable  the outcome is unknown: send the same keys and timers again
    source:  sql/clients/schedule_timers.sql, sql/clients/known_keys.sql; docs/decisions/0032-whose-key.md
    """
    outcomes: dict[int, Scheduled | Refused] = {}
    planned, turns = list[PlannedTimer](), Turns()
    for key, timer, request in zip(drawn.keys, timers, requests or [None] * len(timers), strict=True):
        try:
            planned.append(plan_timer(key, timer, drawn.at, request))
        except InvalidTimer as refusal:
            outcomes[key] = Refused(str(refusal))
        await turns.give()
    outcomes |= await WriteAttempt(session, drawn, patience).write(planned)
    if any(isinstance(outcome, KeyTaken) for outcome in outcomes.values()):
        await session.call("advance_keys")
    return [outcomes[key] for key in drawn.keys]
