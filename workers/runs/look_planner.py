"""When a worker looks for starts of jobs that are due, and how many of them it reads (pure).

A look costs more the more starts are due, whether they can begin or not. So one that would find nothing is left out,
and while many wait for few places a look reads only the first of them.
"""

from shardclock_server.sql.jobs.runs import DUE_MAX, Begun, DuePlace, Look
from shardclock_server.workers.runs.gate import HintGate

PART = 100  # due starts that most looks read
WHOLE_S = 1.0  # how often DUE_MAX are read: an urgent start may stand behind many others
KINDS = [(plain, reserving) for plain in (False, True) for reserving in (False, True)]  # of which there is a place
SHORT_S = 0.02  # between two looks while starts wait for places, and less than half of these are free


class LookPlanner:
    """Plan the looks of one worker.

    units:   seconds of the monotonic clock
    shape:   so many `places` for each of two kinds of runs: those that reserve nothing, and others
    """

    def __init__(self, poll_s: float, places: int) -> None:
        self._poll_s = poll_s
        self._places = places
        self._gate = HintGate(poll_s)
        self._is_asked = False
        self._is_queued = False
        self._short = False, False
        self._given = False, False
        self._looked_at_s = self._poll_at_s = float("-inf")
        # By the kinds of which there is a place to give: looks without one must not use up the next that could give it.
        self._whole_at_s = dict.fromkeys(KINDS, float("-inf"))
        # Where the next whole one of them begins; None: at the first start.
        self._whole_after: dict[tuple[bool, bool], DuePlace | None] = dict.fromkeys(KINDS)

    def hint(self, now_s: float) -> float | None:
        """Take a hint that a start is due; return how long to wait with `ask`, or None if a look for it is to come."""
        return self._gate.ask(now_s)

    def ask(self) -> None:
        """Ask for a look: what is due may have changed."""
        self._is_asked = True

    def wait_s(self, now_s: float, *, free: tuple[int, int], ahead: int = 0, has_ended: bool = False) -> float:
        """Return how long the next look must wait.

        `ahead` of the `free` places have no process yet; `has_ended` says that a run has ended.
        """
        # While starts wait for places, a hint that there is one more tells nothing.
        if (self._is_asked and not self._short[0]) or (has_ended and self._is_queued):
            return 0.0
        at_s = self._poll_at_s
        for is_short, places, most in zip(self._short, free, (self._places + ahead, self._places), strict=True):
            if is_short and places:
                # One look for several places, if they become free one right after the other.
                at_s = min(at_s, now_s if 2 * places >= most else self._looked_at_s + SHORT_S)
        return max(0.0, at_s - now_s)

    def begin(self, now_s: float, *, free: tuple[int, int]) -> Look:
        """Begin a look, and return which due starts it reads; so many places of each kind are free."""
        plain, reserving = free
        self._gate.begin()
        self._is_asked, self._given = False, (plain > 0, reserving > 0)
        return Look(PART) if now_s < self._whole_at_s[self._given] else Look(DUE_MAX, self._whole_after[self._given])

    def learn(self, now_s: float, begun: Begun, *, look: Look, free: int) -> None:
        """Learn what a look has found; `free` places are left for runs that reserve nothing."""
        found = bool(begun.runs or begun.dropped or begun.replaced)
        self._heed(begun, is_of_all=look.after is None)
        self._looked_at_s, self._poll_at_s = now_s, now_s + self._poll_s
        has_left_free = begun.saturated and free and not begun.short
        if look.starts < DUE_MAX and has_left_free:
            # What could begin may stand behind what can't: a whole look follows, and tells whether it was in vain.
            self._whole_at_s[self._given] = self._poll_at_s = now_s
            return
        again_at_s = self._gate.learn(found=found, now_s=now_s)
        if look.starts == DUE_MAX:
            self._whole_after[self._given] = _next_after(begun, found=found)
            for given in self._whole_at_s:
                if all(less <= more for less, more in zip(given, self._given, strict=True)):
                    self._whole_at_s[given] = now_s + WHOLE_S
            if has_left_free and found:
                self._poll_at_s = now_s
        if again_at_s is not None and not self._short[0]:
            self._poll_at_s = min(self._poll_at_s, again_at_s)

    def _heed(self, begun: Begun, *, is_of_all: bool) -> None:
        """Take note of what waits for places, and for runs to end; a look behind some starts says nothing of these."""
        short, is_queued = (begun.short, begun.short_reserving), begun.queued
        if not is_of_all:
            short = self._short[0] or short[0], self._short[1] or short[1]
            is_queued = self._is_queued or is_queued
        self._short, self._is_queued = short, is_queued


def _next_after(begun: Begun, *, found: bool) -> DuePlace | None:
    """Say where the next whole look begins: behind what can't begin now, lest that hide the rest for ever.

    Where something began, the first starts are next: some of them may be able to begin meanwhile.
    """
    if found or not begun.saturated or begun.last_at is None or begun.last_key is None:
        return None
    return DuePlace(begun.last_at, begun.last_key)
