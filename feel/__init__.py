"""Evaluate FEEL, the expression language of DMN 1.5 and of Camunda 8: a strict subset, compiled to closures.

`compile_expression` refuses unsupported expressions with a message, before a process runs. `evaluate` returns null for
an error within the expression, and raises `TooLong` at a bound, so every evaluation ends. An evaluation reads no clock
and draws no random number: the same variables and the same `now` give the same value.

The modules, in the order of the work:

    source, lexer, names   cut a text into tokens; names with spaces are recognized
    parser, parse_forms, parse_literals, parse_names, parse_types  build a tree (`syntax`)
    compile_operators, compile_values, compile_loops  turn the tree into closures (`code`, `budget`)
    expression             compiles a text once, and evaluates it
    values, types, ranges, arithmetic  the values and the operations on them
    temporal, temporal_text, calendar  dates, times and durations
    functions              the built-in functions, by subject
    text, json_form        values as FEEL and JSON write them
    refusal                the errors: a wrong text, and an evaluation that ends at a bound

These features of FEEL are not supported: names with spaces that the text does not declare and that are neither in
`known_names` nor in backquotes; `?` in tests; `not(…)` to the right of `in`; functions in other languages; feel-scala's
random functions.
"""

from shardclock_server.feel.budget import Budget
from shardclock_server.feel.expression import Expression, compile_expression
from shardclock_server.feel.json_form import Json, from_json, to_json
from shardclock_server.feel.refusal import AssertionFailed, NotFeel, TooLong, Unstorable
from shardclock_server.feel.values import FeelValue

__all__ = [
    "AssertionFailed",
    "Budget",
    "Expression",
    "FeelValue",
    "Json",
    "NotFeel",
    "TooLong",
    "Unstorable",
    "compile_expression",
    "from_json",
    "to_json",
]
