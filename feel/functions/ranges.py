"""Compare the positions of points and ranges, such as before, meets and overlaps."""

from __future__ import annotations

from collections.abc import Callable

from shardclock_server.feel.functions.registry import builtin
from shardclock_server.feel.ranges import contains
from shardclock_server.feel.values import OPEN, FeelValue, Range, less, opposite

Answer = bool | None
# A bound of a range: a value, and 0 for the value, 1 for just after the value, -1 for just before the value.
Side = tuple[FeelValue, int]


def _start(value: FeelValue) -> Side:
    return (value.start, 0 if value.has_start else 1) if isinstance(value, Range) else (value, 0)


def _end(value: FeelValue) -> Side:
    return (value.end, 0 if value.has_end else -1) if isinstance(value, Range) else (value, 0)


def _precedes(first: Side, second: Side) -> Answer:
    """Return whether one bound is before another bound; None if the bounds can't be compared, or a bound is open."""
    if first[0] is OPEN or second[0] is OPEN:
        return None
    before, after = less(first[0], second[0]), less(second[0], first[0])
    if before is None or after is None:
        return None
    return before or (not after and first[1] < second[1])


def _same(first: Side, second: Side) -> Answer:
    before, after = _precedes(first, second), _precedes(second, first)
    return None if before is None or after is None else not before and not after


def _both(*answers: Answer) -> Answer:
    return None if None in answers else all(answers)


def _before(left: FeelValue, right: FeelValue) -> Answer:
    return _precedes(_end(left), _start(right))


def _meets(left: FeelValue, right: FeelValue) -> Answer:
    return _both(_same(_end(left), _start(right)), _end(left)[1] == 0 == _start(right)[1])


def _includes(left: FeelValue, right: FeelValue) -> Answer:
    if isinstance(left, Range) and not isinstance(right, Range):
        return contains(left, right)
    return _both(opposite(_precedes(_start(right), _start(left))), opposite(_precedes(_end(left), _end(right))))


def _overlaps(left: FeelValue, right: FeelValue) -> Answer:
    return _both(opposite(_precedes(_end(left), _start(right))), opposite(_precedes(_end(right), _start(left))))


def _overlaps_before(left: FeelValue, right: FeelValue) -> Answer:
    return _both(
        _overlaps(left, right), _precedes(_start(left), _start(right)), opposite(_precedes(_end(right), _end(left)))
    )


def _finishes(left: FeelValue, right: FeelValue) -> Answer:
    return _both(_same(_end(left), _end(right)), opposite(_precedes(_start(left), _start(right))))


def _starts(left: FeelValue, right: FeelValue) -> Answer:
    return _both(_same(_start(left), _start(right)), opposite(_precedes(_end(right), _end(left))))


def _coincides(left: FeelValue, right: FeelValue) -> Answer:
    return _both(_same(_start(left), _start(right)), _same(_end(left), _end(right)))


RELATIONS: dict[str, tuple[str, Callable[[FeelValue, FeelValue], Answer], bool]] = {
    # For each name: the declaration, the relation, and whether the relation's arguments are swapped.
    "before": ("point1: Any, point2: Any", _before, False),
    "after": ("point1: Any, point2: Any", _before, True),
    "meets": ("range1: range, range2: range", _meets, False),
    "met by": ("range1: range, range2: range", _meets, True),
    "overlaps": ("range1: range, range2: range", _overlaps, False),
    "overlaps before": ("range1: range, range2: range", _overlaps_before, False),
    "overlaps after": ("range1: range, range2: range", _overlaps_before, True),
    "finishes": ("point: Any, range: range", _finishes, False),
    "finished by": ("range: range, point: Any", _finishes, True),
    "includes": ("range: range, point: Any", _includes, False),
    "during": ("point: Any, range: range", _includes, True),
    "starts": ("point: Any, range: range", _starts, False),
    "started by": ("range: range, point: Any", _starts, True),
    "coincides": ("point1: Any, point2: Any", _coincides, False),
}


def _declare(name: str) -> None:
    declaration, relation, is_turned = RELATIONS[name]

    @builtin(name, declaration)
    def _(left: FeelValue, right: FeelValue) -> Answer:
        return relation(right, left) if is_turned else relation(left, right)


for _name in RELATIONS:
    _declare(_name)
