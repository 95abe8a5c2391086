"""An iteration of the claim loop leases no more timers than fit into the queue, and a backlog delays no other timer."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from shardclock_server.shards.ramp import Ramp
from shardclock_server.shards.scan_planner import COMMIT_S, DIRECT_S, RATED_S, PlannedScan, ScanPlanner
from shardclock_server.shards.settings import ShardSettings
from shardclock_server.sql.claims.claim import RAMP_AFTER_S, Scan, ScanResult
from shardclock_server.sql.claims.scan_window import ScanWindow

SETTINGS = ShardSettings(poll_s=0.125, horizon_s=2.0, claim_batch=100, queue_max=1_000, sweep_s=1.0)
NOW_S = 5_000.0

AHEAD = Scan("own", 2.0, 100)
OVERDUE_ONLY = Scan("own", 0.0, 100)
UPCOMING = Scan("ahead", 2.0, 100, floor_s=0.125 + COMMIT_S)
NEWEST = Scan("newest", 0.0, 50, floor_s=RAMP_AFTER_S)
SWEEP = Scan("sweep", -3.0, 100)


@pytest.fixture
def planner() -> ScanPlanner:
    """Return a planner without a ramp; its last sweep is just over, and its last scan ahead was one poll ago."""
    return ScanPlanner(SETTINGS, ramp=Ramp(per_s=None), swept_at_s=NOW_S, last_ahead_at_s=NOW_S - 0.125)


def scans(planner: ScanPlanner, *, held: int = 0, now_s: float = NOW_S) -> list[Scan]:
    begun = [planner.begin(planned, now_s=now_s) for planned in planner.scans(held=held, now_s=now_s)]
    return [scan for scan in begun if scan is not None]


def turn(planner: ScanPlanner, *, now_s: float) -> list[Scan]:
    """Run an iteration in which each scan leaves overdue timers."""
    return turn_of(planner, taken(fired=9, saturated=True), now_s=now_s)


def turn_of(planner: ScanPlanner, result: ScanResult, *, now_s: float, scan_s: float = 0.0) -> list[Scan]:
    made = []
    for planned in planner.scans(held=0, now_s=now_s):
        if (scan := planner.begin(planned, now_s=now_s)) is not None:
            made.append(scan)
            now_s += scan_s
            planner.learn(planned, result, now_s=now_s)
    return made


def taken(*, fired: int = 0, saturated: bool = False) -> ScanResult:
    return ScanResult(datetime(2026, 1, 1, tzinfo=UTC), fired, (), saturated, 0, None, "", [])


def test_one_scan_takes_overdue_and_upcoming_timers(planner: ScanPlanner) -> None:
    assert scans(planner) == [AHEAD]


def test_space_for_one_batch_in_the_queue_is_enough_to_scan_ahead(planner: ScanPlanner) -> None:
    assert scans(planner, held=900) == [AHEAD]
    assert scans(planner, held=901) == [OVERDUE_ONLY]


def test_with_a_full_queue_only_overdue_timers_are_taken(planner: ScanPlanner) -> None:
    assert scans(planner, held=1_000) == [OVERDUE_ONLY]
    assert scans(planner, held=1_099) == [OVERDUE_ONLY]


def test_if_the_queue_exceeds_its_limit_by_a_claim_not_even_a_sweep_begins(planner: ScanPlanner) -> None:
    assert scans(planner, held=1_100, now_s=NOW_S + 60) == []
    assert scans(planner, held=1_099, now_s=NOW_S + 60) == [OVERDUE_ONLY, SWEEP]


def test_with_a_backlog_each_turn_claims_overdue_timers_and_one_scan_per_poll_skips_the_backlog(
    planner: ScanPlanner,
) -> None:
    """ "Ahead" scans and "newest" scans alternate."""
    planner.has_backlog = True

    assert turn(planner, now_s=NOW_S) == [UPCOMING, OVERDUE_ONLY]
    assert turn(planner, now_s=NOW_S + 0.0625) == [OVERDUE_ONLY]
    assert turn(planner, now_s=NOW_S + 0.125) == [NEWEST, OVERDUE_ONLY]
    assert turn(planner, now_s=NOW_S + 0.1875) == [OVERDUE_ONLY]
    assert turn(planner, now_s=NOW_S + 0.25) == [replace(UPCOMING, floor_s=0.25 + COMMIT_S), OVERDUE_ONLY]


def test_a_scan_ahead_takes_timers_that_fell_due_since_the_previous_scan_ahead_began(planner: ScanPlanner) -> None:
    """Otherwise timers that became due between two scans ahead would be at the end of the backlog."""
    planner.has_backlog = True
    turn(planner, now_s=NOW_S)
    turn(planner, now_s=NOW_S + 0.25)

    assert turn(planner, now_s=NOW_S + 0.75) == [replace(UPCOMING, floor_s=0.75 + COMMIT_S), OVERDUE_ONLY]


def test_a_scan_for_the_newest_timers_that_failed_waits_for_its_next_turn(planner: ScanPlanner) -> None:
    """A failed scan ends the iteration; an immediate repetition would prevent the firing of a backlog."""
    planner.has_backlog = True
    turn(planner, now_s=NOW_S)
    newest, _ = planner.scans(held=0, now_s=NOW_S + 0.125)
    assert planner.begin(newest, now_s=NOW_S + 0.125) == NEWEST

    planner.fail(newest, now_s=NOW_S + 0.25)

    assert turn(planner, now_s=NOW_S + 0.5) == [replace(UPCOMING, floor_s=0.5 + COMMIT_S), OVERDUE_ONLY]
    assert turn(planner, now_s=NOW_S + 0.75) == [NEWEST, OVERDUE_ONLY]


def test_the_next_scan_ahead_covers_the_time_of_a_failed_scan_ahead(planner: ScanPlanner) -> None:
    planner.has_backlog = True

    for late_s in (0.0, 0.25, 0.875):
        assert scans(planner, now_s=NOW_S + late_s)[0] == replace(UPCOMING, floor_s=0.125 + late_s + COMMIT_S)
    for planned in planner.scans(held=1_050, now_s=NOW_S + 1):
        planner.begin(planned, now_s=NOW_S + 1)
        planner.learn(planned, taken(fired=9, saturated=True), now_s=NOW_S + 1)

    assert turn(planner, now_s=NOW_S + 1.375)[0] == replace(UPCOMING, floor_s=1.5 + COMMIT_S)


def test_the_first_scan_ahead_takes_timers_due_since_the_scan_that_found_a_backlog(planner: ScanPlanner) -> None:
    """An earlier lower bound would find only the backlog; a later bound would miss timers due during that scan."""
    assert turn(planner, now_s=NOW_S) == [AHEAD]

    assert turn(planner, now_s=NOW_S + 0.5) == [replace(UPCOMING, floor_s=0.5 + COMMIT_S), OVERDUE_ONLY]


def test_no_scan_ahead_takes_timers_that_the_ramp_limits(planner: ScanPlanner) -> None:
    planner.has_backlog, planner.last_ahead_at_s = True, NOW_S - 60

    assert scans(planner) == [replace(UPCOMING, floor_s=RAMP_AFTER_S), OVERDUE_ONLY]


def test_with_a_backlog_and_a_full_queue_a_scan_ahead_takes_half_a_batch(planner: ScanPlanner) -> None:
    """Otherwise many timers that are due in one instant would fill the queue and delay all later timers."""
    planner.has_backlog = True
    for held, ahead in ((950, 100), (951, 99), (1_000, 50), (1_049, 1)):
        assert scans(planner, held=held) == [replace(UPCOMING, batch=ahead), OVERDUE_ONLY]


@pytest.mark.parametrize("held", [1_050, 1_099])
def test_with_a_backlog_and_a_full_queue_the_newest_timers_are_taken(planner: ScanPlanner, held: int) -> None:
    """A "newest" scan adds no timers to the queue, because they would wait until all queued timers have fired."""
    planner.has_backlog = True

    assert scans(planner, held=held) == [NEWEST, OVERDUE_ONLY]


def test_a_shard_sweeps_at_the_first_turn_and_then_at_the_sweep_interval() -> None:
    planner = ScanPlanner(SETTINGS, ramp=Ramp(per_s=None))

    assert scans(planner, now_s=NOW_S) == [AHEAD, SWEEP]
    assert scans(planner, now_s=NOW_S + 0.99) == [AHEAD]
    assert scans(planner, now_s=NOW_S + 1.0) == [AHEAD, SWEEP]
    assert scans(planner, now_s=NOW_S + 1.5) == [AHEAD]


def test_the_choice_of_scans_has_no_effect_until_a_scan_begins(planner: ScanPlanner) -> None:
    planner.swept_at_s, planner.ramp = NOW_S - 60, Ramp(per_s=None, catching_up=True)

    chosen = [planner.scans(held=0, now_s=NOW_S) for _ in range(2)]

    assert chosen[0] == chosen[1]
    assert [it.scan.scope for it in chosen[0]] == ["own", "sweep", "outage", "sweep"]


@pytest.mark.parametrize(
    ("scan", "fired", "saturated", "has_backlog"),
    [
        (AHEAD, 0, False, False),  # the scan took all due timers
        (AHEAD, 9, False, False),  # some timers were overdue, and the scan took all overdue timers
        (AHEAD, 0, True, False),  # more timers than one claim takes are due within the horizon, but no timer is overdue
        (AHEAD, 9, True, True),  # the scan read overdue timers first, and may have left overdue timers
        (OVERDUE_ONLY, 0, True, True),  # overdue repeats, or plain timers that a scan can't fire itself
        (OVERDUE_ONLY, 9, True, True),
        (OVERDUE_ONLY, 9, False, False),  # the shard has caught up
    ],
)
def test_a_shard_has_a_backlog_if_a_scan_left_overdue_timers(
    planner: ScanPlanner, scan: Scan, fired: int, saturated: bool, has_backlog: bool
) -> None:
    for before in (False, True):
        planner.has_backlog = before

        planner.learn(PlannedScan(scan, NOW_S), taken(fired=fired, saturated=saturated), now_s=NOW_S)

        assert planner.has_backlog is has_backlog


@pytest.mark.parametrize("scan", [UPCOMING, NEWEST, SWEEP, Scan("outage", 0.0, 100, floor_s=10.0)])
def test_scans_of_other_slots_do_not_change_the_shards_own_backlog(planner: ScanPlanner, scan: Scan) -> None:
    for before in (False, True):
        planner.has_backlog = before

        planner.learn(PlannedScan(scan, NOW_S), taken(fired=9, saturated=not before), now_s=NOW_S)

        assert planner.has_backlog is before


def fires(planner: ScanPlanner, per_s: int, *, since_s: float, seconds: float) -> float:
    """Fire timers evenly for some time; return the moment at which this time ends."""
    parts = round(seconds / 0.1)
    for number in range(1, parts + 1):
        planner.rate(per_s // 10, now_s=since_s + number * 0.1)
    return since_s + seconds


def test_at_a_high_rate_a_shard_scans_often_and_leases_no_timers_ahead(planner: ScanPlanner) -> None:
    planner.rate(0, now_s=NOW_S)
    assert planner.pause_s == SETTINGS.poll_s

    now_s = fires(planner, 2_100, since_s=NOW_S, seconds=RATED_S)

    assert planner.pause_s == DIRECT_S
    assert scans(planner, now_s=now_s) == [OVERDUE_ONLY]


def test_a_shard_fires_directly_until_the_rate_has_halved(planner: ScanPlanner) -> None:
    planner.rate(0, now_s=NOW_S)
    direct = []
    now_s = NOW_S
    for per_s in (1_900, 2_100, 1_100, 900, 1_900):
        now_s = fires(planner, per_s, since_s=now_s, seconds=RATED_S)
        direct.append(planner.direct)

    assert direct == [False, True, True, False, False]


def test_with_a_backlog_a_direct_shard_still_scans_ahead(planner: ScanPlanner) -> None:
    planner.rate(0, now_s=NOW_S)
    now_s = fires(planner, 5_000, since_s=NOW_S, seconds=RATED_S)
    planner.has_backlog, planner.last_ahead_at_s = True, now_s - 0.125

    assert scans(planner, now_s=now_s) == [UPCOMING, OVERDUE_ONLY]


def test_one_burst_after_a_long_pause_does_not_start_direct_firing(planner: ScanPlanner) -> None:
    planner.rate(0, now_s=NOW_S)
    planner.rate(5_000, now_s=NOW_S + 60)

    assert not planner.direct


# The window of a scan: how far back it reads all slots


def calm(planner: ScanPlanner, *, now_s: float) -> list[ScanWindow | None]:
    """Run an iteration that leaves no overdue timer; return the window of each scan."""
    return [scan.window for scan in turn_of(planner, taken(), now_s=now_s)]


def test_the_first_scan_reads_all_slots_in_full_and_later_scans_rotate_over_the_slots(planner: ScanPlanner) -> None:
    turns = [calm(planner, now_s=NOW_S + number / 8) for number in range(1, 7)]

    assert turns[0] == [None]
    assert [it[0] and it[0].full_from for it in turns[1:]] == [0, 210, 420, 630, 0], "a quarter of half a second each"
    assert {it[0] and (it[0].recent_s, it[0].full_count) for it in turns[1:]} == {(2.125, 210)}


def test_the_next_scan_covers_the_slots_and_the_time_of_one_that_failed(planner: ScanPlanner) -> None:
    calm(planner, now_s=NOW_S)
    calm(planner, now_s=NOW_S + 0.125)
    scans(planner, now_s=NOW_S + 0.25)
    scans(planner, now_s=NOW_S + 0.5)

    assert calm(planner, now_s=NOW_S + 0.875) == [ScanWindow(2.75, full_from=210, full_count=420)]
    assert calm(planner, now_s=NOW_S + 0.9375) == [ScanWindow(2.0625, full_from=630, full_count=210)]


def test_with_a_backlog_a_scan_reads_all_slots_in_full_and_the_next_window_starts_at_its_start(
    planner: ScanPlanner,
) -> None:
    calm(planner, now_s=NOW_S)
    turn(planner, now_s=NOW_S + 0.125)
    assert planner.has_backlog

    assert calm(planner, now_s=NOW_S + 0.5) == [None, None], "a scan ahead, and a scan"
    assert calm(planner, now_s=NOW_S + 0.75) == [ScanWindow(2.25, full_from=210, full_count=420)]


def test_a_scan_that_begins_late_reads_more_slots_in_full_so_that_a_rotation_takes_no_longer(
    planner: ScanPlanner,
) -> None:
    read, now_s = [], NOW_S
    calm(planner, now_s=now_s)
    for since_s in (0.125, 0.1875, 1.0):
        now_s += since_s
        read += [it.full_count for it in calm(planner, now_s=now_s)[:1] if it is not None]

    assert read == [210, 315, 420], "the planned number, then 1.5 times as many, then the limit of twice as many"


def test_frequent_scans_read_few_slots_in_full(planner: ScanPlanner) -> None:
    calm(planner, now_s=NOW_S)
    planner.direct = True

    assert calm(planner, now_s=NOW_S + 0.0625) == [ScanWindow(2.0625, full_from=0, full_count=4)]
    assert calm(planner, now_s=NOW_S + 0.5625) == [ScanWindow(2.5, full_from=4, full_count=420)], "it was late"


def test_rare_scans_read_all_slots_in_full() -> None:
    planner = ScanPlanner(SETTINGS.model_copy(update={"poll_s": 0.5}), ramp=Ramp(per_s=None), swept_at_s=NOW_S)

    assert [calm(planner, now_s=NOW_S + number / 2) for number in range(2)] == [[None], [None]]


def test_sweeps_also_rotate_over_the_slots_and_their_window_is_longer_than_a_lease(planner: ScanPlanner) -> None:
    sweeps = [calm(planner, now_s=NOW_S + number)[1] for number in range(1, 12)]

    assert sweeps[0] is None
    assert sweeps[1:] == [ScanWindow(SETTINGS.lease_s + 2 + 1, full_from=84 * n, full_count=84) for n in range(10)]


def stuck(planner: ScanPlanner, *, now_s: float) -> list[ScanWindow | None]:
    """Run an iteration in which Postgres does not answer in time; return the window of the only scan."""
    planned = planner.scans(held=0, now_s=now_s)[0]
    scan = planner.begin(planned, now_s=now_s)
    planner.fail(planned, now_s=now_s + 3)
    assert scan is not None
    return [scan.window]


@pytest.mark.parametrize("has_backlog", [False, True])
def test_a_scan_that_gets_stuck_is_followed_by_one_that_takes_fewer_slots(
    planner: ScanPlanner, has_backlog: bool
) -> None:
    """If the next scan read as many slots, a shard with a backlog would never fire again while an old snapshot
    exists.
    """
    planner.has_backlog, planner.passed_at_s = has_backlog, NOW_S + 60

    assert stuck(planner, now_s=NOW_S) == [None]
    assert stuck(planner, now_s=NOW_S + 5) == [ScanWindow(7.0, full_from=0, full_count=105)]


def test_an_outage_scan_that_gets_stuck_is_followed_by_one_that_takes_fewer_slots(planner: ScanPlanner) -> None:
    planner.ramp.catching_up = True
    found: dict[str, list[ScanWindow | None]] = {}
    for number in range(3):
        now_s = NOW_S + 10 * number + 10
        for planned in planner.scans(held=0, now_s=now_s):
            scan = planner.begin(planned, now_s=now_s)
            assert scan is not None
            if scan.horizon_s == -RAMP_AFTER_S:
                found.setdefault(scan.scope, []).append(scan.window)
                now_s += 3
                planner.fail(planned, now_s=now_s)
            else:
                planner.learn(planned, taken(), now_s=now_s)

    assert {scope: [it and it.full_count for it in windows] for scope, windows in found.items()} == {
        "outage": [None, 105, 13],
        "sweep": [None, 105, 13],
    }


def test_each_scan_of_a_turn_is_timed_separately(planner: ScanPlanner) -> None:
    """Four scans of 0.3 s don't count as one slow scan, so each outage scan still reads all slots."""
    now_s, windows = NOW_S + 1, []
    for _ in range(9):
        planner.ramp.catching_up = True
        made = turn_of(planner, taken(), now_s=now_s, scan_s=0.3)
        now_s += 0.3 * len(made)
        windows += [scan.window for scan in made if scan.scope == "outage"]

    assert windows == [None] * 9


