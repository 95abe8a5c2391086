"""Count the steps of one evaluation, and define the limits of all evaluations.

A step stands for about a microsecond of work. One step is the cost of an iteration of a loop, of ten nodes in a loop's
body, of four list items that a function reads, or of 256 characters in a text.
"""

import time
from datetime import datetime

from shardclock.jsonb import DEPTH_MAX, TOO_DEEP
from shardclock_server.feel.refusal import TooLong

STEPS_MAX = 100_000
LIST_ITEMS_MAX = 100_000
TEXT_CHARS_MAX = 1_048_576
# The limit of the total length of all texts in a returned value. A repeated text counts each time.
VALUE_CHARS_MAX = TEXT_CHARS_MAX
VALUE_DEPTH_MAX = DEPTH_MAX - 1  # The limit of nested lists and contexts. The object with all variables adds one level.
CALL_HEIGHT_MAX = 400  # The limit of tree levels in all nested function calls together. Python allows 1,000 frames.
PATTERN_TIME_S = 0.05  # The limit for all patterns of one evaluation together.
# The limit of processor time is twenty times the expected time of all steps. The limit ends an evaluation if its
# operations take longer than their number of steps suggests.
TIME_S = 2.0
CHECK_STEPS = 256  # The number of steps between two checks of the processor time.
NODES_PER_STEP = 10
TEXT_CHARS_PER_STEP = 256
ITEMS_PER_STEP = 4


class Budget:
    """The remaining steps and time of one evaluation, and the value of `now()`.

    An evaluation over its budget is refused with a message that begins with `takes` and ends with `way_out`. A budget
    measures the processor time of the thread that creates the budget.
    """

    __slots__ = (
        "_check_below", "_check_steps", "_time_s", "_until_s", "checked_s", "height", "now", "pattern_s",
        "returned_chars", "steps", "steps_max", "takes", "way_out",
    )  # fmt: skip

    def __init__(
        self,
        now: datetime,
        steps_max: int = STEPS_MAX,
        *,
        takes: str = "the expression takes",
        way_out: str = "loop over fewer items, or split the expression",
        time_s: float = TIME_S,
        check_steps: int = CHECK_STEPS,
        began_s: float | None = None,
    ) -> None:
        """Measure the budget's processor time from `began_s` on the thread's clock; without `began_s`, from now."""
        self.now = now
        self.steps = self.steps_max = steps_max
        self._time_s = time_s
        self.checked_s = time.thread_time() if began_s is None else began_s  # The processor time at the last check.
        self._until_s = self.checked_s + time_s
        self._check_steps = check_steps
        self._check_below = max(0, steps_max - check_steps)
        self.takes = takes
        self.way_out = way_out
        self.height = 0
        self.pattern_s = PATTERN_TIME_S
        self.returned_chars = 0  # The text length plus 8, summed over all elements of the returned values.

    @property
    def spent(self) -> int:
        """Return the number of used steps, at most `steps_max`."""
        return self.steps_max - max(0, self.steps)

    def spend(self, steps: int) -> None:
        """Subtract steps from the budget.

        errors:  TooLong  the remaining steps are too few, or the processor time is used up
        """
        self.steps -= steps
        if self.steps < self._check_below:
            self._check_time()

    def _check_time(self) -> None:
        if self.steps < 0:
            raise TooLong(f"{self.takes} more than {self.steps_max:,} steps; {self.way_out}")
        self.checked_s = time.thread_time()
        if self.checked_s > self._until_s:
            raise TooLong(f"{self.takes} more than {self._time_s:g} s; {self.way_out}")
        self._check_below = max(0, self.steps - self._check_steps)

    def spend_on_text(self, chars: int) -> None:
        """Subtract the steps for a text with the given number of characters.

        errors:  TooLong  the text is too long, or the budget is too small
        """
        if chars > TEXT_CHARS_MAX:
            raise TooLong(
                f"the expression makes a string of {chars:,} characters; a string has at most {TEXT_CHARS_MAX:,}"
            )
        self.spend(chars // TEXT_CHARS_PER_STEP)

    def spend_on_list(self, items: int) -> None:
        """Subtract the steps for a list with the given number of items.

        errors:  TooLong  the list is too long, or the budget is too small
        """
        if items > LIST_ITEMS_MAX:
            raise TooLong(f"the expression makes a list of {shown(items)} items; a list has at most {LIST_ITEMS_MAX:,}")
        self.spend(items // ITEMS_PER_STEP)

    def enter(self, height: int) -> None:
        """Add the height of a called function's syntax tree to the total height of all running calls.

        errors:  TooLong  the nested function calls are too deep
        """
        self.height += height
        if self.height > CALL_HEIGHT_MAX:
            raise TooLong(
                "the expression's function calls are nested too deep; replace a function that calls itself by `for`"
            )

    def leave(self, height: int) -> None:
        """Subtract the height of a function's syntax tree after the call; pass the same `height` as to `enter`."""
        self.height -= height


def check_depth(depth: int) -> None:
    """Refuse a value with too many levels of lists and contexts."""
    if depth > VALUE_DEPTH_MAX:
        raise TooLong(f"a value {TOO_DEEP}")


def shown(number: int) -> str:
    """Format a count for a message, with a short form for a huge count."""
    return f"{number:,}" if abs(number) < 10**15 else "over 10^15"
