"""`make test` runs two cases of a slow test and of a test in a long file; `make test-all` runs all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import pytest

CASES_MAX = 2
# All blocks of the pages run: pages change more often than the code that they describe.
WHOLE = frozenset({"test_docs.py"})

T = TypeVar("T")


class Sampling:
    """A plugin that marks the left-out cases as `exhaustive`, before pytest selects by marks."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        cases: defaultdict[tuple[Path, str], list[pytest.Item]] = defaultdict(list)
        for item in items:
            if isinstance(item, pytest.Function) and _takes_long(item):
                cases[item.path, item.originalname].append(item)
        for each in cases.values():
            for item in left_out(each):
                item.add_marker(pytest.mark.exhaustive)


def _takes_long(item: pytest.Item) -> bool:
    marks = ("long", "slow")
    return item.path.name not in WHOLE and any(item.get_closest_marker(mark) for mark in marks)


def left_out(cases: Sequence[T], *, most: int = CASES_MAX) -> list[T]:
    """List the cases outside an even sample, which contains the first and the last case."""
    if len(cases) <= most:
        return []
    kept = {round(number * (len(cases) - 1) / (most - 1)) for number in range(most)}
    return [case for number, case in enumerate(cases) if number not in kept]
