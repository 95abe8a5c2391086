"""Plan the polls for due starts of jobs: the time of each poll, and how many starts it reads (pure).

A due start is blocked while an earlier run of its job is not over. The cost of a poll grows with the number of due
starts, including blocked starts. Therefore the planner skips useless polls. While many starts wait for capacity, most
polls read only the first starts.
"""

from shardclock_server.sql.jobs.runs import DUE_MAX, Begun, StartCursor, StartPage
from shardclock_server.workers.runs.notification_throttle import NotificationThrottle

PART = 100  # The limit of due starts in an ordinary poll; a full poll reads DUE_MAX starts.
# The time between two full polls. A full poll also finds an urgent start behind many other starts.
FULL_POLL_S = 1.0
# All combinations of kinds with free capacity.
KINDS = [(plain, reserving) for plain in (False, True) for reserving in (False, True)]
# The time between two polls while starts wait for capacity and less than half of the worker's capacity is free.
SHORT_S = 0.02


class PollPlanner:
    """Plan the polls of one worker.

    units:   seconds of the monotonic clock
    shape:   there are two kinds of runs, plain runs and runs that reserve resources; each kind has the capacity
             `places`
    """

    def __init__(self, poll_s: float, places: int) -> None:
        self._poll_s = poll_s
        self._places = places
        self._throttle = NotificationThrottle(poll_s)
        self._is_requested = False
        self._is_queued = False
        self._short = False, False
        self._kinds = False, False
        self._polled_at_s = self._poll_at_s = float("-inf")
        # Keys: for each kind, whether it has free capacity. A poll without capacity for one kind must not delay the
        # next full poll for this kind.
        self._full_at_s = dict.fromkeys(KINDS, float("-inf"))
        # The cursor of the next full poll; None means the first start.
        self._full_cursors: dict[tuple[bool, bool], StartCursor | None] = dict.fromkeys(KINDS)

    def notify(self, now_s: float) -> float | None:
        """Add a notification of a due start; return the delay before the call of `request`.

        None: a poll is already planned.
        """
        return self._throttle.notify(now_s)

    def request(self) -> None:
        """Request a poll, because the due starts may have changed."""
        self._is_requested = True

    def wait_s(self, now_s: float, *, free: tuple[int, int], ahead: int = 0, has_ended: bool = False) -> float:
        """Return the time until the next poll.

        shape:   `free` has the free capacity of each kind, which includes `ahead` runs that may start before a process
                 is free; `has_ended`: a run has ended
        """
        # While other starts wait for capacity, a notification of a start causes no poll.
        if (self._is_requested and not self._short[0]) or (has_ended and self._is_queued):
            return 0.0
        at_s = self._poll_at_s
        for is_short, places, most in zip(self._short, free, (self._places + ahead, self._places), strict=True):
            if is_short and places:
                # Wait until several runs have ended, so that one poll can use the capacity of all these runs.
                at_s = min(at_s, now_s if 2 * places >= most else self._polled_at_s + SHORT_S)
        return max(0.0, at_s - now_s)

    def begin(self, now_s: float, *, free: tuple[int, int]) -> StartPage:
        """Return how many starts the next poll reads, and its cursor; `free` has the free capacity of each kind."""
        plain, reserving = free
        self._throttle.begin()
        self._is_requested, self._kinds = False, (plain > 0, reserving > 0)
        return (
            StartPage(PART)
            if now_s < self._full_at_s[self._kinds]
            else StartPage(DUE_MAX, self._full_cursors[self._kinds])
        )

    def record(self, now_s: float, begun: Begun, *, poll: StartPage, free: int) -> None:
        """Record the result of a poll; `free` is the remaining capacity for plain runs."""
        found = bool(begun.runs or begun.dropped or begun.replaced)
        self._record_waits(begun, is_of_all=poll.after is None)
        self._polled_at_s, self._poll_at_s = now_s, now_s + self._poll_s
        has_left_free = begun.saturated and free and not begun.short
        if poll.starts < DUE_MAX and has_left_free:
            # A start that can begin may be behind the blocked starts, so the next poll is a full poll.
            self._full_at_s[self._kinds] = self._poll_at_s = now_s
            return
        again_at_s = self._throttle.record(found=found, now_s=now_s)
        if poll.starts == DUE_MAX:
            self._full_cursors[self._kinds] = _next_cursor(begun, found=found)
            for kinds in self._full_at_s:
                if all(less <= more for less, more in zip(kinds, self._kinds, strict=True)):
                    self._full_at_s[kinds] = now_s + FULL_POLL_S
            if has_left_free and found:
                self._poll_at_s = now_s
        if again_at_s is not None and not self._short[0]:
            self._poll_at_s = min(self._poll_at_s, again_at_s)

    def _record_waits(self, begun: Begun, *, is_of_all: bool) -> None:
        """Record whether starts wait for capacity, or for the end of an earlier run of the same job.

        A poll with a cursor reads only the starts after the cursor, so its result can't prove that no start waits.
        """
        short, is_queued = (begun.short, begun.short_reserving), begun.queued
        if not is_of_all:
            short = self._short[0] or short[0], self._short[1] or short[1]
            is_queued = self._is_queued or is_queued
        self._short, self._is_queued = short, is_queued


def _next_cursor(begun: Begun, *, found: bool) -> StartCursor | None:
    """Return the cursor of the next full poll.

    The next full poll reads only the starts after the blocked starts, so that blocked starts can't hide later starts.
    If the poll started a run, the cursor is None: the next full poll reads all starts, because some blocked starts may
    no longer be blocked.
    """
    if found or not begun.saturated or begun.last_at is None or begun.last_key is None:
        return None
    return StartCursor(begun.last_at, begun.last_key)
