"""Decide when to poll after a notification of a due start.

The poll is delayed if the last polls started no run: a due start is blocked while its job has a run, during the pause
after a run, and while no process is free. Without the delay, each notification would cause another poll for the blocked
start.
"""

GAP_S = 0.005  # the gap after the first poll without result; each further poll without result doubles the gap


class NotificationThrottle:
    """Limit the rate of polls that notifications start.

    units:   seconds of the monotonic clock; a notification waits at most `most_s`, the interval of polls
    """

    def __init__(self, most_s: float) -> None:
        self._most_s = most_s
        self._pause_s = 0.0
        self._opens_at_s = float("-inf")
        self._is_notified = False  # whether a notification has requested the next poll
        self._is_polling = False
        self._was_notified = False  # whether a notification had requested the running poll

    def notify(self, now_s: float) -> float | None:
        """Add a notification; return the delay before the poll that it triggers.

        shape:   None: no new timer is needed, because an earlier notification has a timer, or because a poll is running
                 and `record` will return the time of the next poll
        """
        if self._is_notified:
            return None
        self._is_notified = True
        return None if self._is_polling else max(0.0, self._opens_at_s - now_s)

    def begin(self) -> None:
        """Record the start of a poll."""
        self._was_notified, self._is_notified, self._is_polling = self._was_notified or self._is_notified, False, True

    def record(self, *, found: bool, now_s: float) -> float | None:
        """Record the result of a poll; if a notification came during the poll, return the time of the next poll."""
        if found:
            self._pause_s = 0.0
        elif self._was_notified:
            self._pause_s = min(self._most_s, max(GAP_S, 2 * self._pause_s))
        else:
            self._pause_s /= 2
        self._was_notified = self._is_polling = False
        self._opens_at_s = now_s + self._pause_s
        return self._opens_at_s if self._is_notified else None
