"""Evaluate expressions in FEEL, the language of DMN 1.5 and of Camunda 8.

The package supports a subset of FEEL. `compile_expression` compiles an expression to closures. It refuses an
unsupported expression with a message, before a process runs. `evaluate` returns null if the expression contains an
error. If an evaluation exceeds a limit, `evaluate` raises `TooLong`, so every evaluation ends. An evaluation reads no
clock and draws no random number: the same variables and the same `now` give the same value.

The modules, in the order of their use:

- `source`, `lexer` and `names` split a text into tokens, and recognize names with spaces.
- `parser`, `parse_forms`, `parse_literals`, `parse_names` and `parse_types` build a tree of the nodes in `syntax`.
- `compile_operators`, `compile_values` and `compile_loops` compile the tree to closures, with `code` and `budget`.
- `expression` compiles a text once, and evaluates the result.
- `values`, `types`, `ranges` and `arithmetic` define the values and their operations.
- `temporal`, `temporal_text` and `calendar` define dates, times and durations.
- `functions` has the built-in functions, by subject.
- `text` and `json_form` write values in the notations of FEEL and JSON.
- `refusal` has the errors for an invalid text and for an evaluation that exceeds a limit.

The package does not support these features of FEEL:

- names with spaces, unless the text declares the name, `known_names` contains it, or backquotes enclose it
- `?` in tests
- `not(…)` to the right of `in`
- functions in other languages
- the random functions of feel-scala
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
