"""Change all timers that match a filter in one bulk run. Each change is idempotent, so a run can be repeated."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial

from shardclock.api.refusals.timers import TIMER_ENDED
from shardclock_server.service.bulk_run import BulkBroken, BulkProgress, BulkRun
from shardclock_server.service.operation_verbs import PAUSE, RESUME
from shardclock_server.service.operations import record_done
from shardclock_server.service.pauses import Pause
from shardclock_server.sql.clients.search import TimerCount, TimerFilter, count_timers, find_keys, find_timers_of_system
from shardclock_server.sql.clients.verbs import end_of_pause
from shardclock_server.sql.operations.operations import Counts, NewOperation
from shardclock_server.sql.retry import StoreRetry
from shardclock_server.sql.session import Session, StoreUnavailable
from shardclock_server.timers.refusal import InvalidTimer

FOUND_TIMERS = 10_000  # One search statement finds at most this many timers.
PAGE_TIMERS = 1_000  # One transaction changes at most this many timers.
PAGE_RETRY = StoreRetry(attempts=5)
USUAL_STATES = {PAUSE: ("PENDING",), RESUME: ("PAUSED",)}  # the states that the verb changes by default


@dataclass(frozen=True, slots=True)
class ChangeKind:
    """One kind of change to many timers.

    `verb` is a verb of `operation_verbs`, `parameters` are its parameters. `states` are the states in which a timer can
    be changed. If `whole` is given, it changes all matching timers in one statement. If `pause` is given, the run adds
    the end and the rule of the pause to the parameters.
    """

    verb: str
    states: tuple[str, ...]
    parameters: Mapping[str, object] = field(default_factory=dict)
    whole: Callable[[Session], Awaitable[int]] | None = None
    pause: Pause | None = None


@dataclass(slots=True)
class BulkChange(BulkRun):
    """The state of one bulk change of timers.

    `left_out` counts the matching timers of jobs and processes, which clients can't change.
    `refusal` is set if a page was refused after earlier pages were changed.
    """

    wanted: TimerFilter
    change: ChangeKind
    refusal: InvalidTimer | None = field(default=None, init=False)

    async def run(self, session: Session, progress: BulkProgress, *, dry_run: bool) -> None:
        """Find all timers; change the found timers, unless `dry_run` is set.

        errors:  InvalidTimer      the first change was refused: nothing was changed
                 BulkBroken        Postgres stopped answering; the counts include all earlier changes
                 StoreUnavailable  Postgres did not answer during the search: nothing was changed
        """
        await self.find(session, progress)
        if dry_run:
            return
        if self.change.whole is not None:
            await self._change_whole(session, self.change.whole)
        elif self.keys:
            await self.start(session, retry=PAGE_RETRY)
            try:
                await self.change_all(session, progress, retry=PAGE_RETRY)
            except InvalidTimer as refusal:
                if not self.changed:
                    raise
                self.refusal = refusal

    async def find(self, session: Session, progress: BulkProgress) -> None:
        """Find all timers for an operation; compute the end of a pause once, so that all timers have the same end.

        errors:  StoreUnavailable  Postgres did not answer within the timeout
                 InvalidTimer      the end of the pause is refused
        """
        if self.change.pause is not None:
            self.change = await _with_end(session, self.change, self.change.pause)
        await self.find_all(self._pages(session), progress)

    async def count(self, session: Session, *, most: int) -> TimerCount:
        """Count the matching timers, at most `most`, without reading their keys.

        errors:  StoreUnavailable  Postgres did not answer within the timeout
                 InvalidTimer      more than one filter for the name is given
        """
        matched = left_out = 0
        for state in self.change.states:
            found = await count_timers(session, state, self.wanted, most=most - matched - left_out)
            matched, left_out = matched + found.matched, left_out + found.left_out
            if not found.is_whole:
                return TimerCount(matched, left_out, is_whole=False)
        return TimerCount(matched, left_out, is_whole=True)

    @property
    def page_size(self) -> int:
        """Return the number of timers that one transaction changes."""
        return PAGE_TIMERS

    def new_operation(self) -> NewOperation:
        """Describe the operation; record the timers' state only if it is not the usual state for the verb."""
        states = self.change.states
        is_chosen = len(states) == 1 and states != USUAL_STATES.get(self.change.verb)
        chosen = asdict(self.wanted) | {"state": states[0] if is_chosen else None}
        return self.actor.begin(self.change.verb, self.wanted.tenant_id, chosen, self.change.parameters)

    async def _change_whole(self, session: Session, whole: Callable[[Session], Awaitable[int]]) -> None:
        async def change() -> Counts:
            async with session.transaction():
                changed = await whole(session)
                left = max(0, self.matched - changed)
                counts = Counts(changed + left, self.left_out, changed, {TIMER_ENDED.name: left} if left else {})
                if counts.matched:
                    self.operation_id = await record_done(session, self.new_operation(), counts)
                return counts

        self.unsure = self.matched
        try:
            counts, repeated = await PAGE_RETRY.run(change)
        except StoreUnavailable as error:
            raise BulkBroken(f"Postgres does not answer ({error})") from error
        self.changed = counts.changed
        # An earlier try without a response may have changed timers; this count does not include them.
        self.unsure = counts.matched - counts.changed if repeated else 0
        self.unchanged_reasons = {} if repeated else counts.unchanged_reasons

    async def _pages(self, session: Session) -> AsyncIterator[Sequence[int]]:
        for state in self.change.states:
            last, is_last = 0, False
            while not is_last:
                search = partial(find_keys, session, state, self.wanted, size=FOUND_TIMERS, after_key=last)
                found, _ = await PAGE_RETRY.run(search)
                yield await self._of_clients(session, found)
                is_last = len(found) < FOUND_TIMERS
                last = found[-1] if found else last

    async def _of_clients(self, session: Session, found: Sequence[int]) -> Sequence[int]:
        """Remove the timers of jobs and processes from the found timers, and count them in `left_out`."""
        if not found:
            return found
        left_out, _ = await PAGE_RETRY.run(partial(find_timers_of_system, session, found))
        self.left_out += len(left_out)
        return [key for key in found if key not in left_out]


async def _with_end(session: Session, change: ChangeKind, pause: Pause) -> ChangeKind:
    """Compute the moment at which a pause ends, and return the change with this end as a parameter."""
    ends_at, _ = await PAGE_RETRY.run(partial(end_of_pause, session, pause.until, missed=pause.missed))
    end = {} if ends_at is None else {"until": ends_at.isoformat(), "missed": pause.missed.value}
    return replace(change, parameters={"reason": pause.reason, **end})
