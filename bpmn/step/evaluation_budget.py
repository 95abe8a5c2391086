"""Limit the total cost of one element's expressions, because the evaluation of an element can't be interrupted."""

import json
from collections.abc import Iterable, Mapping
from datetime import datetime

from shardclock_server.feel import Budget, Expression, Json, TooLong, from_json, to_json

ELEMENT_STEPS_MAX = 1_000_000  # an evaluation takes these steps in about a second
ELEMENT_S = 5.0  # the processor time that the expressions of one element may use
ELEMENT_CHARS_MAX = 4 * 1_048_576  # characters of text in the values of the element's expressions
EVALUATION_STEPS = 2  # each expression costs at least these steps
COPIED_PER_STEP = 64  # copying this many entries of a context costs one step
WAY_OUT = "map less, or spread them over several elements"


class EvaluationBudget:
    """The moment that expressions see as now, and the remaining budget of one element's expressions.

    shape:   `chars` counts the characters that the step has made: values of its expressions, and sent variables
    """

    def __init__(self, now: datetime) -> None:
        self.now = now
        self.chars = 0
        self._element: Budget | None = None

    def begin_element(self) -> None:
        """Start the next element's budget."""
        self._element = None

    def _element_budget(self) -> Budget:
        """Return the budget of the element.

        The first expression creates the budget. Most elements have no expression, and each new budget reads the clock,
        which costs a system call.
        """
        if self._element is None:
            self._element = Budget(
                self.now,
                ELEMENT_STEPS_MAX,
                takes="the expressions of the element take together",
                way_out=WAY_OUT,
                time_s=ELEMENT_S,
                check_steps=0,
            )
        return self._element

    def evaluate(self, expression: Expression, variables: Iterable[tuple[str, Json]], *, levels: int = 0) -> Json:
        """Evaluate an expression; reading its variables and writing its value also cost steps.

        shape:   `levels` is the number of lists and contexts of the target variable around the value
        errors:  TooLong          the expression, or all expressions of the element together, exceed a limit
                 AssertionFailed  its `assert` does not hold
                 Unstorable       a text in its value can't be stored
        """
        element = self._element_budget()
        element.spend(EVALUATION_STEPS)
        own = Budget(self.now, began_s=element.checked_s)
        seen = {name: from_json(value, element) for name, value in variables}
        try:
            value = expression.evaluate_within(seen, own)
        finally:
            element.spend(own.spent)
        before = element.returned_chars
        written = to_json(value, element, levels=levels)
        self.chars += element.returned_chars - before
        if element.returned_chars > ELEMENT_CHARS_MAX:
            raise TooLong(
                f"the expressions of the element return together more than {ELEMENT_CHARS_MAX:,} characters of text;"
                f" {WAY_OUT}"
            )
        return written

    def send(self, *values: object) -> None:
        """Add up the characters of JSON that the step sends to workers and to other instances."""
        self.chars += sum(len(json.dumps(value)) for value in values if value)

    def copy(self, context: Mapping[str, Json]) -> dict[str, Json]:
        """Copy a context.

        errors:  TooLong  all expressions of the element together exceed the limit
        """
        if steps := len(context) // COPIED_PER_STEP:
            self._element_budget().spend(steps)
        return dict(context)
