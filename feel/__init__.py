"""Evaluate FEEL, the expression language of DMN 1.5 and of Camunda 8: a strict subset, compiled to closures.

`compile_expression` refuses what is not supported with a sentence, before a process runs; `evaluate` answers null where
something goes wrong, and ends with `TooLong` where a bound is passed, so no expression runs for ever. It reads no clock
and draws no random number: the same variables and the same `now` give the same value.

A text goes one way:

    source, lexer, names   it is cut into tokens; names with spaces are known by what is around them
    parser, parse_forms, parse_literals, parse_names, parse_types  it becomes a tree (`syntax`)
    compile_operators, compile_values, compile_loops  the tree becomes closures (`code`, `budget`)
    expression             compiles a text once, and evaluates it
    values, types, ranges, arithmetic  what is computed with
    temporal, temporal_text, calendar  dates, times and durations
    functions              those that every expression may call, by subject
    text, json_form        values as FEEL and JSON write them
    refusal                why a text is none, and how an evaluation ends that passes a bound

Not supported: names with spaces that the text does not make and that are neither in `known_names` nor in backquotes;
`?` in tests; `not(…)` to the right of `in`; functions in other languages; functions of feel-scala that are random.
"""

from shardclock_server.feel.budget import Budget
from shardclock_server.feel.expression import Expression, compile_expression
from shardclock_server.feel.json_form import Json, from_json, to_json
from shardclock_server.feel.refusal import NotFeel, TooLong, Unmet, Unstorable
from shardclock_server.feel.values import FeelValue

__all__ = [
    "Budget",
    "Expression",
    "FeelValue",
    "Json",
    "NotFeel",
    "TooLong",
    "Unmet",
    "Unstorable",
    "compile_expression",
    "from_json",
    "to_json",
]
