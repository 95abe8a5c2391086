"""Work that quiets a process's garbage collector restores its settings."""

from __future__ import annotations

import gc

import pytest

from shardclock_server.keepers.collector import COLLECT_AFTER, collecting_seldom


def test_during_a_block_the_collector_runs_seldom_and_only_over_new_objects() -> None:
    before, frozen = gc.get_threshold(), gc.get_freeze_count()

    with collecting_seldom():
        assert gc.get_threshold()[0] == COLLECT_AFTER
        assert gc.get_freeze_count() > frozen

    assert (gc.get_threshold(), gc.get_freeze_count()) == (before, 0)


def test_a_failed_block_restores_the_settings_too() -> None:
    before = gc.get_threshold()

    with pytest.raises(ZeroDivisionError), collecting_seldom():
        _ = 1 / 0

    assert (gc.get_threshold(), gc.get_freeze_count()) == (before, 0)
