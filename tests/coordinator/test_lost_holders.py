"""The coordinator uses only Postgres's rows and Ray's actors to decide which holders are lost."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from shardclock_server.coordinator.lost_holders import DIED, NOT_OURS, SILENT, lost_holders, silent_holders
from shardclock_server.sql.cluster.holders import SHARD, Holder

NOW = datetime(2026, 3, 29, 12, tzinfo=UTC)


def holder(number: int, cluster_id: str = "ours") -> Holder:
    return Holder(
        number, SHARD, cluster_id, f"a{number}", "node", "host", 1, part=None, part_count=None, held=0,
        started_at=NOW, seen_at=NOW, suspended_at=None, silent_s=0.0,
    )  # fmt: skip


def lost(
    *holders: Holder,
    supervised: tuple[str, ...] = (),
    gone: dict[str, str] | None = None,
    silent: tuple[str, ...] = (),
    leads: bool = True,
) -> dict[int, str]:
    return lost_holders(holders, cluster_id="ours", supervised=supervised, gone=gone or {}, silent=silent, leads=leads)


@pytest.mark.parametrize("leads", [False, True])
def test_a_holder_whose_actor_is_gone_is_lost_with_this_reason(leads: bool) -> None:
    found = lost(holder(1), holder(2), supervised=("a1", "a2"), gone={"a1": DIED}, leads=leads)

    assert found == {1: DIED}


def test_only_the_leader_ends_the_silent_holders_of_other_clusters() -> None:
    theirs = holder(3, "theirs")

    assert lost(theirs, silent=("a3",), leads=True) == {3: SILENT}
    assert lost(theirs, silent=("a3",), leads=False) == {}


def test_unsupervised_keepers_of_the_cluster_continue_until_a_supervised_keeper_has_registered() -> None:
    assert lost(holder(1), holder(2), supervised=("a9",)) == {}
    assert lost(holder(1), holder(2), holder(9), supervised=("a9",)) == {1: NOT_OURS, 2: NOT_OURS}


def test_unsupervised_keepers_of_another_cluster_are_not_ended() -> None:
    assert lost(holder(1), holder(3, "theirs"), supervised=("a1",)) == {}


def test_a_silent_unsupervised_keeper_of_the_cluster_is_lost_as_silent() -> None:
    for leads in (False, True):
        assert lost(holder(1), holder(9), supervised=("a9",), silent=("a1",), leads=leads) == {1: SILENT}


@pytest.mark.parametrize(("leads", "expected"), [(True, {1: SILENT, 3: SILENT}), (False, {1: SILENT})])
def test_without_an_answer_of_the_fleet_only_silent_holders_are_lost(leads: bool, expected: dict[int, str]) -> None:
    holders = (holder(1), holder(2), holder(3, "theirs"))

    assert silent_holders(holders, supervised=("a1", "a2"), silent=("a1", "a3"), leads=leads) == expected
