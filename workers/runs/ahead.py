"""How many runs a worker begins ahead of its places, while its runs are short (pure).

A statement that begins or ends one run costs nearly as much as one for ten. So while runs take less time than these
statements, a worker begins more runs than it has places for, and each is made as soon as a place is free.
"""

from collections import deque

AHEAD_S = 0.02  # a run that took less is short
# A short run counts for so long after its end. What is begun ahead waits about as long. A turn of the runner's loop
# ends runs, and then looks for others. It takes less than this: else none would count any more when it looks.
ENDED_S = 0.05
IN_VAIN_S = 10.0  # nothing is begun ahead for so long after a run has waited in vain


class RunAhead:
    """Allow one run ahead for each short run that ended in the last 50 ms: as many places will soon be free.

    units:   seconds of the monotonic clock
    """

    def __init__(self, most: int) -> None:
        self._ended_s: deque[float] = deque(maxlen=most)
        self._again_s = float("-inf")

    def most(self, now_s: float) -> int:
        """Return how many runs may be begun now of which none has a place."""
        if now_s < self._again_s:
            return 0
        while self._ended_s and self._ended_s[0] <= now_s - ENDED_S:
            self._ended_s.popleft()
        return len(self._ended_s)

    def learn(self, took_s: float, *, now_s: float) -> None:
        """Learn how long a run took that ends now."""
        if took_s < AHEAD_S:
            self._ended_s.append(now_s)

    def stop(self, now_s: float) -> None:
        """Allow none for a while: a run that was begun ahead has waited in vain."""
        self._again_s = now_s + IN_VAIN_S
