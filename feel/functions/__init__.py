"""Collect the built-in functions, by subject."""

from shardclock_server.feel.functions import aggregates, contexts, conversion, dates, lists, numbers, ranges, texts
from shardclock_server.feel.functions.registry import FUNCTIONS

# The import of a module declares its functions.
SUBJECTS = (aggregates, contexts, conversion, dates, lists, numbers, ranges, texts)
FUNCTION_NAMES = frozenset(FUNCTIONS)

__all__ = ["FUNCTIONS", "FUNCTION_NAMES", "SUBJECTS"]
