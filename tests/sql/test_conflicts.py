"""Prove that a new timer is refused, is ignored, or replaces the other timer, if another timer has its name.

The same functions run on each version of Postgres in test_conflict_races.py.
"""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest

from shardclock_server.sql.clients.outcomes import Refused, Scheduled
from shardclock_server.sql.clients.scheduling import ScheduleBatch, draw_keys, schedule_timers
from shardclock_server.sql.clients.verbs import TimerRef, cancel_timer, pause_timer, resume_timer
from tests.support.factories import HolderClient, pending_rows, query, recorded
from tests.support.scheduling import Ask, timer
from tests.support.sql_client import refusal, schedule

LATER = "2040-01-01T00:00:00Z"


async def test_a_repeated_call_makes_no_second_timer_and_returns_the_key(client: HolderClient, ask: Ask) -> None:
    key, outcome = await ask(client, on_conflict="ignore")

    assert outcome == "created"
    assert await ask(client, on_conflict="ignore") == (key, "unchanged")
    assert await ask(client, on_conflict="ignore", tenant_id="other") == (key + 2, "created")
    assert await ask(client, on_conflict="ignore", name="m") == (key + 3, "created")
    assert await recorded(client.dsn) == []


async def test_a_taken_name_is_refused_by_default(client: HolderClient) -> None:
    key = await schedule(client, name="n")

    said = await refusal(client, "schedule_timer", delay="'PT1H'", name="'n'")
    (refused,) = await ScheduleBatch([timer()]).send(client.session)

    assert isinstance(refused, Refused)
    for sentence in (said, refused.why):
        assert "is taken by a pending timer of tenant" in sentence
        assert "on_conflict" in sentence
    assert [row["timer_key"] for row in await pending_rows(client.dsn)] == [key]


async def test_an_ignored_timer_does_not_change_the_existing_timer_even_if_that_is_paused(
    client: HolderClient, ask: Ask
) -> None:
    key = await schedule(client, due_date=datetime(2040, 1, 1, tzinfo=UTC), name="n")
    await pause_timer(client.session, TimerRef(key))
    before = await pending_rows(client.dsn)

    assert await ask(client, on_conflict="ignore", payload={"new": 1}) == (key, "unchanged")

    assert await pending_rows(client.dsn) == before
    (said,) = await ScheduleBatch([timer(on_conflict="ignore")]).send(client.session)
    assert said == Scheduled(key, datetime(2040, 1, 1, tzinfo=UTC), "unchanged"), "its date is the one it goes by"


async def test_a_replacement_is_a_new_timer_and_the_old_timer_ends_with_the_reason(
    client: HolderClient, ask: Ask
) -> None:
    old, _ = await ask(client, schedule="R5/PT1H", payload={"v": 1}, process_instance_key=7)

    new, outcome = await ask(client, due_date=LATER, payload={"v": 2}, on_conflict="replace")

    assert outcome == "replaced"
    assert new != old
    (row,) = await pending_rows(client.dsn)
    assert (row["timer_key"], row["name"], row["schedule"], row["process_instance_key"]) == (new, "n", None, None)
    assert (row["due_date"], json.loads(row["payload"])) == (datetime(2040, 1, 1, tzinfo=UTC), {"v": 2})
    (record,) = await query(client.dsn, "select * from shardclock.command_log")
    assert (record["timer_key"], record["intent"], record["schedule"]) == (old, "CANCELED", "R5/PT1H")
    detail = json.loads(record["detail"])
    assert (detail["reason"], detail["replaced_by"]) == (f"replaced by timer {new}", new)


@pytest.mark.parametrize(
    "same", [{"schedule": "R/PT1H"}, {"schedule": "0 8 * * *", "zone": "Europe/Berlin"}, {"due_date": LATER}], ids=str
)
async def test_a_timer_equal_to_the_existing_one_replaces_nothing(
    client: HolderClient, ask: Ask, same: dict[str, Any]
) -> None:
    key, _ = await ask(client, payload={"v": 1}, on_conflict="replace", **same)

    assert await ask(client, payload={"v": 1}, on_conflict="replace", **same) == (key, "unchanged")

    assert (await ask(client, payload={"v": 2}, on_conflict="replace", **same))[1] == "replaced"
    assert (await ask(client, payload={"v": 2}, on_conflict="replace", delay="PT1H"))[1] == "replaced"
    assert (await ask(client, payload={"v": 2}, on_conflict="replace", delay="PT1H"))[1] == "replaced", "from now on"