def test_a_scan_that_fails_at_once_after_a_slow_scan_keeps_its_number_of_slots(planner: ScanPlanner) -> None:
    own, sweep = planner.scans(held=0, now_s=NOW_S + 1)
    planner.begin(own, now_s=NOW_S + 1)
    planner.learn(own, taken(), now_s=NOW_S + 1.9)
    planner.begin(sweep, now_s=NOW_S + 1.9)
    planner.fail(sweep, now_s=NOW_S + 1.91)

    assert scans(planner, now_s=NOW_S + 3)[-1] == SWEEP


def test_the_window_of_a_sweep_counts_from_when_the_sweep_itself_begins(planner: ScanPlanner) -> None:
    calm(planner, now_s=NOW_S + 1)

    made = turn_of(planner, taken(), now_s=NOW_S + 2, scan_s=0.375)

    assert made[-1].window == ScanWindow(SETTINGS.lease_s + 2 + 1.375, full_from=0, full_count=84)


def test_a_scan_ahead_belongs_to_no_rotation(planner: ScanPlanner) -> None:
    planner.has_backlog = True
    ahead, *_ = planner.scans(held=0, now_s=NOW_S)
    assert planner.begin(ahead, now_s=NOW_S) == UPCOMING
    planner.fail(ahead, now_s=NOW_S + 3)

    assert scans(planner, now_s=NOW_S + 5)[-2].window is None
