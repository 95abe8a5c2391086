"""When a hint that a start of a job is due leads to a look: at once, and later after looks that found nothing to begin.

A start that nobody can begin yet stays due: its job rests or has a run, or no place is free. Every hint would then be
one more look for it.
"""

GAP_S = 0.005  # after the first look in vain; each further one doubles it


class HintGate:
    """Space out the looks that hints ask for.

    units:   seconds of the monotonic clock; a hint waits at most `most_s`, as long as a poll
    """

    def __init__(self, most_s: float) -> None:
        self._most_s = most_s
        self._pause_s = 0.0
        self._opens_at_s = float("-inf")
        self._is_asked = False  # for the next look
        self._is_looking = False
        self._was_asked = False  # for the look that is under way

    def ask(self, now_s: float) -> float | None:
        """Take a hint; return how long its look must wait.

        shape:   None: a look for it is to come. An earlier hint has asked for that, or `learn` will: a look that is
                 under way does not see what the hint is about
        """
        if self._is_asked:
            return None
        self._is_asked = True
        return None if self._is_looking else max(0.0, self._opens_at_s - now_s)

    def begin(self) -> None:
        """Begin a look, which a hint has asked for, or a poll."""
        self._was_asked, self._is_asked, self._is_looking = self._was_asked or self._is_asked, False, True

    def learn(self, *, found: bool, now_s: float) -> float | None:
        """Learn what the look found; return when to look again, if there was a hint meanwhile."""
        if found:
            self._pause_s = 0.0
        elif self._was_asked:
            self._pause_s = min(self._most_s, max(GAP_S, 2 * self._pause_s))
        else:
            self._pause_s /= 2
        self._was_asked = self._is_looking = False
        self._opens_at_s = now_s + self._pause_s
        return self._opens_at_s if self._is_asked else None
