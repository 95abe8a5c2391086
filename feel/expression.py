"""Compile a text of FEEL once, and evaluate it any number of times."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import datetime

from shardclock_server.feel import compile_loops, compile_operators, compile_values, syntax
from shardclock_server.feel.budget import STEPS_MAX, Budget
from shardclock_server.feel.code import Code, CompileScope, Scope
from shardclock_server.feel.functions import FUNCTION_NAMES
from shardclock_server.feel.names import KnownNames
from shardclock_server.feel.parser import parse
from shardclock_server.feel.refusal import NotFeel, TooLong
from shardclock_server.feel.values import FeelValue

COMPILERS: Mapping[type, Callable[..., Code]] = {
    syntax.Constant: compile_values.compile_constant,
    syntax.Name: compile_values.compile_name,
    syntax.Path: compile_values.compile_path,
    syntax.FilterExpression: compile_values.compile_filter,
    syntax.ListOf: compile_values.compile_list,
    syntax.ContextOf: compile_values.compile_context,
    syntax.RangeOf: compile_values.compile_range,
    syntax.UnaryTest: compile_values.compile_unary_test,
    syntax.Condition: compile_values.compile_condition,
    syntax.Negation: compile_operators.compile_negation,
    syntax.Binary: compile_operators.compile_binary,
    syntax.Logic: compile_operators.compile_logic,
    syntax.Between: compile_operators.compile_between,
    syntax.In: compile_operators.compile_in,
    syntax.InstanceOf: compile_operators.compile_instance,
    syntax.Iteration: compile_loops.compile_iteration,
    syntax.FunctionOf: compile_loops.compile_function,
    syntax.Invocation: compile_loops.compile_invocation,
}
# The properties of dates and ranges with a space in their name.
PARTS = ("time offset", "start included", "end included")
BUILTIN_NAMES = KnownNames([*FUNCTION_NAMES, *PARTS])


class Expression:
    """A compiled expression: its text, and the names of the variables that it may read.

    shape:   `mismatch` is the first call with a number or names of arguments that fit no declaration. By DMN the call's
             value is null; a model with a mismatch is refused. `shown` is the text in its author's spelling
    """

    __slots__ = ("_code", "mismatch", "names", "shown", "text")

    def __init__(self, text: str, names: frozenset[str], mismatch: NotFeel | None, code: Code) -> None:
        self.text = self.shown = text
        self.names = names
        self.mismatch = mismatch
        self._code = code

    def evaluate(self, variables: Mapping[str, FeelValue], *, now: datetime, steps_max: int = STEPS_MAX) -> FeelValue:
        """Evaluate the expression; an error within it gives null, as in FEEL.

        shape:   `variables` are values of FEEL: pass JSON values through `from_json`. `now` is aware; `now()` and
                 `today()` return it
        units:   a step is about a microsecond
        errors:  TooLong          the evaluation reaches a bound of steps, length, depth or time
                 AssertionFailed  an `assert` fails
        """
        return self.evaluate_within(variables, Budget(now, steps_max))

    def evaluate_within(self, variables: Mapping[str, FeelValue], budget: Budget) -> FeelValue:
        """Evaluate the expression as `evaluate` does; the caller reads the steps taken from the budget.

        errors:  as `evaluate`
        """
        try:
            return self._code(Scope(variables, None, budget))
        except RecursionError:
            raise TooLong("the expression's calls lie too deep within each other; make it flatter") from None


def compile_expression(text: str, known_names: Collection[str] = frozenset()) -> Expression:
    """Compile a text without evaluating it.

    A name with spaces or signs must be in `known_names`, or declared by the text itself.

    errors:  NotFeel  the text is not an expression of our FEEL; show the message to the author
    """
    node = parse(text, BUILTIN_NAMES.with_names(known_names))
    free: set[str] = set()
    mismatches: list[NotFeel] = []
    code = CompileScope(text, COMPILERS, free, mismatches).code(node)
    first = min(mismatches, key=lambda mismatch: mismatch.position, default=None)
    return Expression(text, frozenset(free), first, code)
