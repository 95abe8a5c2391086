"""Collect the built-in functions, by subject."""

from shardclock_server.feel.functions import aggregates, contexts, conversion, dates, lists, numbers, ranges, texts
from shardclock_server.feel.functions.registry import FUNCTIONS

SUBJECTS = (aggregates, contexts, conversion, dates, lists, numbers, ranges, texts)  # each declares its functions
FUNCTION_NAMES = frozenset(FUNCTIONS)

__all__ = ["FUNCTIONS", "FUNCTION_NAMES", "SUBJECTS"]
