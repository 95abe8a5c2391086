"""Which walks over the timers a claim turn makes: pure decisions, taken from a few numbers."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from shards.ramp import Ramp
from shards.settings import ShardSettings
from sql.claims import RAMP_AFTER_S, Taken, Walk
from sql.lookback import Round

# From so many plain timers a second on, a shard is brisk, until they are fewer than half as many: see
# docs/decisions/0019-brisk.md.
BRISK_FROM_PER_S, BRISK_UNTIL_PER_S = 2_000, 1_000
BRISK_S = 0.002  # between two claims then
RATED_S = 0.5
# Every own slot is looked at from its oldest row within half a second, every slot there is within ten; as much later as
# walks take longer than the pauses between them.
OWN_ROUND_S, SWEEP_ROUND_S = 0.5, 10.0
LATELY_S = 2.0
LONG_S = 0.5  # a claim takes longer only if it goes past a million rows that have fired, or Postgres stands still


@dataclass(slots=True)
class Pace:
    """Remember what decides the next turn.

    `behind` means that the last walk left overdue timers in the table. Then overdue and upcoming ones are taken in
    separate walks, so that a backlog of millions does not keep the timers of the next seconds from being on time: a
    look ahead begins where the one before it began, and what fell due meanwhile is not at the end of the backlog.
    What an outage left is yet another walk, at the ramp's rate.

    `brisk` means that so many plain timers fall due that to lease each beforehand would cost more than to look every
    few milliseconds which are due, and fire those on the spot.
    """

    settings: ShardSettings
    ramp: Ramp = field(default_factory=Ramp)
    behind: bool = False
    looked_at: float = 0.0  # when the last look at what is to come began
    swept_at: float = 0.0
    brisk: bool = False
    _fired: int = 0
    _rated_at: float = 0.0
    _looking_at: float = 0.0
    _own: Round = field(init=False)
    _sweep: Round = field(init=False)
    _backlog: Round = field(init=False)
    _orphans: Round = field(init=False)
    _under_way: Round | None = None  # the round that the last walk chosen belongs to

    def __post_init__(self) -> None:
        """Begin with no walk made."""
        self._own = Round(OWN_ROUND_S, LATELY_S, LONG_S)
        self._sweep = Round(SWEEP_ROUND_S, LATELY_S + self.settings.lease_s, LONG_S)
        self._backlog, self._orphans = (Round(SWEEP_ROUND_S, LATELY_S, LONG_S) for _ in range(2))

    @property
    def pause_s(self) -> float:
        """Say how long to wait between two turns if the first left nothing."""
        return BRISK_S if self.brisk else self.settings.poll_s

    def rate(self, fired: int, *, now_s: float) -> None:
        """Learn that so many plain timers were fired, from the table or from memory."""
        self._fired += fired
        elapsed_s = now_s - self._rated_at
        if elapsed_s >= RATED_S:
            self.brisk = self._fired >= (BRISK_UNTIL_PER_S if self.brisk else BRISK_FROM_PER_S) * elapsed_s
            self._fired, self._rated_at = 0, now_s

    def walks(self, *, held: int, now_s: float) -> Iterator[Walk]:
        """Choose the walks of one turn; none while the queue is over full.

        units:   now_s in seconds of the monotonic clock
        """
        for walk, looks, every_s in self._choose(held, now_s):
            self._under_way = looks
            yield replace(walk, lately=looks.begin(now_s=now_s, every_s=every_s)) if looks else walk

    def learn(self, walk: Walk, taken: Taken, *, now_s: float) -> bool:
        """See from what a walk brought whether it left overdue timers behind; say whether to look again at once."""
        self.ramp.learn(walk, taken)
        if self._under_way is not None:
            self._under_way.learn(now_s=now_s)
        if walk.scope == "ahead" or (walk.scope == "own" and not self.behind):
            self.looked_at = self._looking_at
        if walk.scope == "own":
            self.behind = taken.saturated and (taken.fired > 0 or walk.horizon_s <= 0)
        return taken.saturated

    def fail(self, *, now_s: float) -> None:
        """See that the last walk brought no answer."""
        if self._under_way is not None:
            self._under_way.fail(now_s=now_s)

    def _choose(self, held: int, now_s: float) -> Iterator[tuple[Walk, Round | None, float | None]]:
        """Choose walks, each with its round, and how often there is one; None for as soon as the last one ended."""
        settings = self.settings
        batch = settings.claim_batch
        room = settings.queue_max - held
        if room <= -batch:
            return
        # Without room only what is overdue is taken: plain timers are fired on the spot and need none.
        horizon_s = settings.horizon_s if room >= batch and not self.brisk else 0.0
        floor_s = RAMP_AFTER_S if self.ramp.holds_back(batch, now_s=now_s) else None
        if not self.behind:
            self._looking_at = now_s
            yield Walk("own", horizon_s, batch, floor_s), self._own, self.pause_s
        else:
            # A herd may have filled the queue: those due after it have half a batch to themselves, or they would come
            # last of all.
            ahead = min(batch, room + batch // 2)
            since_s = now_s - self.looked_at
            if ahead > 0 and since_s >= settings.poll_s:
                self._looking_at = now_s
                yield Walk("ahead", settings.horizon_s, ahead, min(since_s, RAMP_AFTER_S)), None, None
            yield Walk("own", 0.0, batch, floor_s), self._own, None
        sweeps = now_s >= self.swept_at + settings.sweep_s
        if sweeps:
            self.swept_at = now_s
            yield Walk("all", -settings.sweep_grace_s, batch, floor_s), self._sweep, settings.sweep_s
        if floor_s is None:
            return
        if share := self.ramp.room(batch):
            yield Walk("backlog", -RAMP_AFTER_S, share, floor_s, self.ramp.after_tenant), self._backlog, None
        if sweeps and (share := self.ramp.room(batch)):
            yield Walk("all", -RAMP_AFTER_S, share), self._orphans, None
