"""Prove that the verdict names each fault."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from shardclock.log import LogRecord
from shardclock_server.demo.delivery_verdict import DeliveryVerdict
from shardclock_server.demo.verdict import Kill, Verdict, judge
from shardclock_server.sql.clients.outcomes import Scheduled
from shardclock_server.timers.model import NewTimer

START = datetime(2030, 1, 31, 8, tzinfo=UTC)
LAG = timedelta(milliseconds=2)
SINGLES = 100
Promise = tuple[Scheduled, NewTimer]


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def fired(timer_key: int, due_s: float, **more: object) -> LogRecord:
    record = LogRecord(
        position=timer_key, recorded_at=at(due_s) + LAG, intent="TRIGGERED", timer_key=timer_key,
        tenant_id="default", name=None, timer_type="USER", process_instance_key=None, element_instance_key=None,
        target_element_id=None, due_date=at(due_s), created_at=START, schedule=None, occurrence=1, target="log",
        payload=None, holder=1, detail=None,
    )  # fmt: skip
    return replace(record, **more)  # type: ignore[arg-type]


def run() -> tuple[list[Promise], list[LogRecord]]:
    """Make a run without faults: single timers, and a repeat of three."""
    single = NewTimer.from_fields({"due_date": "2030-01-31T08:00:01Z"})
    repeat = NewTimer.from_fields({"schedule": "R3/PT1S", "name": "beat"})
    promises: list[Promise] = [(Scheduled(key, at(key / 10)), single) for key in range(1, SINGLES + 1)]
    promises.append((Scheduled(1000, at(1)), repeat))
    records = [fired(key, key / 10) for key in range(1, SINGLES + 1)]
    records += [fired(1000 + k, k, name="beat", schedule="R3/PT1S", occurrence=k) for k in (1, 2, 3)]
    return promises, records


def verdict_on(records: list[LogRecord], kill: Kill | None = None) -> Verdict:
    """Compare these records with the promises."""
    return judge(run()[0], records, kill)


def test_a_run_without_faults_holds() -> None:
    verdict = verdict_on(run()[1])

    assert verdict.holds
    assert (verdict.promised, verdict.fired) == (SINGLES + 3, SINGLES + 3)
    assert (verdict.early, verdict.lost, verdict.double, verdict.skipped) == (0, 0, 0, 0)
    assert (verdict.lag_p50_ms, verdict.lag_p99_ms, verdict.lag_max_ms) == (2.0, 2.0, 2.0)
    assert verdict.takeover_s is None


def test_a_firing_one_microsecond_before_its_due_date_is_early() -> None:
    records = run()[1]
    records[7] = replace(records[7], recorded_at=records[7].due_date - timedelta(microseconds=1))

    verdict = verdict_on(records)

    assert (verdict.early, verdict.lost, verdict.double) == (1, 0, 0)
    assert not verdict.holds


@pytest.mark.parametrize("missing", [0, SINGLES, SINGLES + 2], ids=["a timer", "an occurrence", "the last occurrence"])
def test_a_missing_firing_is_lost(missing: int) -> None:
    records = run()[1]
    del records[missing]

    verdict = verdict_on(records)

    assert (verdict.early, verdict.lost, verdict.double) == (0, 1, 0)
    assert not verdict.holds


def test_a_canceled_timer_that_no_client_canceled_is_lost() -> None:
    records = run()[1]
    records[7] = replace(records[7], intent="CANCELED")

    assert verdict_on(records).lost == 1


@pytest.mark.parametrize("twice", [0, SINGLES + 1], ids=["a timer", "an occurrence"])
def test_a_firing_with_two_records_is_double(twice: int) -> None:
    records = run()[1]
    records.append(replace(records[twice], position=5000))

    verdict = verdict_on(records)

    assert (verdict.early, verdict.lost, verdict.double) == (0, 0, 1)
    assert not verdict.holds


def test_an_occurrence_fired_again_under_another_key_is_double() -> None:
    records = run()[1]
    records.append(replace(records[SINGLES + 1], timer_key=7777))

    assert verdict_on(records).double == 1


def test_a_run_without_firings_fails() -> None:
    assert not judge([], [], None).holds
    assert verdict_on([]).lost == SINGLES + 3


def gap(count: int) -> list[LogRecord]:
    """Make a run in which `count` occurrences were missed after the second of three firings."""
    records = run()[1]
    third = records.pop()
    skipped = fired(1002, 2, name="beat", schedule="R3/PT1S", occurrence=3, intent="SKIPPED")
    records.append(replace(skipped, detail={"count": count}))
    return [*records, replace(third, occurrence=3 + count)]


def test_skipped_occurrences_are_reported_and_use_up_no_firing() -> None:
    verdict = verdict_on(gap(2))

    assert (verdict.promised, verdict.fired, verdict.skipped, verdict.lost) == (SINGLES + 3, SINGLES + 3, 2, 0)
    assert verdict.holds


def test_a_firing_that_a_gap_used_up_is_lost() -> None:
    assert verdict_on(gap(2)[:-1]).lost == 1


def test_an_occurrence_recorded_as_skipped_with_too_small_a_count_is_lost() -> None:
    records = gap(2)
    records[-2] = replace(records[-2], detail={"count": 1})

    assert verdict_on(records).lost == 1


def test_takeover_is_the_longest_wait_of_the_killed_shards_timers() -> None:
    records = run()[1]
    kill = Kill(at=at(5), shard=0, shard_count=2)
    # Key 52 was due 0.2 s after the kill, and fired 1.5 s after the kill; key 40 fired long before the kill.
    index = next(i for i, record in enumerate(records) if record.timer_key == 52)
    records[index] = replace(records[index], recorded_at=at(6.7))

    verdict = verdict_on(records, kill)

    assert verdict.takeover_s == pytest.approx(1.5)
    assert verdict.lag_max_ms == 2.0, "its lag is the takeover's, not the calm's"
    assert verdict.holds


def test_lateness_of_a_shard_that_was_not_killed_is_lag() -> None:
    records = run()[1]
    index = next(i for i, record in enumerate(records) if record.timer_key == 51)
    records[index] = replace(records[index], recorded_at=at(6.6))

    verdict = verdict_on(records, Kill(at=at(5), shard=0, shard_count=2))

    assert verdict.lag_max_ms == pytest.approx(1500)


def test_a_timer_that_was_overdue_when_it_was_scheduled_is_late_from_then_on() -> None:
    records = run()[1]
    records[7] = replace(records[7], due_date=at(-86_400), created_at=at(3), recorded_at=at(3) + LAG)

    verdict = verdict_on(records)

    assert verdict.lag_max_ms == pytest.approx(2.0)
    assert verdict.holds


def test_a_timer_that_was_overdue_when_it_was_resumed_is_late_from_then_on() -> None:
    records = run()[1]
    changed = {"changed_at": at(3).isoformat()}
    records[7] = replace(records[7], due_date=at(-86_400), created_at=at(-90_000), detail=changed, recorded_at=at(4))

    assert verdict_on(records).lag_max_ms == pytest.approx(1_000)


def test_an_occurrence_that_was_made_late_is_late_from_its_due_date() -> None:
    records = run()[1]
    records[-1] = replace(records[-1], created_at=at(9), recorded_at=at(9) + LAG)  # the timer was due at 3 s

    assert verdict_on(records).lag_max_ms == pytest.approx(6_002)


def test_a_repeat_without_end_can_not_be_judged() -> None:
    endless = NewTimer.from_fields({"schedule": "R/PT1S"})

    with pytest.raises(ValueError, match="has no end"):
        judge([(Scheduled(1, START), endless)], [], None)


def with_deliveries(**more: int) -> Verdict:
    went_well: dict[str, Any] = {
        "promised": 2, "delivered": 2, "discarded": 0, "dead": 0, "retried": 0, "called_again": 0, "repeated": 0,
        "lost": 0, "double": 0, "unfired": 0, "wrong_end": 0, "wrong_attempt": 0, "uncalled": 0,
    }  # fmt: skip
    return replace(verdict_on(run()[1]), deliveries=DeliveryVerdict(**went_well | more))


def test_a_run_passes_only_if_its_timers_and_its_deliveries_pass() -> None:
    assert with_deliveries().holds
    assert not with_deliveries(double=1).holds
    assert not with_deliveries(delivered=0).holds
    assert not replace(with_deliveries(), lost=1).holds


def test_deliveries_are_reported_only_if_there_were_any() -> None:
    said = dict(with_deliveries().lines())

    assert said["verdict"] == "every timer fired exactly once, none early; every delivery ended once, as it had to"
    assert said["delivered"] == "2 of 2 promised, 0 by a retry"
    assert "delivered" not in dict(verdict_on(run()[1]).lines())
    assert dict(with_deliveries(lost=1).lines())["verdict"] == "BROKEN"


def test_the_verdict_is_shown_in_a_sentence() -> None:
    assert dict(verdict_on(run()[1]).lines())["verdict"] == "every timer fired exactly once, none early"
    assert dict(verdict_on([]).lines())["verdict"] == "BROKEN"
