"""Which walks over the timers a claim turn makes: pure decisions, taken from a few numbers."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from shards.ramp import Ramp
from shards.settings import ShardSettings
from sql.claims import RAMP_AFTER_S, Taken, Walk


@dataclass(slots=True)
class Pace:
    """Remember what decides the next turn.

    `behind` means that the last walk left overdue timers in the table. Then overdue and upcoming ones are taken in
    separate walks, so that a backlog of millions does not keep the timers of the next seconds from being on time.
    What an outage left is yet another walk, at the ramp's rate.
    """

    settings: ShardSettings
    ramp: Ramp = field(default_factory=Ramp)
    behind: bool = False
    upcoming_at: float = 0.0
    swept_at: float = 0.0

    def walks(self, *, held: int, now_s: float) -> Iterator[Walk]:
        """Choose the walks of one turn; none while the queue is over full.

        units:   now_s in seconds of the monotonic clock
        """
        settings = self.settings
        batch = settings.claim_batch
        room = settings.queue_max - held
        if room <= -batch:
            return
        # Without room only what is overdue is taken: plain timers are fired on the spot and need none.
        horizon_s = settings.horizon_s if room >= batch else 0.0
        floor_s = RAMP_AFTER_S if self.ramp.holds_back(batch, now_s=now_s) else None
        if not self.behind:
            yield Walk("own", horizon_s, batch, floor_s)
        else:
            if horizon_s and now_s >= self.upcoming_at + settings.poll_s:
                self.upcoming_at = now_s
                yield Walk("own", horizon_s, batch, floor_s=0.0)
            yield Walk("own", 0.0, batch, floor_s)
        sweeps = now_s >= self.swept_at + settings.sweep_s
        if sweeps:
            self.swept_at = now_s
            yield Walk("all", -settings.sweep_grace_s, batch, floor_s)
        if floor_s is None:
            return
        if share := self.ramp.room(batch):
            yield Walk("backlog", -RAMP_AFTER_S, share, floor_s, self.ramp.after_tenant)
        if sweeps and (share := self.ramp.room(batch)):
            yield Walk("all", -RAMP_AFTER_S, share)

    def learn(self, walk: Walk, taken: Taken) -> bool:
        """See from what a walk brought whether it left overdue timers behind; say whether to look again at once."""
        self.ramp.learn(walk, taken)
        if walk.scope == "own" and walk.floor_s != 0.0:
            self.behind = taken.saturated and (taken.fired > 0 or walk.horizon_s <= 0)
        return taken.saturated
