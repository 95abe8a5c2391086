"""Check whether a value has a type, and convert a value to a type."""

from shardclock_server.feel.budget import Budget
from shardclock_server.feel.syntax import FeelType
from shardclock_server.feel.values import OPEN, FeelValue, Range, kind_of

ANY = FeelType("Any")


def is_instance(value: FeelValue, wanted: FeelType, budget: Budget) -> bool:
    """Return whether a value has a type; null has only the type Null."""
    budget.spend(1)
    if value is None or wanted.kind == "Any":
        return value is not None or wanted.kind == "Null"
    if isinstance(value, dict) and wanted.kind == "context":
        return all(key in value and fits(value[key], of, budget) for key, of in wanted.entries)
    return kind_of(value) == wanted.kind and all(
        wanted.item is None or fits(part, wanted.item, budget) for part in _parts(value)
    )


def fits(value: FeelValue, wanted: FeelType, budget: Budget) -> bool:
    """Return whether a value has a type or is null."""
    return value is None or is_instance(value, wanted, budget)


def fitted(value: FeelValue, wanted: FeelType, budget: Budget) -> FeelValue:
    """Return a value that has the type.

    Convert a list with one item to the item, or an item to a list, if the result then has the type; otherwise return
    null.

    source:  DMN 1.5, 10.3.2.9.4
    """
    if fits(value, wanted, budget):
        return value
    if isinstance(value, list) and len(value) == 1 and fits(value[0], wanted, budget):
        return value[0]
    if wanted.kind == "list" and fits([value], wanted, budget):
        return [value]
    return None


def _parts(value: FeelValue) -> list[FeelValue]:
    match value:
        case list():
            return value
        case Range(start, end):
            return [end for end in (start, end) if end is not OPEN]
    return []
