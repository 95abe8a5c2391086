"""Count the steps of one evaluation, and hold the bounds that no expression passes.

A step is about a microsecond of work: one turn of a loop, ten nodes of its body, four items of a list that a function
reads, or 256 characters of a text that is made or compared.
"""

import time
from datetime import datetime

from shardclock.jsonb import DEPTH_MAX, TOO_DEEP
from shardclock_server.feel.refusal import TooLong

STEPS_MAX = 100_000
LIST_ITEMS_MAX = 100_000
TEXT_CHARS_MAX = 1_048_576
VALUE_CHARS_MAX = TEXT_CHARS_MAX  # of all texts of one value that is returned; one that is there twice counts twice
VALUE_DEPTH_MAX = DEPTH_MAX - 1  # lists and contexts within each other; the object of all variables is one more level
CALL_HEIGHT_MAX = 400  # nodes above each other in all functions that are being called; Python allows 1,000 frames
PATTERN_TIME_S = 0.05  # of all patterns of one evaluation together
TIME_S = 2.0  # of the processor, twenty times what all steps should take: for what costs more than it is counted
LOOK_STEPS = 256  # between two looks at that time
NODES_PER_STEP = 10
TEXT_CHARS_PER_STEP = 256
ITEMS_PER_STEP = 4


class Budget:
    """Hold what one evaluation may still spend, and the moment that it calls now.

    `takes` begins the sentence for who spends more, and `way_out` ends it. It is of the thread that makes it.
    """

    __slots__ = (
        "_look_at", "_look_steps", "_time_s", "_until_s", "height", "looked_s", "now", "pattern_s", "returned_chars",
        "steps", "steps_max", "takes", "way_out",
    )  # fmt: skip

    def __init__(
        self,
        now: datetime,
        steps_max: int = STEPS_MAX,
        *,
        takes: str = "the expression takes",
        way_out: str = "loop over less, or split it into several",
        time_s: float = TIME_S,
        look_steps: int = LOOK_STEPS,
        began_s: float | None = None,
    ) -> None:
        """Begin at a moment of the thread's clock; None: now."""
        self.now = now
        self.steps = self.steps_max = steps_max
        self._time_s = time_s
        self.looked_s = time.thread_time() if began_s is None else began_s  # the last reading of the clock
        self._until_s = self.looked_s + time_s
        self._look_steps = look_steps
        self._look_at = max(0, steps_max - look_steps)
        self.takes = takes
        self.way_out = way_out
        self.height = 0
        self.pattern_s = PATTERN_TIME_S
        self.returned_chars = 0  # a part without text counts as 8

    @property
    def spent(self) -> int:
        """Say how many steps were taken: all, if there were too few."""
        return self.steps_max - max(0, self.steps)

    def spend(self, steps: int) -> None:
        """Take steps from what is left.

        errors:  TooLong  there are not so many left, or the time is over
        """
        self.steps -= steps
        if self.steps < self._look_at:
            self._look()

    def _look(self) -> None:
        if self.steps < 0:
            raise TooLong(f"{self.takes} more than {self.steps_max:,} steps; {self.way_out}")
        self.looked_s = time.thread_time()
        if self.looked_s > self._until_s:
            raise TooLong(f"{self.takes} more than {self._time_s:g} s; {self.way_out}")
        self._look_at = max(0, self.steps - self._look_steps)

    def spend_on_text(self, chars: int) -> None:
        """Take the steps that a text of so many characters costs, and refuse one that is too long."""
        if chars > TEXT_CHARS_MAX:
            raise TooLong(
                f"the expression makes a string of {chars:,} characters; a string has at most {TEXT_CHARS_MAX:,}"
            )
        self.spend(chars // TEXT_CHARS_PER_STEP)

    def spend_on_list(self, items: int) -> None:
        """Take the steps that a list of so many items costs, and refuse one that is too long."""
        if items > LIST_ITEMS_MAX:
            raise TooLong(f"the expression makes a list of {shown(items)} items; a list has at most {LIST_ITEMS_MAX:,}")
        self.spend(items // ITEMS_PER_STEP)

    def enter(self, height: int) -> None:
        """Begin a call of a function whose body has this height.

        errors:  TooLong  functions call each other too deep
        """
        self.height += height
        if self.height > CALL_HEIGHT_MAX:
            raise TooLong("the expression's functions call each other too deep; use `for` instead of a call of itself")

    def leave(self, height: int) -> None:
        """End a call of a function whose body has this height."""
        self.height -= height


def check_depth(depth: int) -> None:
    """Refuse a value whose lists and contexts lie too deep within each other."""
    if depth > VALUE_DEPTH_MAX:
        raise TooLong(f"a value {TOO_DEEP}")


def shown(number: int) -> str:
    """Write a count so that a reader grasps it, however large it is."""
    return f"{number:,}" if abs(number) < 10**15 else "over 10^15"
