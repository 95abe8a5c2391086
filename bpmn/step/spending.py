"""Bound what the expressions of one element take together: an element that has begun is finished, whoever waits."""

import json
from collections.abc import Iterable, Mapping
from datetime import datetime

from shardclock_server.feel import Budget, Expression, Json, TooLong, from_json, to_json

ELEMENT_STEPS_MAX = 1_000_000  # about a second
ELEMENT_S = 5.0  # of the processor
ELEMENT_CHARS_MAX = 4 * 1_048_576  # of text, in the values of its expressions
EVALUATION_STEPS = 2  # of each expression, however little it does
COPIED_PER_STEP = 64  # entries of a context
WAY_OUT = "map less, or spread them over several elements"


class Spending:
    """Hold the moment that the expressions of a step call now, and what those of one element may still spend.

    shape:   `chars` counts characters that the step has made: of the values of its expressions, and of what it sends
    """

    def __init__(self, now: datetime) -> None:
        self.now = now
        self.chars = 0
        self._budget: Budget | None = None

    def begin_element(self) -> None:
        """Give the next element as much as each has."""
        self._budget = None

    def _together(self) -> Budget:
        """Return the budget of the element.

        It is made for the first expression. Most elements have none, and a budget reads the clock: a system call.
        """
        if self._budget is None:
            self._budget = Budget(
                self.now,
                ELEMENT_STEPS_MAX,
                takes="the expressions of the element take together",
                way_out=WAY_OUT,
                time_s=ELEMENT_S,
                look_steps=0,
            )
        return self._budget

    def evaluate(self, expression: Expression, variables: Iterable[tuple[str, Json]], *, levels: int = 0) -> Json:
        """Evaluate an expression with variables, which are read, and its value written, at the same cost.

        shape:   `levels` are the lists and contexts of its variable into which the value is put
        errors:  TooLong  it passes a bound, or all of the element do; Unmet  its `assert` does not hold;
                 Unstorable  a text in its value can't be stored
        """
        together = self._together()
        together.spend(EVALUATION_STEPS)
        alone = Budget(self.now, began_s=together.looked_s)
        seen = {name: from_json(value, together) for name, value in variables}
        try:
            value = expression.evaluate_within(seen, alone)
        finally:
            together.spend(alone.spent)
        before = together.returned_chars
        written = to_json(value, together, levels=levels)
        self.chars += together.returned_chars - before
        if together.returned_chars > ELEMENT_CHARS_MAX:
            raise TooLong(
                f"the expressions of the element return together more than {ELEMENT_CHARS_MAX:,} characters of text;"
                f" {WAY_OUT}"
            )
        return written

    def send(self, *what: object) -> None:
        """Count what goes to a worker, or to another instance, as JSON."""
        self.chars += sum(len(json.dumps(each)) for each in what if each)

    def copy(self, context: Mapping[str, Json]) -> dict[str, Json]:
        """Copy a context.

        errors:  TooLong  all of the element pass the bound
        """
        if steps := len(context) // COPIED_PER_STEP:
            self._together().spend(steps)
        return dict(context)
