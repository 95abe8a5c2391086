"""Compile a FEEL expression once, and evaluate the compiled form any number of times."""

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
# Names of properties of dates and ranges that contain a space.
PARTS = ("time offset", "start included", "end included")
BUILTIN_NAMES = KnownNames([*FUNCTION_NAMES, *PARTS])


class Expression:
    """A compiled expression: its text, and the names of the variables that it may read.

    shape:   `mismatch` is the first function call with arguments that fit no declaration. In DMN, the value of a call
             with a mismatch is null; this engine refuses the model. `shown` is the text as its author wrote it
    """

    __slots__ = ("_code", "mismatch", "names", "shown", "text")

    def __init__(self, text: str, names: frozenset[str], mismatch: NotFeel | None, code: Code) -> None:
        self.text = self.shown = text
        self.names = names
        self.mismatch = mismatch
        self._code = code

    def evaluate(self, variables: Mapping[str, FeelValue], *, now: datetime, steps_max: int = STEPS_MAX) -> FeelValue:
        """Evaluate the expression; an error inside the expression gives null, as FEEL requires.

        shape:   `variables` are FEEL values: convert JSON with `from_json`. `now` has a time zone; the functions
                 `now()` and `today()` use this moment
        units:   a step is about a microsecond
        errors:  TooLong          the evaluation exceeds a limit of steps, length, depth or time
                 AssertionFailed  an `assert` fails
        """
        return self.evaluate_within(variables, Budget(now, steps_max))

    def evaluate_within(self, variables: Mapping[str, FeelValue], budget: Budget) -> FeelValue:
        """Evaluate the expression with the caller's budget, which counts the used steps.

        errors:  as `evaluate`
        """
        try:
            return self._code(Scope(variables, None, budget))
        except RecursionError:
            raise TooLong("the expression's calls are nested too deep; use fewer levels") from None


def compile_expression(text: str, known_names: Collection[str] = frozenset()) -> Expression:
    """Compile a text without evaluating it.

    A name with spaces or signs must be in `known_names`, unless the text declares the name.

    errors:  NotFeel  the text is not a supported FEEL expression; the message is for the author
    """
    node = parse(text, BUILTIN_NAMES.with_names(known_names))
    free: set[str] = set()
    mismatches: list[NotFeel] = []
    code = CompileScope(text, COMPILERS, free, mismatches).code(node)
    first = min(mismatches, key=lambda mismatch: mismatch.position, default=None)
    return Expression(text, frozenset(free), first, code)
