"""Limit the total cost of one element's expressions, because a step can't be interrupted inside an element."""

import json
from collections.abc import Iterable, Mapping
from datetime import datetime

from shardclock_server.feel import Budget, Expression, Json, TooLong, from_json, to_json

ELEMENT_STEPS_MAX = 1_000_000  # An evaluation of a million steps takes about a second.
ELEMENT_S = 5.0  # The processor time that the expressions of one element may use.
ELEMENT_CHARS_MAX = 4 * 1_048_576  # The limit of characters in the values of the element's expressions.
EVALUATION_STEPS = 2  # The minimum number of steps for each expression.
COPIED_PER_STEP = 64  # The number of context entries that are copied for one step.
WAY_OUT = "map less data, or distribute the expressions over several elements"


class EvaluationBudget:
    """The moment that `now()` returns, and the remaining budget for one element's expressions.

    shape:   `chars` counts the characters that the step has produced: values of expressions, and sent variables
    """

    def __init__(self, now: datetime) -> None:
        self.now = now
        self.chars = 0
        self._element: Budget | None = None

    def begin_element(self) -> None:
        """Start a new budget for the next element."""
        self._element = None

    def _element_budget(self) -> Budget:
        """Return the element's budget.

        The first expression of the element creates the budget, because most elements have no expression, and a new
        budget reads the clock with a system call.
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
        """Evaluate an expression; the conversions of variables and of the value also cost steps.

        shape:   `levels` is the number of lists and contexts in the target variable that will contain the value
        errors:  TooLong          the expression, or all expressions of the element together, exceed a limit.
                 AssertionFailed  an `assert` of the expression fails.
                 Unstorable       the value contains a text that Postgres can't store.
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
        """Count the characters of JSON that the step sends to workers and to other instances."""
        self.chars += sum(len(json.dumps(value)) for value in values if value)

    def copy(self, context: Mapping[str, Json]) -> dict[str, Json]:
        """Copy a context.

        errors:  TooLong  all expressions of the element together exceed the limit
        """
        if steps := len(context) // COPIED_PER_STEP:
            self._element_budget().spend(steps)
        return dict(context)
