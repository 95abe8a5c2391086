"""A worker begins runs ahead of its places while its runs are short, and only then."""

from __future__ import annotations

from shardclock_server.workers.runs.ahead import AHEAD_S, ENDED_S, IN_VAIN_S, RunAhead
from shardclock_server.workers.surroundings import AHEAD_MAX


def ahead_after(*took_s: float) -> RunAhead:
    """Make one that has learned of runs which ended at 0."""
    ahead = RunAhead(AHEAD_MAX)
    for it in took_s:
        ahead.learn(it, now_s=0.0)
    return ahead


def test_as_many_may_be_begun_ahead_as_short_runs_have_ended_just_now() -> None:
    ahead = ahead_after(0.001, AHEAD_S / 2, AHEAD_S, 60.0)

    assert RunAhead(AHEAD_MAX).most(0.0) == 0
    assert [ahead.most(0.0), ahead.most(ENDED_S * 0.9), ahead.most(ENDED_S)] == [2, 2, 0]


def test_there_is_a_limit() -> None:
    assert ahead_after(*[0.001] * (AHEAD_MAX + 1)).most(0.0) == AHEAD_MAX


def test_after_one_that_has_waited_in_vain_none_is_begun_ahead_for_a_while() -> None:
    ahead = ahead_after(0.001)
    ahead.stop(0.0)
    ahead.learn(0.001, now_s=IN_VAIN_S - AHEAD_S / 2)

    assert [ahead.most(0.0), ahead.most(IN_VAIN_S - AHEAD_S / 4), ahead.most(IN_VAIN_S)] == [0, 0, 1]
