"""Which walks over the slots a claim turn makes: pure decisions, taken from a few numbers."""

from collections.abc import Iterator
from dataclasses import dataclass

from shards.settings import ShardSettings
from sql.claims import Scope, Taken


@dataclass(frozen=True, slots=True)
class Walk:
    """One `take_due`: over which slots, and how far ahead."""

    scope: Scope
    horizon_s: float


@dataclass(slots=True)
class Pace:
    """Remember what decides the next turn.

    `behind` means that the last walk left overdue timers in the table. Then overdue and upcoming ones are taken in
    separate walks, so that a backlog of millions does not keep the timers of the next seconds from being on time.
    """

    settings: ShardSettings
    behind: bool = False
    upcoming_at: float = 0.0
    swept_at: float = 0.0

    def walks(self, *, held: int, now_s: float) -> Iterator[Walk]:
        """Choose the walks of one turn; none while the queue is over full.

        units:   now_s in seconds of the monotonic clock
        """
        settings = self.settings
        room = settings.queue_max - held
        if room <= -settings.claim_batch:
            return
        # Without room only what is overdue is taken: plain timers are fired on the spot and need none.
        roomy = room >= settings.claim_batch
        if not self.behind:
            yield Walk("own", settings.horizon_s if roomy else 0.0)
        else:
            if roomy and now_s >= self.upcoming_at + settings.poll_s:
                self.upcoming_at = now_s
                yield Walk("upcoming", settings.horizon_s)
            yield Walk("own", 0.0)
        if now_s >= self.swept_at + settings.sweep_s:
            self.swept_at = now_s
            yield Walk("all", -settings.sweep_grace_s)

    def learn(self, walk: Walk, taken: Taken) -> None:
        """See from what a walk brought whether it left overdue timers behind."""
        if walk.scope == "own":
            self.behind = taken.saturated and (taken.fired > 0 or walk.horizon_s <= 0)
