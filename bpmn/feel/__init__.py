"""Evaluate FEEL, the expression language of DMN 1.5 and of Camunda 8: a strict subset, compiled to closures.

`compile_expression` refuses what is not supported with a sentence, before a process runs; `evaluate` answers null where
something goes wrong, and ends with `TooLong` where a bound is passed, so no expression runs for ever. It reads no clock
and draws no random number: the same variables and the same `now` give the same value.

Not supported: names with spaces that the text does not make and that are neither in `known_names` nor in backquotes;
`?` in tests; `not(…)` to the right of `in`; functions in other languages; functions of feel-scala that are random.
"""

from bpmn.feel.expression import Expression, compile_expression
from bpmn.feel.json_form import Json, from_json, to_json
from bpmn.feel.refusal import NotFeel, TooLong, Unmet
from bpmn.feel.values import FeelValue

__all__ = [
    "Expression",
    "FeelValue",
    "Json",
    "NotFeel",
    "TooLong",
    "Unmet",
    "compile_expression",
    "from_json",
    "to_json",
]
