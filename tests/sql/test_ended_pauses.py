"""Prove that a pause ends once, never before its end time, and treats missed occurrences as its author chose."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from shardclock_server.sql.claims.pauses import EndedPauses, PauseEnds
from shardclock_server.sql.clients.verbs import (
    NewRule,
    TimerRef,
    cancel_timer,
    change_system_timer,
    end_of_pause,
    pause_timer,
    pause_timers,
    reschedule_timer,
    resume_timer,
    run_timer,
)
from shardclock_server.sql.deliveries.settle import SETTLE_PLANS
from shardclock_server.timers.duration import parse_duration
from shardclock_server.timers.refusal import InvalidTimer
from tests.support.factories import (
    BOUND_S,
    HolderClient,
    add_holder,
    add_schedule,
    add_timers,
    ends,
    query,
    value,
    waits,
)
from tests.support.job_runs import declare
from tests.support.jobs import job_spec
from tests.support.occurrences import numbers, row, serve
from tests.support.plans import counting_rows_read
from tests.support.roles import OPERATOR, as_role
from tests.support.shard_pool import connect
from tests.support.sql_client import schedule

BEAT = TimerRef(name="beat")
PAUSED = "select timer_key from shardclock.timers where paused_due_date is not null"
HOUR = timedelta(hours=1)
NOON = datetime(2040, 1, 1, 12, tzinfo=UTC)
ONE, TWO = 1, 2
MISSED = 4  # hourly occurrences before the end of the pause
OUTCOMES: dict[str, list[tuple[str, int]]] = {
    "skip": [("SKIPPED", 1)],
    "fire_once": [("TRIGGERED", 1), ("SKIPPED", 2)],
    "fire_all": [("TRIGGERED", number) for number in range(1, MISSED + 1)],
}


@pytest.fixture
async def shard(dsn: str) -> AsyncIterator[HolderClient]:
    await add_holder(dsn, ONE)
    async with HolderClient(dsn, holder=ONE, plans={}) as hand:
        yield hand


@pytest.fixture
async def other(shard: HolderClient) -> AsyncIterator[HolderClient]:
    async with HolderClient(shard.dsn, holder=TWO, plans={}) as hand:
        yield hand


@pytest.fixture
async def client(shard: HolderClient) -> AsyncIterator[HolderClient]:
    async with HolderClient(shard.dsn, plans={}, role=OPERATOR) as hand:
        yield hand


async def end(hand: HolderClient) -> int:
    """Let a shard end the pauses; return their number."""
    return (await PauseEnds(hand.session).turn()).ended


async def pass_end(dsn: str, ago: str = "1 second") -> None:
    """Move the ends of all pauses into the past, so that the test need not wait."""
    await query(dsn, f"update shardclock.timers set resume_at = now() - interval '{ago}' where resume_at is not null")


async def paused_plain(client: HolderClient, due: datetime = NOON) -> int:
    key = await schedule(client, due_date=due, name="beat")
    assert await pause_timer(client.session, BEAT, until=datetime.now(UTC) + HOUR) == "PAUSED"
    return key


async def paused_schedule(client: HolderClient, own: str, choice: str = "policy") -> None:
    """Pause an hourly schedule; the pause has ended 5 minutes ago, 4 occurrences after the first due date."""
    start = "now() - interval '215 minutes'"
    await add_schedule(client.dsn, "R/PT1H", start, anchor=f"{start} - interval '1 hour'", missed=f"'{own}'")
    await pause_timer(client.session, BEAT, until=datetime.now(UTC) + HOUR, missed=choice)
    await pass_end(client.dsn, "5 minutes")


async def details(dsn: str, intent: str) -> list[dict[str, Any]]:
    text = "select detail from shardclock.command_log where intent = $1 order by position"
    return [json.loads(found["detail"]) for found in await query(dsn, text, intent)]


async def test_a_pause_ends_at_its_end_time_and_not_earlier(shard: HolderClient, client: HolderClient) -> None:
    await paused_plain(client)
    assert await end(shard) == 0
    assert (await row(shard.dsn))["paused_due_date"] == NOON

    await pass_end(shard.dsn)
    until = (await row(shard.dsn))["resume_at"]
    assert await end(shard) == 1

    after = await row(shard.dsn)
    assert (after["due_date"], after["paused_due_date"], after["resume_at"]) == (NOON, None, None)
    assert after["changed_at"] == until, "a later shard ends the pause as of the same moment"
    (record,) = await details(shard.dsn, "RESUMED")
    assert datetime.fromisoformat(record["until"]) == until
    assert record["by"] == await shard.value("select current_user")
    assert await end(shard) == 0


async def test_a_shard_learns_when_the_next_pause_ends(shard: HolderClient, client: HolderClient) -> None:
    assert await PauseEnds(shard.session).turn() == EndedPauses(0, None, {})
    await paused_plain(client)

    found = await PauseEnds(shard.session).turn()

    assert found.ended == 0
    assert found.next_s is not None
    assert 3_600 - BOUND_S < found.next_s <= 3_600


async def test_a_clock_that_is_set_back_delays_the_end(shard: HolderClient, client: HolderClient) -> None:
    await paused_plain(client)
    # The end of the pause was in the past, and is now in the future again.
    await query(shard.dsn, "update shardclock.timers set resume_at = clock_timestamp() + interval '40 years'")

    assert await end(shard) == 0
    assert (await shard.take(horizon_s=0.0)).claimed == []


@pytest.mark.parametrize("own", sorted(OUTCOMES))
@pytest.mark.parametrize("choice", ["policy", *sorted(OUTCOMES)])
async def test_the_choice_of_the_pause_decides_about_the_occurrences_before_its_end(
    shard: HolderClient, client: HolderClient, own: str, choice: str
) -> None:
    await paused_schedule(client, own, choice)

    assert await end(shard) == 1
    await serve(shard)

    chosen = OUTCOMES[own if choice == "policy" else choice]
    assert [it for it in await numbers(shard.dsn) if it[0] in ("TRIGGERED", "SKIPPED")] == chosen
    assert (await row(shard.dsn))["missed"] == own
    assert [it.get("missed") for it in await details(shard.dsn, "RESUMED")] == [None if choice == "policy" else choice]


async def test_an_occurrence_that_is_due_at_the_end_of_the_pause_is_not_missed(
    shard: HolderClient, client: HolderClient
) -> None:
    # Given a schedule with a pause that ended a moment ago, when its third occurrence was due
    start = "now() - interval '2 hours 1 second'"
    await add_schedule(shard.dsn, "R/PT1H", start, anchor=f"{start} - interval '1 hour'")
    await pause_timer(client.session, BEAT, until=datetime.now(UTC) + HOUR, missed="skip")
    await query(
        shard.dsn,
        "update shardclock.timers set resume_at = paused_due_date + interval '2 hours' where resume_at is not null",
    )

    assert await end(shard) == 1
    await serve(shard)

    done = [it for it in await numbers(shard.dsn) if it[0] in ("TRIGGERED", "SKIPPED")]
    assert done == [("SKIPPED", 1), ("TRIGGERED", 3)]


async def test_a_clients_resume_ends_the_pause_permanently(shard: HolderClient, client: HolderClient) -> None:
    await paused_plain(client)

    assert await resume_timer(client.session, BEAT) == "PENDING"

    after = await row(shard.dsn)
    assert (after["resume_at"], after["resume_missed"], after["due_date"]) == (None, None, NOON)
    assert await value(shard.dsn, "select count(*) from shardclock.timers where resume_at is not null") == 0


@pytest.mark.parametrize("until", [None, NOON])
async def test_a_second_pause_changes_only_the_end_of_the_pause(
    shard: HolderClient, client: HolderClient, until: datetime | None
) -> None:
    await paused_plain(client)
    before = await row(shard.dsn)

    for _ in range(2):  # the repeated call leaves no further record
        assert await pause_timer(client.session, BEAT, until=until, reason="longer") == "PAUSED"

    after = await row(shard.dsn)
    assert after == before | {"resume_at": until}
    assert [it.get("reason") for it in await details(shard.dsn, "PAUSED")] == [None, "longer"]


async def test_other_verbs_keep_the_pause_and_its_end(shard: HolderClient, client: HolderClient) -> None:
    await paused_plain(client)
    ends_at = (await row(shard.dsn))["resume_at"]

    assert await reschedule_timer(client.session, BEAT, NOON + HOUR) == "RESCHEDULED"
    assert await run_timer(client.session, BEAT) == "PAUSED"
    assert await reschedule_timer(client.session, BEAT, NewRule("R/PT1H")) == "RESCHEDULED"
    assert (await row(shard.dsn))["resume_at"] == ends_at

    new = await schedule(client, due_date=NOON, name="beat", on_conflict="replace")
    after = await row(shard.dsn)
    assert (after["timer_key"], after["paused_due_date"], after["resume_at"]) == (new, NOON, ends_at)
    assert await cancel_timer(client.session, BEAT) == "CANCELED"
    await pass_end(shard.dsn)
    assert await end(shard) == 0


@pytest.mark.parametrize("first", ["resume", "cancel", "longer pause", "end"])
async def test_if_the_end_and_a_clients_verb_are_simultaneous_only_one_of_them_decides(
    shard: HolderClient, client: HolderClient, first: str
) -> None:
    await paused_plain(client)
    await pass_end(shard.dsn)

    if first == "end":
        # When the shard's transaction is open, the client waits and finds a pending timer
        await shard.begin()
        assert await end(shard) == 1
        waiting = await waits(client, resume_timer(client.session, BEAT))
        await shard.commit()
        assert await ends(waiting) == "PENDING"
        (detail,) = await details(shard.dsn, "RESUMED")
        assert detail["by"] == await shard.value("select current_user")
        assert datetime.fromisoformat(detail["until"]) == (await row(shard.dsn))["changed_at"]
        return
    # When the client's transaction is open, the shard leaves the row, and waits for no lock
    await client.begin()
    if first == "resume":
        assert await resume_timer(client.session, BEAT) == "PENDING"
    elif first == "cancel":
        assert await cancel_timer(client.session, BEAT) == "CANCELED"
    else:
        assert await pause_timer(client.session, BEAT, until=NOON) == "PAUSED"
    assert await end(shard) == 0
    await client.commit()
    assert await end(shard) == 0
    assert len(await details(shard.dsn, "RESUMED")) == (first == "resume")


async def test_two_shards_end_each_pause_once(shard: HolderClient, other: HolderClient, client: HolderClient) -> None:
    keys = await add_timers(shard.dsn, 10, "now() + interval '1 day'")
    await pause_timers(client.session, keys, until=datetime.now(UTC) + HOUR)
    await pass_end(shard.dsn)

    await shard.begin()
    assert (await PauseEnds(shard.session).turn(4)).ended == 4
    assert await end(other) == 6
    await shard.commit()

    assert await end(shard) == 0
    assert len(await details(shard.dsn, "RESUMED")) == 10


async def test_only_the_timer_that_postgres_refuses_to_resume_fails_and_it_is_retried(
    shard: HolderClient, client: HolderClient
) -> None:
    # Given forty pauses that have ended; three of these timers, including the first and the last, break a rule
    keys = await add_timers(shard.dsn, 40, "now() + i * interval '1 hour'")
    poison = {keys[0], keys[20], keys[-1]}
    await pause_timers(client.session, keys, until=NOON)
    await query(shard.dsn, "update shardclock.timers set resume_at = now() - (50 - timer_key % 40) * interval '1 s'")
    await query(shard.dsn, "alter table shardclock.timers disable trigger check_changed_timer")
    await query(shard.dsn, "update shardclock.timers set timer_type = 'ODD' where timer_key = any ($1)", list(poison))
    await query(shard.dsn, "alter table shardclock.timers enable always trigger check_changed_timer")
    pauses = PauseEnds(shard.session)

    found = await pauses.turn()

    assert (found.ended, set(found.refused)) == (37, poison)
    assert {row["timer_key"] for row in await query(shard.dsn, PAUSED)} == poison
    assert await pauses.turn() == EndedPauses(0, None, {}), "they are left out"
    pauses.forget()
    await query(shard.dsn, "alter table shardclock.timers disable trigger check_changed_timer")
    assert (await pauses.turn()).ended == 3, "the cause is removed"


async def test_if_a_shard_dies_before_its_commit_another_shard_ends_the_pause(
    shard: HolderClient, other: HolderClient, client: HolderClient
) -> None:
    await paused_plain(client)
    await pass_end(shard.dsn)
    dying = await connect(as_role(shard.dsn, "shard"))
    transaction = dying.transaction()
    await transaction.start()
    assert await dying.fetchval("select ended from shardclock.end_pauses(10)") == 1
    backend = dying.get_server_pid()
    dying.terminate()
    await query(shard.dsn, "select pg_terminate_backend($1, 5000)", backend)

    assert await end(other) == 1
    assert len(await details(other.dsn, "RESUMED")) == 1


@pytest.mark.parametrize("ago", ["0 seconds", "1 hour"])
async def test_an_end_of_a_pause_that_is_not_in_the_future_is_refused_and_nothing_changes(
    shard: HolderClient, client: HolderClient, ago: str
) -> None:
    await schedule(client, due_date=NOON, name="beat")
    past = await value(shard.dsn, f"select now() - interval '{ago}'")

    with pytest.raises(InvalidTimer, match="is not after now: name a later moment") as refused:
        await pause_timer(client.session, BEAT, until=past)

    assert refused.value.code.name == "invalid_until"
    assert (await row(shard.dsn))["paused_due_date"] is None


async def test_a_pause_with_a_choice_needs_an_end(client: HolderClient) -> None:
    await schedule(client, due_date=NOON, name="beat")

    with pytest.raises(InvalidTimer, match="missed 'skip' goes with until"):
        await pause_timer(client.session, BEAT, missed="skip")
    with pytest.raises(InvalidTimer, match="missed 'never' is unknown"):
        await pause_timer(client.session, BEAT, until=NOON, missed="never")


async def test_the_end_of_a_pause_may_be_a_duration_from_now(client: HolderClient) -> None:
    before = datetime.now(UTC)

    found = await end_of_pause(client.session, parse_duration("PT2H"))

    assert found is not None
    assert timedelta(0) <= found - before - 2 * HOUR < timedelta(seconds=BOUND_S)
    assert await end_of_pause(client.session, None) is None
    with pytest.raises(InvalidTimer, match="until 'PT0S' is not after now"):
        await end_of_pause(client.session, parse_duration("PT0S"))
    with pytest.raises(InvalidTimer, match="until 'P9000Y' is out of range"):
        await end_of_pause(client.session, parse_duration("P9000Y"))


async def test_an_operators_pause_of_a_job_can_also_have_an_end(shard: HolderClient, client: HolderClient) -> None:
    await declare(shard.dsn, job_spec(every_s=3600.0))
    job = TimerRef(name="job:refresh")

    assert await change_system_timer(shard.session, job, verb="pause", to=None, until=NOON) == "PAUSED"
    await pass_end(shard.dsn)
    assert await end(shard) == 1
    with pytest.raises(InvalidTimer, match="is for pause; leave it out"):
        await change_system_timer(shard.session, job, verb="resume", to=None, until=NOON)


async def pages_read(hand: HolderClient) -> tuple[int, int]:
    """Count the pages and the rows of timers that one search for ended pauses reads; roll back."""
    text = "explain (analyze, buffers, timing off, format json) select * from shardclock.end_pauses(1000)"
    await hand.begin()
    try:
        plan = json.loads(await hand.value(text))[0]["Plan"]
        return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"], await hand.value(counting_rows_read("timers"))
    finally:
        await hand.rollback()


async def test_a_search_without_an_ended_pause_reads_only_the_index(dsn: str) -> None:
    # Given a shard's session, and many timers, one of which is paused until later
    keys = await add_timers(dsn, 5_000, "now() + i * interval '1 second'")
    async with HolderClient(dsn, plans=SETTLE_PLANS, role="shard") as hand:
        await pages_read(hand)  # plans the function
        pages, rows = await pages_read(hand)
        assert rows == 0
        assert pages <= 3, "each of the two searches reads the index's first page"
        await query(dsn, "select shardclock.pause_timers($1, until => now() + interval '1 h')", keys[:1])
        pages, rows = await pages_read(hand)
        assert rows == 1
        assert pages <= 6

        await query(dsn, "select shardclock.pause_timers($1, until => now() + interval '1 h')", keys[:100])
        await pass_end(dsn)
        _, rows = await pages_read(hand)

    assert 200 <= rows <= 201, "each timer is read once to lock it, and once to change it"
