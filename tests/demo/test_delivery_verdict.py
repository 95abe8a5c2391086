"""Prove that the verdict on deliveries names each fault."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from shardclock.log import LogRecord
from shardclock_server.demo.calls import Call
from shardclock_server.demo.delivery_verdict import DeliveryVerdict, judge_deliveries
from shardclock_server.demo.example import BUSY, CLOSED, OPEN

START = datetime(2030, 1, 31, 8, tzinfo=UTC)
KILLED_S = 100.0
OPENS = range(1, 6)
BUSY_KEY, CLOSED_KEY = 6, 7
PROMISED = 7
# for each key: the position of the record of its end
END_OF = {key: PROMISED + key - 1 for key in range(1, PROMISED + 1)}


def record(position: int, intent: str, timer_key: int, **more: object) -> LogRecord:
    made = LogRecord(
        position=position, recorded_at=START, intent=intent, timer_key=timer_key, tenant_id="default", name=None,
        timer_type="USER", process_instance_key=None, element_instance_key=None, target_element_id=None,
        due_date=START, created_at=START, schedule=None, occurrence=1, target="order.expire", payload=None, holder=1,
        detail=None,
    )  # fmt: skip
    return replace(made, **more)  # type: ignore[arg-type]


def end(position: int, intent: str, timer_key: int, attempt: int) -> LogRecord:
    return record(position, intent, timer_key, detail={"attempt": attempt, "ms": 100})


def run() -> tuple[list[LogRecord], list[Call]]:
    warehouses = dict.fromkeys(OPENS, OPEN) | {BUSY_KEY: BUSY, CLOSED_KEY: CLOSED}
    records = [
        record(key, "TRIGGERED", key, payload=json.dumps({"order": key, "warehouse": warehouse}))
        for key, warehouse in warehouses.items()
    ]
    records += [end(10 + key, "DELIVERED", key, 1) for key in OPENS]
    records += [end(20, "DELIVERED", BUSY_KEY, 2), end(21, "DEAD", CLOSED_KEY, 3)]
    attempts = dict.fromkeys(OPENS, 1) | {BUSY_KEY: 2, CLOSED_KEY: 3}
    calls = [Call(key, attempt, 90.0) for key, last in attempts.items() for attempt in range(1, last + 1)]
    return records, calls


def verdict_on(
    records: Sequence[LogRecord] | None = None,
    calls: Sequence[Call] | None = None,
    *,
    promised: int = PROMISED,
    killed_s: float | None = KILLED_S,
) -> DeliveryVerdict:
    """Return the verdict on these records and calls, by default the run without faults."""
    good_records, good_calls = run()
    records = good_records if records is None else records
    return judge_deliveries(promised, records, good_calls if calls is None else calls, killed_s)


def faults(verdict: DeliveryVerdict) -> dict[str, int]:
    """Return the faults that were found; check that the verdict is true exactly if there is no fault."""
    found = {fault: count for fault, count in verdict.faults.items() if count}
    assert verdict.holds == (not found)
    return found


def test_a_run_without_faults_holds() -> None:
    verdict = verdict_on()

    assert faults(verdict) == {}
    assert (verdict.promised, verdict.delivered, verdict.dead, verdict.discarded) == (PROMISED, 6, 1, 0)
    assert (verdict.retried, verdict.called_again, verdict.repeated) == (1, 0, 0)


def test_a_run_without_deliveries_fails() -> None:
    verdict = verdict_on([], [], promised=0)

    assert not any(verdict.faults.values())
    assert not verdict.holds
    assert "delivered" in dict(verdict.lines())


@pytest.mark.parametrize("key", [1, BUSY_KEY, CLOSED_KEY])
def test_a_firing_whose_delivery_did_not_end_is_lost(key: int) -> None:
    records, _ = run()
    del records[END_OF[key]]

    assert faults(verdict_on(records)) == {"lost": 1}


@pytest.mark.parametrize("intent", ["DELIVERED", "DISCARDED", "DEAD"])
def test_a_delivery_that_ended_twice_is_double(intent: str) -> None:
    records, _ = run()

    assert faults(verdict_on([*records, end(30, intent, 1, 1)])) == {"double": 1}


def test_an_end_without_a_firing_is_a_fault() -> None:
    records, calls = run()

    verdict = verdict_on([*records, end(30, "DELIVERED", 99, 1)], [*calls, Call(99, 1, 90.0)])

    assert faults(verdict) == {"without a firing": 1}


def test_a_call_without_a_firing_is_a_fault() -> None:
    _, calls = run()

    assert faults(verdict_on(calls=[*calls, Call(99, 1, 90.0)])) == {"without a firing": 1}


@pytest.mark.parametrize("intent", ["DISCARDED", "DEAD"])
def test_a_failed_delivery_that_should_have_succeeded_has_a_wrong_end(intent: str) -> None:
    records, _ = run()
    records[END_OF[1]] = end(11, intent, 1, 1)

    assert faults(verdict_on(records)) == {"with a wrong end": 1}


def test_a_successful_delivery_that_should_have_failed_has_a_wrong_end() -> None:
    records, _ = run()
    records[END_OF[CLOSED_KEY]] = end(21, "DELIVERED", CLOSED_KEY, 3)

    assert faults(verdict_on(records)) == {"with a wrong end": 1}


@pytest.mark.parametrize(
    ("key", "intent", "attempt"),
    [(1, "DELIVERED", 2), (BUSY_KEY, "DELIVERED", 1), (CLOSED_KEY, "DEAD", 2)],
    ids=["too many", "too few", "dead too early"],
)
def test_a_wrong_number_of_attempts_is_a_fault(key: int, intent: str, attempt: int) -> None:
    records, calls = run()
    records[END_OF[key]] = end(20, intent, key, attempt)

    assert faults(verdict_on(records, [*calls, Call(1, 2, 91.0)])) == {"at a wrong attempt": 1}


@pytest.mark.parametrize("call", [(1, 1), (BUSY_KEY, 1), (BUSY_KEY, 2), (CLOSED_KEY, 2)], ids=str)
def test_an_attempt_without_a_call_is_a_fault(call: tuple[int, int]) -> None:
    _, calls = run()
    left = [it for it in calls if it[:2] != call]

    assert faults(verdict_on(calls=left)) == {"not called": 1}


def test_an_attempt_that_was_called_before_and_after_the_kill_is_reported_and_no_fault() -> None:
    _, calls = run()
    again = [Call(1, 1, 100.1), Call(1, 1, 100.2), Call(BUSY_KEY, 1, 101.0)]

    verdict = verdict_on(calls=calls + again)

    assert faults(verdict) == {}
    assert (verdict.called_again, verdict.repeated) == (2, 0)


def test_without_a_kill_no_repeated_call_is_excused() -> None:
    _, calls = run()

    verdict = verdict_on(calls=[*calls, Call(1, 1, 110.0)], killed_s=None)

    assert (verdict.called_again, verdict.repeated) == (None, 1)
    assert str(dict(verdict.lines())["called again"]).startswith("no worker was killed")


def test_a_timer_without_a_target_has_no_delivery() -> None:
    records, _ = run()

    assert faults(verdict_on([*records, record(30, "TRIGGERED", 50, target="log")])) == {}
