"""If a slow test or a test in a long file has several cases, `make test` runs one; `make test-all` runs all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar
from zlib import crc32

import pytest

# All blocks of the pages run: pages change more often than the code that they describe.
WHOLE = frozenset({"test_docs.py"})

T = TypeVar("T")


class Sampling:
    """A plugin that marks the left-out cases as `exhaustive`, before pytest selects by marks."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        cases: defaultdict[tuple[Path, str, bool], list[pytest.Item]] = defaultdict(list)
        for item in items:
            if isinstance(item, pytest.Function) and _takes_long(item):
                cases[item.path, item.originalname, item.get_closest_marker("ray") is not None].append(item)
        for (_, name, _), each in cases.items():
            for item in left_out(name, each):
                item.add_marker(pytest.mark.exhaustive)


def _takes_long(item: pytest.Item) -> bool:
    if item.path.name in WHOLE or item.get_closest_marker("exhaustive"):
        return False
    return any(item.get_closest_marker(mark) for mark in ("long", "slow"))


def left_out(name: str, cases: Sequence[T]) -> list[T]:
    """List all cases of a test except one, which the test's name chooses.

    So the case is the same in each run, and tests with the same parameters use different values.
    """
    kept = crc32(name.encode()) % len(cases)
    return [case for number, case in enumerate(cases) if number != kept]