async def test_a_timer_that_replaces_a_paused_timer_is_also_paused(client: HolderClient, ask: Ask) -> None:
    old = await schedule(client, schedule="R/PT1H", name="n")
    await pause_timer(client.session, TimerRef(old))

    new, _ = await ask(client, due_date=LATER, on_conflict="replace")

    (row,) = await pending_rows(client.dsn)
    assert (row["timer_key"], row["paused_due_date"]) == (new, datetime(2040, 1, 1, tzinfo=UTC))
    assert await recorded(client.dsn) == [(old, "PAUSED"), (old, "CANCELED"), (new, "PAUSED")]
    assert await resume_timer(client.session, TimerRef(name="n")) == "PENDING"


@pytest.mark.parametrize("policy", ["ignore", "replace", "refuse"])
async def test_the_name_of_an_ended_timer_is_free(
    client: HolderClient, shard_ahead: HolderClient, ask: Ask, policy: str
) -> None:
    fired, _ = await ask(client, delay="PT0S")
    await shard_ahead.take(fire_overdue=True)
    canceled, _ = await ask(client)
    await cancel_timer(client.session, TimerRef(name="n"))

    key, outcome = await ask(client, on_conflict=policy)

    assert outcome == "created"
    assert len({fired, canceled, key}) == 3


@pytest.mark.shared_database
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            {"on_conflict": "'overwrite'", "name": "'n'"},
            "on_conflict 'overwrite' is unknown: use refuse, ignore or replace",
        ),
        ({"on_conflict": "null", "name": "'n'"}, "on_conflict <NULL> is unknown: use refuse, ignore or replace"),
        ({"on_conflict": "'replace'"}, "on_conflict 'replace' needs a name: give the timer a name"),
        (
            {"on_conflict": "'ignore'", "schedule": "'R/PT1H'"},
            "on_conflict 'ignore' needs a name: give the timer a name",
        ),
    ],
    ids=str,
)
async def test_an_unknown_policy_is_refused(client: HolderClient, arguments: dict[str, str], sentence: str) -> None:
    when = {} if "schedule" in arguments else {"delay": "'PT1H'"}

    assert await refusal(client, "schedule_timer", **when, **arguments) == sentence
    assert await pending_rows(client.dsn) == []


async def test_the_lines_of_a_batch_are_written_in_their_order(client: HolderClient) -> None:
    policies = ["refuse", "replace", "ignore", "replace", "refuse"]
    asked = [timer(payload=number, on_conflict=policy) for number, policy in enumerate(policies)]

    outcomes = await ScheduleBatch([*asked, timer(name="m", on_conflict="replace")]).send(client.session)

    said = [it.outcome if isinstance(it, Scheduled) else "refused" for it in outcomes]
    assert said == ["created", "replaced", "unchanged", "replaced", "refused", "created"]
    rows = {row["name"]: row["payload"] for row in await pending_rows(client.dsn)}
    assert rows == {"n": "3", "m": None}
    assert Counter(intent for _, intent in await recorded(client.dsn)) == {"CANCELED": 2}


async def test_a_thousand_lines_of_one_name_are_written_in_one_transaction(client: HolderClient) -> None:
    outcomes = await ScheduleBatch([timer(payload=n, on_conflict="replace") for n in range(1_000)]).send(client.session)

    assert Counter(it.outcome for it in outcomes if isinstance(it, Scheduled)) == {"created": 1, "replaced": 999}
    assert [row["payload"] for row in await pending_rows(client.dsn)] == ["999"]


async def test_a_batch_sent_again_replaces_nothing_twice_even_if_its_timer_has_fired(
    client: HolderClient, shard_ahead: HolderClient
) -> None:
    # Given a timer that replaces another timer, is due immediately, and fires before the sender gets the answer
    old = await schedule(client, name="n")
    drawn = await draw_keys(client.session, 1)
    asked = [timer(delay="PT0S", on_conflict="replace")]
    first = await schedule_timers(client.session, drawn, asked)
    again = await schedule_timers(client.session, drawn, asked)
    assert (await shard_ahead.take(fire_overdue=True)).fired == 1
    # and a third timer has got the name,
    third = await schedule(client, name="n")

    # When the first timer is sent again, then it is recognized, and the third timer stays.
    assert again == first == [Scheduled(drawn.keys[0], first[0].due_date, "replaced")]  # type: ignore[union-attr]
    assert await schedule_timers(client.session, drawn, asked) == first
    assert [row["timer_key"] for row in await pending_rows(client.dsn)] == [third]
    assert await recorded(client.dsn) == [(old, "CANCELED"), (drawn.keys[0], "TRIGGERED")]
