"""Redrive the dead letters with usable targets, and explain why the other dead letters stay unchanged."""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from shardclock.api.refusals.deliveries import NOT_REDRIVEN
from shardclock_server.service.wording import counted
from shardclock_server.sql.deliveries.dead_letters import (
    ClosedTarget,
    DeadLetterKey,
    find_closed_targets,
    redrive_dead_letters,
)
from shardclock_server.sql.endpoints.endpoints import EndpointName, enable_endpoint
from shardclock_server.sql.session import Session, StatementRefused
from shardclock_server.timers.refusal import Refusal

NAMED_MAX = 3  # one sentence names at most this many targets


async def change_letter_page(session: Session, change: Callable[[], Awaitable[Sequence[int]]]) -> Sequence[int]:
    """Redrive or discard the dead letters of one page of an operation; return the keys of the changed letters.

    If all endpoints of the page were disabled or removed since the search, its letters stay dead. The operation then
    continues with the next page, which may have other targets.

    errors:  StoreUnavailable  the outcome is unknown: call again
    """
    try:
        async with session.transaction():  # a savepoint, because the refusal would end the transaction of the page
            return await change()
    except StatementRefused as refused:
        if refused.code != NOT_REDRIVEN:
            raise
        return ()


@dataclass(slots=True)
class Redriving:
    """One redrive: its rate, and whether it enables disabled endpoints.

    shape: `closed` has the targets, by name and tenant, that `open_among` has found closed until now
    """

    session: Session
    per_s: int | None = None
    enable: bool = False
    enable_called: str = '"enable": true'  # the name of the option `enable` in the caller's interface, for refusals
    closed: dict[tuple[str, str], ClosedTarget] = field(default_factory=dict)
    _checked: set[tuple[str, str]] = field(default_factory=set)

    async def open_among(self, letters: Sequence[DeadLetterKey], *, dry_run: bool) -> list[DeadLetterKey]:
        """Choose the dead letters with targets that can be called; unless it is a dry run, enable endpoints first.

        errors:  StoreUnavailable  some endpoints may have been enabled: call again
        """
        lanes = {(it.target, it.tenant_id) for it in letters} - self._checked
        for it in await find_closed_targets(self.session, lanes) if lanes else ():
            if it.disabled and self.enable:
                if not dry_run:
                    await enable_endpoint(self.session, EndpointName.of_target(it.tenant_id, it.target))
                continue
            self.closed[it.target, it.tenant_id] = it
        self._checked |= lanes
        return [it for it in letters if not self._stays(it.target, it.tenant_id)]

    async def change(self, timer_keys: Sequence[int]) -> Sequence[int]:
        """Redrive dead letters; return the keys of the redriven letters.

        errors:  StatementRefused  not_redriven: the endpoints were disabled or removed since `open_among`
                 StoreUnavailable  the outcome is unknown: call again
        """
        return await redrive_dead_letters(self.session, timer_keys, per_s=self.per_s)

    def refusal_of(self, letter: DeadLetterKey) -> Refusal:
        """Return the refusal of one dead letter that is not redriven."""
        why = self._way_out(self.closed[letter.target, letter.tenant_id])
        return Refusal.of(NOT_REDRIVEN, which=f"dead letter {letter.timer_key} is", why=why)

    def describe(self, number_of: "Counter[tuple[str, str]]") -> str:
        """Return the last part of the sentence: which letters stay unchanged, which deliveries wait, and why."""
        staying = {lane: number for lane, number in number_of.items() if self._stays(*lane)}
        waiting = {lane: number for lane, number in number_of.items() if lane in self.closed and lane not in staying}
        return self._reasons("left", staying) + self._reasons("waiting", waiting)

    def _reasons(self, word: str, number_of: dict[tuple[str, str], int]) -> str:
        said = [
            f"; {word}: {counted(number, 'dead letter')}, because {self._way_out(self.closed[lane])}"
            for lane, number in sorted(number_of.items())
        ]
        others = len(said) - NAMED_MAX
        return "".join(said[:NAMED_MAX]) + (
            f"; {word}: those of {counted(others, 'other target')}" if others > 0 else ""
        )

    def _stays(self, target: str, tenant_id: str) -> bool:
        found = self.closed.get((target, tenant_id))
        return found is not None and not found.waits

    def _way_out(self, closed: ClosedTarget) -> str:
        return f"{closed.why}; or redrive with {self.enable_called}" if closed.disabled else closed.why
