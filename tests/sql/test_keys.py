"""Prove that a key identifies one timer, even if a crash, a failover or a restore sets the sequence back."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path

import asyncpg
import pytest

from shardclock.api.refusals.timers import TIMER_KEY_TAKEN
from shardclock_server.embedded.server import EmbeddedPostgres
from shardclock_server.sql.clients.outcomes import KeyTaken, Scheduled
from shardclock_server.sql.clients.scheduling import ScheduleBatch, draw_keys, schedule_timers
from shardclock_server.sql.clients.verbs import TimerRef, cancel_timer
from shardclock_server.sql.cluster.identity import release
from shardclock_server.sql.session import StoreUnavailable
from shardclock_server.timers.model import NewTimer
from tests.conftest import VERSIONS
from tests.support.factories import (
    BOUND_S,
    HolderClient,
    add_holder,
    add_schedule,
    add_timers,
    ends,
    intents,
    query,
    value,
    waits,
)
from tests.support.memory import IN_MEMORY
from tests.support.roles import OPERATOR, migrate_with_roles
from tests.support.shard_pool import pool_of
from tests.support.sql_client import refusal, schedule, session
from tests.support.waiting import eventually

BACK = "select setval('shardclock.timer_key_seq', 1, false)"
# `write_named` has the same statement.
WRITE = (
    "select (shardclock.write_timer(jsonb_populate_record(null::shardclock.timers, jsonb_build_object("
    " 'timer_key', $1::bigint, 'name', $2::text, 'tenant_id', 'default', 'due_date', now(), 'created_at', now(),"
    " 'occurrence', 1, 'repetitions', 1, 'timer_type', 'USER', 'target', 'log')), 'replace', false)).timer_key"
)
# WAL that a commit does not flush stays unflushed: Postgres's WAL writer sleeps during the test.
SLEEPY = ("alter system set wal_writer_delay = '10s'", "select pg_reload_conf()")


def timer(**fields: object) -> NewTimer:
    """Make a timer, due in an hour by default."""
    return NewTimer.from_fields({"delay": "PT1H"} | fields)


@pytest.fixture(params=VERSIONS, ids=lambda version: f"postgres{version}")
def frail(request: pytest.FixtureRequest) -> Iterator[EmbeddedPostgres]:
    """Run a server that this test may crash, with the default fsync on."""
    data_dir = Path(tempfile.mkdtemp(prefix="shardclock-test-", dir=IN_MEMORY))
    try:
        with closing(EmbeddedPostgres.start(data_dir, version=request.param)) as server:
            yield server
    finally:
        shutil.rmtree(data_dir)


async def crash(server: EmbeddedPostgres) -> None:
    """Kill a server, so that the server writes no checkpoint and no unflushed WAL; start the server again."""
    os.kill(server.postmaster_pid, signal.SIGQUIT)
    await eventually(lambda: not server.is_running())
    await asyncio.to_thread(server.restart_if_dead)


@pytest.mark.slow
async def test_drawn_keys_are_not_drawn_again_after_a_crash(frail: EmbeddedPostgres) -> None:
    await migrate_with_roles(frail.dsn)
    for statement in SLEEPY:
        await query(frail.dsn, statement)
    stranger = await asyncpg.connect(frail.dsn)
    async with session(frail.dsn) as client:
        # Given a sequence that an open transaction has advanced in the write-ahead log,
        await stranger.execute("begin; select nextval('shardclock.timer_key_seq')")
        drawn = await draw_keys(client, 2)

        await crash(frail)

        # Then another session draws only later keys.
        async with session(frail.dsn) as other:
            assert min((await draw_keys(other, 2)).keys) > max(drawn.keys)
    stranger.terminate()


@pytest.fixture
async def twins(each_dsn: str) -> AsyncIterator[tuple[HolderClient, HolderClient]]:
    async with (
        HolderClient(each_dsn, holder=1, plans={}, role=OPERATOR) as one,
        HolderClient(each_dsn, plans={}) as other,
    ):
        await add_holder(each_dsn, 1)
        yield one, other


@pytest.mark.parametrize("fate", ["pending", "canceled", "fired", "uncommitted"])
async def test_two_clients_that_drew_the_same_key_both_get_correct_answers(
    twins: tuple[HolderClient, HolderClient], fate: str
) -> None:
    # Given two clients that drew one key, and the first client has written its timer,
    one, other = twins
    first = await draw_keys(one.session, 2)
    await query(one.dsn, BACK)
    second = await draw_keys(other.session, 2)
    assert list(first.keys) == list(second.keys)
    asked = [timer(name="theirs", delay="PT0S" if fate == "fired" else "PT1H"), timer(name="theirs too")]
    if fate == "uncommitted":
        await one.begin()
    written = await schedule_timers(one.session, first, asked)
    if fate == "canceled":
        await cancel_timer(one.session, TimerRef(first.keys[0]))
    if fate == "fired":
        assert (await one.take(fire_overdue=True)).fired == 1

    # When the second client writes its timer,
    work = schedule_timers(other.session, second, [timer(name="ours"), timer()])
    if fate == "uncommitted":
        writing = await waits(other, work)
        await one.commit()
        refused = await ends(writing)
    else:
        refused = await work

    # Then the second client gets KeyTaken, and the first client keeps its timer.
    assert all(isinstance(it, KeyTaken) for it in refused)
    assert refused[0] == KeyTaken.of(TIMER_KEY_TAKEN, timer_key=second.keys[0])
    assert [it["name"] for it in await query(one.dsn, "select name from shardclock.timers where name = 'ours'")] == []
    assert await schedule_timers(one.session, first, asked) == written


async def test_a_batch_whose_keys_are_taken_is_written_under_other_keys(each_dsn: str) -> None:
    await add_timers(each_dsn, 3, "now() + interval '1 hour'")
    await query(each_dsn, BACK)
    async with session(each_dsn) as client:
        outcomes = await ScheduleBatch([timer(name=f"n{i}") for i in range(5)]).send(client)

    rows = await query(each_dsn, "select timer_key, name from shardclock.timers where name is not null order by name")
    assert [row["name"] for row in rows] == [f"n{i}" for i in range(5)]
    assert [it.timer_key for it in outcomes if isinstance(it, Scheduled)] == [row["timer_key"] for row in rows]


async def test_keys_in_the_log_count_as_used_and_the_sequence_skips_them(each_dsn: str) -> None:
    await add_holder(each_dsn, 1)
    async with HolderClient(each_dsn, holder=1, role=OPERATOR) as shard:
        keys = await add_timers(each_dsn, 50)
        assert (await shard.take(fire_overdue=True)).fired == 50
        await query(shard.dsn, BACK)
        (outcome,) = await ScheduleBatch([timer()]).send(shard.session)

    assert isinstance(outcome, Scheduled)
    assert outcome.timer_key > max(keys)
    assert await value(each_dsn, "select nextval('shardclock.timer_key_seq')") > max(keys)


async def test_a_schedule_continues_after_the_sequence_has_gone_back(dsn: str) -> None:
    # Given pending timers with keys that the sequence is about to draw again, and a schedule. The schedule also fires
    # missed dates, because a slow machine misses some dates.
    await add_timers(dsn, 5, "now() + interval '1 hour'")
    await add_schedule(dsn, "R10/PT0.2S", "now()", anchor="now()", missed="'fire_all'")
    async with pool_of(dsn) as pool:
        await query(dsn, BACK)

        # When the schedule fires,
        await pool.start()
        await pool.until_fired(3)

    # Then the schedule continues, and no timer is paused.
    assert {intent for _, intent in await intents(dsn)} == {"TRIGGERED"}
    assert await value(dsn, "select count(*) from shardclock.timers") == 6


async def test_a_batch_of_firings_whose_next_keys_are_taken_fires_completely(each_dsn: str) -> None:
    await add_holder(each_dsn, 1)
    keys = await add_timers(each_dsn, 40, "now() + interval '1 hour'")
    for name in ("a", "b", "c"):
        await add_schedule(each_dsn, name=f"'{name}'")
    async with HolderClient(each_dsn, holder=1) as shard:
        held = (await shard.take()).claimed
        await query(shard.dsn, BACK)

        fired = await shard.fire(held)

    assert fired.timer_keys == {it.timer_key for it in held}
    next_ones = await query(
        each_dsn, "select timer_key, name from shardclock.timers where occurrence = 2 order by name"
    )
    assert [row["name"] for row in next_ones] == ["a", "b", "c"]
    assert min(row["timer_key"] for row in next_ones) > max(keys)


async def test_sql_schedules_under_another_key_and_reports_no_name_conflict(each_dsn: str) -> None:
    keys = await add_timers(each_dsn, 5, "now() + interval '1 hour'")
    await query(each_dsn, BACK)
    async with HolderClient(each_dsn, plans={}) as client:
        assert await schedule(client) > max(keys) + 1000, "beyond all of them at once, not one by one"
        await query(client.dsn, BACK)
        assert await schedule(client, schedule="R/PT1H") > max(keys)
        await query(client.dsn, BACK)
        assert await schedule(client, name="n") > max(keys)
        await query(client.dsn, BACK)
        said = await refusal(client, "schedule_timer", delay="'PT1H'", name="'n'")

    assert said.startswith("name 'n' is taken by a pending timer")
    assert await value(each_dsn, "select name from shardclock.timers where schedule is not null") != "schedule-1"


@pytest.mark.parametrize("when", [{"delay": "PT2H"}, {"schedule": "R/PT2H"}, {"schedule": "0 8 * * *"}])
async def test_a_timer_that_replaces_another_has_another_key(each_dsn: str, when: dict[str, str]) -> None:
    async with HolderClient(each_dsn, plans={}) as client:
        key = await schedule(client, name="n", schedule="R/PT1H")
        await query(each_dsn, BACK)

        again = await schedule(client, name="n", on_conflict="replace", **when)

    assert again > key
    assert await intents(each_dsn) == {(key, "CANCELED"): 1}
    told = await value(each_dsn, "select detail ->> 'replaced_by' from shardclock.command_log")
    assert told == str(again)


@pytest.mark.parametrize("fate", ["canceled", "fired", "uncommitted"])
async def test_the_key_of_an_ended_timer_is_not_given_to_another_in_sql(
    twins: tuple[HolderClient, HolderClient], fate: str
) -> None:
    # Given a timer that has ended, or ends while another timer is about to be written under its key
    one, other = twins
    key = await schedule(one, name="theirs", delay="PT0S")
    if fate == "uncommitted":
        await one.begin()
    if fate == "fired":
        assert (await one.take(fire_overdue=True)).fired == 1
    else:
        await cancel_timer(one.session, TimerRef(key))
    await query(one.dsn, BACK)

    work = schedule(other, name="ours")
    if fate == "uncommitted":
        writing = await waits(other, work)
        await one.commit()
        ours = await ends(writing)
    else:
        ours = await work

    assert ours > key
    rows = await query(one.dsn, "select timer_key, name from shardclock.timers")
    assert [tuple(row) for row in rows] == [(ours, "ours")]


async def test_a_replacement_with_a_used_key_replaces_nothing(each_dsn: str) -> None:
    # Given a key that was free when a batch last checked, and was taken since
    async with HolderClient(each_dsn, plans={}) as client:
        await schedule(client, name="n")
        taken = await schedule(client, name="other")
        before = await query(each_dsn, "select * from shardclock.timers order by 1")

        assert await client.value(WRITE, taken, "n") is None

    assert await query(each_dsn, "select * from shardclock.timers order by 1") == before
    assert await intents(each_dsn) == {}


async def test_a_replacement_whose_key_is_taken_at_the_last_moment_is_rolled_back(each_dsn: str) -> None:
    async with HolderClient(each_dsn, plans={}) as client, HolderClient(each_dsn) as locker:
        # Given a replacement that waits for the timer that it replaces
        await schedule(client, name="n")
        free = await value(each_dsn, "select nextval('shardclock.timer_key_seq')")
        before = await query(each_dsn, "select * from shardclock.timers")
        await locker.begin()
        await locker.value("select 1 from shardclock.timers for update")
        writing = await waits(client, client.value(WRITE, free, "n"))

        # When the replacement's key becomes another timer's key
        (taken,) = await add_timers(each_dsn, 1, timer_key=str(free))
        await locker.rollback()

        # Then no row was written, and the replacement may be sent again.
        with pytest.raises(StoreUnavailable, match=f"key {free} was taken just now"):
            await ends(writing)
    assert await query(each_dsn, "select * from shardclock.timers where timer_key <> $1", taken) == before
    assert await intents(each_dsn) == {}


async def test_after_a_release_a_copy_draws_only_keys_above_the_keys_of_its_timers(each_dsn: str) -> None:
    keys = await add_timers(each_dsn, 5, "now() + interval '1 hour'")
    await query(each_dsn, "update shardclock.identity set origin = 'elsewhere'")
    await query(each_dsn, BACK)
    async with session(each_dsn, "shard") as client:
        assert await release(client, "prod")

    assert await value(each_dsn, "select nextval('shardclock.timer_key_seq')") > max(keys)


async def test_the_sequence_never_decreases_and_a_very_large_key_does_not_exhaust_it(each_dsn: str) -> None:
    await query(each_dsn, "select setval('shardclock.timer_key_seq', 2000000)")
    await add_timers(each_dsn, 1, timer_key="9223372036854775807")
    assert await value(each_dsn, "select shardclock.advance_keys()") is False
    await add_timers(each_dsn, 1, timer_key="3000000")
    async with HolderClient(each_dsn) as one, HolderClient(each_dsn) as other:
        await one.begin()
        assert await one.value("select shardclock.advance_keys()") is True
        async with asyncio.timeout(BOUND_S):
            assert await other.value("select shardclock.advance_keys()") is False, (
                "it doesn't wait for an open transaction"
            )
        await one.rollback()

    assert await value(each_dsn, "select last_value from shardclock.timer_key_seq") == 4_000_000
