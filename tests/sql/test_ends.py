"""Prove that the record of a timer's end can be found both by its key and in the log, and is read completely."""

from __future__ import annotations

from shardclock_server.sql.log.ends import find_ends, records_at, skim_ends
from shardclock_server.sql.session import Session
from tests.support.factories import BOUND_S, query

# Whether a record with this intent and policy is the end of a timer with this target.
CASES = {
    ("TRIGGERED", "log"): True,
    ("TRIGGERED", "process:instance"): True,
    ("TRIGGERED", "handler:h"): False,
    ("TRIGGERED", "webhook:w"): False,
    ("TRIGGERED", "job:j"): False,
    ("CANCELED", "handler:h"): True,
    ("SKIPPED", "log", "skip"): True,
    ("SKIPPED", "log", "fire_once"): False,
    ("SKIPPED", "handler:h", "fire_once"): False,
    ("DELIVERED", "handler:h"): True,
    ("DISCARDED", "handler:h"): True,
    ("DEAD", "handler:h"): True,
    ("RESCHEDULED", "log"): False,
    ("PAUSED", "log"): False,
    ("RESUMED", "log"): False,
    ("REDRIVEN", "handler:h"): False,
}


async def append(
    dsn: str, timer_key: int, intent: str, target: str, policy: str | None = None, *, payload: str = "1"
) -> None:
    await query(
        dsn,
        "insert into shardclock.command_log"
        " (timer_key, intent, target, payload, due_date, created_at, occurrence, tenant_id, timer_type, detail)"
        " values ($1, $2, $3, $4::jsonb, now(), now(), 1, 'default', 'USER', jsonb_build_object('policy', $5::text))",
        timer_key,
        intent,
        target,
        payload,
        policy,
    )


async def test_a_timers_end_is_the_same_by_its_key_and_in_the_log(dsn: str) -> None:
    for key, case in enumerate(CASES):
        await append(dsn, key, *case)
    ended = [key for key, is_end in enumerate(CASES.values()) if is_end]

    async with Session(dsn, application="test", timeout_s=BOUND_S) as reader:
        found = await find_ends(reader, range(len(CASES)))
        skimmed = await skim_ends(reader, 0, limit=len(CASES))
        first = await skim_ends(reader, 0, limit=3)

    assert sorted(found) == sorted(skimmed.ends)
    assert [end.timer_key for end in skimmed.ends] == ended
    assert (skimmed.records, first.records) == (len(CASES), 3)
    assert first.next < skimmed.next == max(end.position for end in skimmed.ends) + 4  # four more records, without ends


async def test_the_newest_of_two_ends_is_found_and_read_whole(dsn: str) -> None:
    for intent in ("DEAD", "REDRIVEN", "DELIVERED"):
        await append(dsn, 7, intent, "handler:h", payload=f'"{intent}"')

    async with Session(dsn, application="test", timeout_s=BOUND_S) as reader:
        (record,) = await records_at(reader, await find_ends(reader, [7, 8]))

    assert (record.intent, record.payload) == ("DELIVERED", '"DELIVERED"')
