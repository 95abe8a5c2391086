"""Compile a text of FEEL once, and evaluate it as often as one likes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import datetime

from shardclock_server.feel import compile_loops, compile_operators, compile_values, syntax
from shardclock_server.feel.budget import STEPS_MAX, Budget
from shardclock_server.feel.code import Code, Place, Scope
from shardclock_server.feel.functions import FUNCTION_NAMES
from shardclock_server.feel.names import KnownNames
from shardclock_server.feel.parser import parse
from shardclock_server.feel.refusal import NotFeel, TooLong
from shardclock_server.feel.values import FeelValue

COMPILERS: Mapping[type, Callable[..., Code]] = {
    syntax.Constant: compile_values.compile_constant,
    syntax.Name: compile_values.compile_name,
    syntax.Path: compile_values.compile_path,
    syntax.Filter: compile_values.compile_filter,
    syntax.ListOf: compile_values.compile_list,
    syntax.ContextOf: compile_values.compile_context,
    syntax.Span: compile_values.compile_span,
    syntax.Test: compile_values.compile_test,
    syntax.Condition: compile_values.compile_condition,
    syntax.Negation: compile_operators.compile_negation,
    syntax.Binary: compile_operators.compile_binary,
    syntax.Logic: compile_operators.compile_logic,
    syntax.Between: compile_operators.compile_between,
    syntax.In: compile_operators.compile_in,
    syntax.InstanceOf: compile_operators.compile_instance,
    syntax.Loop: compile_loops.compile_loop,
    syntax.FunctionOf: compile_loops.compile_function,
    syntax.Call: compile_loops.compile_call,
}
# Names with spaces of the parts of dates and ranges.
PARTS = ("time offset", "start included", "end included")
OUR_NAMES = KnownNames([*FUNCTION_NAMES, *PARTS])


class Expression:
    """Hold a compiled expression: its text, and the names of the variables that it may read.

    shape:   `misfit` is the first call whose arguments no function of that name takes, whatever they are. It is null,
             as DMN has it; a model with such a call is refused. `shown` is the text that its author wrote
    """

    __slots__ = ("_code", "misfit", "names", "shown", "text")

    def __init__(self, text: str, names: frozenset[str], misfit: NotFeel | None, code: Code) -> None:
        self.text = self.shown = text
        self.names = names
        self.misfit = misfit
        self._code = code

    def evaluate(self, variables: Mapping[str, FeelValue], *, now: datetime, steps_max: int = STEPS_MAX) -> FeelValue:
        """Evaluate the expression; what goes wrong within it is null, as FEEL has it.

        shape:   `variables` are values of FEEL: pass those of JSON through `from_json`. `now` is aware; it is what
                 `now()` and `today()` return
        units:   a step is about a microsecond
        errors:  TooLong  it passes a bound of steps, length, depth or time; Unmet  its `assert` does not hold
        """
        return self.evaluate_within(variables, Budget(now, steps_max))

    def evaluate_within(self, variables: Mapping[str, FeelValue], budget: Budget) -> FeelValue:
        """Evaluate the expression as `evaluate` does, with a budget that says afterwards what was spent.

        errors:  as of `evaluate`
        """
        try:
            return self._code(Scope(variables, None, budget))
        except RecursionError:
            raise TooLong("the expression's calls lie too deep within each other; make it flatter") from None


def compile_expression(text: str, known_names: Collection[str] = frozenset()) -> Expression:
    """Compile a text, without evaluating any of it.

    Names with spaces or signs are read where they are in `known_names`, or where the text itself makes them.

    errors:  NotFeel  it is no expression of our FEEL; show its sentence to the author
    """
    node = parse(text, OUR_NAMES.and_others(known_names))
    free: set[str] = set()
    misfits: list[NotFeel] = []
    code = Place(text, COMPILERS, free, misfits).code(node)
    first = min(misfits, key=lambda misfit: misfit.position, default=None)
    return Expression(text, frozenset(free), first, code)
