"""Code that pauses the garbage collector restores the collector's threshold afterwards."""

from __future__ import annotations

import gc

import pytest

from shardclock_server.keepers.collector import COLLECT_AFTER, collecting_seldom


def test_during_a_block_the_collector_runs_seldom_and_only_over_new_objects() -> None:
    before = gc.get_threshold()
    kept = [[number] for number in range(1000)]
    frozen = gc.get_freeze_count()

    with collecting_seldom():
        assert gc.get_threshold()[0] == COLLECT_AFTER
        assert gc.get_freeze_count() >= frozen + len(kept)

    assert gc.get_threshold() == before


def test_a_failed_block_also_restores_the_threshold() -> None:
    before = gc.get_threshold()

    with pytest.raises(ZeroDivisionError), collecting_seldom():
        _ = 1 / 0

    assert gc.get_threshold() == before
