"""Redrive dead letters: those of targets that can be called; say of the others why they stay dead letters."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from shardclock_server.service.words import counted
from shardclock_server.sql.deliveries.dead_letters import (
    ClosedTarget,
    DeadLetterKey,
    find_closed_targets,
    redrive_dead_letters,
)
from shardclock_server.sql.endpoints.endpoints import WEBHOOK, EndpointName, enable_endpoint
from shardclock_server.sql.session import Session, StatementRefused

WRONG_STATE = "55000"
NAMED_MAX = 3  # targets in one sentence


class NotRedriven(StatementRefused):
    """A dead letter stays one, because its target would not be called; the message says why."""


@dataclass(slots=True)
class Redriving:
    """One way to redrive: how many become due in a second, and whether endpoints that are disabled are enabled.

    shape:   `closed` has what was found about the targets so far
    """

    session: Session
    per_s: int | None = None
    enable: bool = False
    enable_called: str = '"enable": true'  # as the caller writes it
    closed: dict[tuple[str, str], ClosedTarget] = field(default_factory=dict)
    _asked: set[tuple[str, str]] = field(default_factory=set)

    async def open_among(self, letters: Sequence[DeadLetterKey], *, dry_run: bool) -> list[DeadLetterKey]:
        """Choose the dead letters with targets that can be called; unless it is a dry run, enable endpoints first.

        errors:  StoreUnavailable  some endpoints may have been enabled: call again
        """
        lanes = {(it.target, it.tenant_id) for it in letters} - self._asked
        for it in await find_closed_targets(self.session, lanes) if lanes else ():
            if it.disabled and self.enable:
                if not dry_run:
                    await enable_endpoint(self.session, EndpointName(it.tenant_id, it.target.removeprefix(WEBHOOK)))
                continue
            self.closed[it.target, it.tenant_id] = it
        self._asked |= lanes
        return [it for it in letters if not self._stays(it.target, it.tenant_id)]

    async def change(self, timer_keys: Sequence[int]) -> Sequence[int]:
        """Redrive dead letters; return the keys of the ones that are delivered again.

        errors:  NotRedriven       their endpoints were disabled or removed just now
                 StoreUnavailable  the outcome is unknown: call again
        """
        try:
            return await redrive_dead_letters(self.session, timer_keys, per_s=self.per_s)
        except StatementRefused as error:
            if error.sqlstate != WRONG_STATE:
                raise
            raise NotRedriven(str(error), sqlstate=error.sqlstate) from None

    def why_not(self, letter: DeadLetterKey) -> str:
        """Say why a dead letter stays one."""
        why = self._way_out(self.closed[letter.target, letter.tenant_id])
        return f"dead letter {letter.timer_key} is not redriven: {why}"

    def said_of(self, number_of: "Counter[tuple[str, str]]") -> str:
        """Say, as a sentence goes on, which dead letters stay, and which deliveries wait, and why."""
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
