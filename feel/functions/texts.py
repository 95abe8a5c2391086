"""Cut, join, compare and rewrite texts."""

from __future__ import annotations

from shardclock_server.feel.arithmetic import Number, clamped
from shardclock_server.feel.budget import Budget
from shardclock_server.feel.functions import patterns
from shardclock_server.feel.functions.registry import builtin, counted
from shardclock_server.feel.values import FeelValue


@builtin("string length", "string: string")
def length(string: str) -> int:
    """Count the characters."""
    return len(string)


@counted("substring", "string: string, start position: number")
@counted("substring", "string: string, start position: number, length: number")
def substring(budget: Budget, string: str, start: Number, length: Number | None = None) -> str | None:
    """Return a section of a text; the first character has the position 1, the last character -1."""
    if start == 0 or (length is not None and length < 1):
        return None
    first = clamped(start) - 1 if start > 0 else len(string) + clamped(start)
    last = len(string) if length is None else first + clamped(length)
    part = string[max(first, 0) : max(last, 0)]
    budget.spend_on_text(len(part))
    return part


@counted("upper case", "string: string")
def upper_case(budget: Budget, string: str) -> str:
    """Convert to capital letters."""
    budget.spend_on_text(len(string))
    return string.upper()


@counted("lower case", "string: string")
def lower_case(budget: Budget, string: str) -> str:
    """Convert to small letters."""
    budget.spend_on_text(len(string))
    return string.lower()


@counted("trim", "string: string")
def trim(budget: Budget, string: str) -> str:
    """Cut off the spaces at both ends."""
    budget.spend_on_text(len(string))
    return string.strip()


@counted("is blank", "string: string")
def is_blank(budget: Budget, string: str) -> bool:
    """Return whether a text has only spaces."""
    budget.spend_on_text(len(string))
    return not string.strip()


@counted("substring before", "string: string, match: string")
def substring_before(budget: Budget, string: str, match: str) -> str:
    """Return the part before the first occurrence of a text; empty if the text does not occur."""
    budget.spend_on_text(len(string))
    return string.partition(match)[0] if match and match in string else ""


@counted("substring after", "string: string, match: string")
def substring_after(budget: Budget, string: str, match: str) -> str:
    """Return the part after the first occurrence of a text; empty if the text does not occur."""
    budget.spend_on_text(len(string))
    return string.partition(match)[2] if match else string


@counted("contains", "string: string, match: string")
def contains(budget: Budget, string: str, match: str) -> bool:
    """Return whether a text contains another text."""
    budget.spend_on_text(len(string))
    return match in string


@builtin("starts with", "string: string, match: string")
def starts_with(string: str, match: str) -> bool:
    """Return whether a text begins with another text."""
    return string.startswith(match)


@builtin("ends with", "string: string, match: string")
def ends_with(string: str, match: str) -> bool:
    """Return whether a text ends with another text."""
    return string.endswith(match)


@counted("matches", "input: string, pattern: string")
@counted("matches", "input: string, pattern: string, flags: string?")
def matches(budget: Budget, text: str, pattern: str, flags: str | None = None) -> bool | None:
    """Return whether a pattern matches anywhere in a text."""
    compiled = patterns.compiled(pattern, flags or "", budget)
    return patterns.is_found(compiled, text, budget) if compiled else None


@counted("replace", "input: string, pattern: string, replacement: string")
@counted("replace", "input: string, pattern: string, replacement: string, flags: string?")
def replace(budget: Budget, text: str, pattern: str, replacement: str, flags: str | None = None) -> str | None:
    """Replace all matches of a pattern; $1 in the replacement is the text of the first group."""
    compiled = patterns.compiled(pattern, flags or "", budget)
    return patterns.replaced(compiled, text, replacement, budget) if compiled else None


@counted("split", "string: string, delimiter: string")
def split(budget: Budget, string: str, delimiter: str) -> list[str] | None:
    """Cut a text at each match of a pattern."""
    compiled = patterns.compiled(delimiter, "", budget)
    return patterns.split(compiled, string, budget) if compiled else None


@counted("extract", "string: string, pattern: string")
def extract(budget: Budget, string: str, pattern: str) -> list[str] | None:
    """List all matches of a pattern."""
    compiled = patterns.compiled(pattern, "", budget)
    return patterns.found(compiled, string, budget) if compiled else None


@counted("string join", "list: list")
@counted("string join", "list: list, delimiter: string?")
@counted("string join", "list: list, delimiter: string?, prefix: string?, suffix: string?")
def string_join(
    budget: Budget,
    items: list[FeelValue],
    delimiter: str | None = None,
    prefix: str | None = None,
    suffix: str | None = None,
) -> str | None:
    """Join texts; null items are left out, and any other kind of item makes the result null."""
    texts = [item for item in items if isinstance(item, str)]
    if len(texts) != sum(item is not None for item in items):
        return None
    between, before, after = delimiter or "", prefix or "", suffix or ""
    budget.spend_on_list(len(items))
    budget.spend_on_text(sum(map(len, [*texts, before, after])) + len(between) * max(len(texts) - 1, 0))
    return before + between.join(texts) + after
