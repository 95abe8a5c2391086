"""Read, make and change contexts; a change makes a new context."""

from __future__ import annotations

from shardclock_server.feel.budget import Budget
from shardclock_server.feel.functions.registry import builtin, counted
from shardclock_server.feel.values import FeelValue

Entries = dict[str, FeelValue]


@builtin("get value", "m: context, key: string")
def get_value(m: Entries, key: str) -> FeelValue:
    """Return the value of a context's key."""
    return m.get(key)


@counted("get value", "context: context, keys: list")
def get_value_within(budget: Budget, context: Entries, keys: list[FeelValue]) -> FeelValue:
    """Follow a list of keys through nested contexts, and return the last entry."""
    budget.spend_on_list(len(keys))
    value: FeelValue = context
    for key in keys:
        value = value.get(key) if isinstance(value, dict) and isinstance(key, str) else None
    return value if keys else None


@counted("get entries", "m: context")
def get_entries(budget: Budget, m: Entries) -> list[FeelValue]:
    """List the entries, each as a context of `key` and `value`."""
    budget.spend_on_list(len(m))
    return [{"key": key, "value": value} for key, value in m.items()]


@counted("context", "entries: list")
def context(budget: Budget, entries: list[FeelValue]) -> Entries | None:
    """Make a context from a list of contexts with `key` and `value`.

    The result is null if an entry is missing, or a key occurs twice.
    """
    budget.spend_on_list(len(entries))
    made: Entries = {}
    for entry in entries:
        if not isinstance(entry, dict) or "value" not in entry:
            return None
        key = entry.get("key")
        if not isinstance(key, str) or key in made:
            return None
        made[key] = entry["value"]
    return made


@counted("context put", "context: context, key: string, value: Any")
def context_put(budget: Budget, context: Entries, key: str, value: FeelValue) -> Entries:
    """Set one entry."""
    budget.spend_on_list(len(context) + 1)
    return {**context, key: value}


@counted("context put", "context: context, keys: list, value: Any")
def context_put_within(budget: Budget, context: Entries, keys: list[FeelValue], value: FeelValue) -> Entries | None:
    """Follow a list of keys through nested contexts, and set the last entry; missing contexts are created."""
    levels: list[tuple[Entries, str]] = []
    level: FeelValue = context
    for key in keys:
        if level is None:
            level = {}
        if not isinstance(key, str) or not isinstance(level, dict):
            return None
        levels.append((level, key))
        level = level.get(key)
    for entries, key in reversed(levels):
        value = context_put(budget, entries, key, value)
    return value if levels and isinstance(value, dict) else None


@counted("context merge", "contexts: list")
def context_merge(budget: Budget, contexts: list[FeelValue]) -> Entries | None:
    """Join contexts; if several contexts have a key, the last context's entry is kept."""
    merged: Entries = {}
    for one in contexts:
        if not isinstance(one, dict):
            return None
        budget.spend_on_list(len(one) + 1)
        merged.update(one)
    return merged
