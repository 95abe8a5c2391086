"""A worker starts runs before a process is free only while its runs are short."""

from __future__ import annotations

from shardclock_server.workers.dependencies import PREFETCH_MAX
from shardclock_server.workers.runs.prefetch import COUNTED_S, PAUSE_S, SHORT_RUN_S, Prefetch


def prefetch_after(*took_s: float) -> Prefetch:
    """Return the limit after these runs, all of which ended at time 0."""
    prefetch = Prefetch(PREFETCH_MAX)
    for it in took_s:
        prefetch.record(it, now_s=0.0)
    return prefetch


def test_the_number_of_prefetched_runs_equals_the_number_of_recently_ended_short_runs() -> None:
    prefetch = prefetch_after(0.001, SHORT_RUN_S / 2, SHORT_RUN_S, 60.0)

    assert Prefetch(PREFETCH_MAX).runs_max(0.0) == 0
    assert [prefetch.runs_max(0.0), prefetch.runs_max(COUNTED_S * 0.9), prefetch.runs_max(COUNTED_S)] == [2, 2, 0]


def test_the_number_of_prefetched_runs_has_a_limit() -> None:
    assert prefetch_after(*[0.001] * (PREFETCH_MAX + 1)).runs_max(0.0) == PREFETCH_MAX


def test_after_a_run_without_a_process_no_run_is_prefetched_for_a_while() -> None:
    prefetch = prefetch_after(0.001)
    prefetch.stop(0.0)
    prefetch.record(0.001, now_s=PAUSE_S - SHORT_RUN_S / 2)

    assert [prefetch.runs_max(0.0), prefetch.runs_max(PAUSE_S - SHORT_RUN_S / 4), prefetch.runs_max(PAUSE_S)] == [
        0,
        0,
        1,
    ]
