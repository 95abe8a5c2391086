"""Claims and heartbeats read no old row versions: after many heartbeats under an old snapshot, and in a backlog."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from shardclock_server.sql.claims.claim import Scan, claim_due
from shardclock_server.sql.cluster.holders import assign, beat, end_holders, list_holders
from shardclock_server.sql.cluster.leadership import lead
from shardclock_server.sql.session import QUEUE_PLANS, UNSYNCED, Session
from tests.support.factories import BOUND_S, add_holder, old_snapshot, query, value
from tests.support.plans import prepare, taking
from tests.support.roles import as_role

READ = "select idx_tup_read from pg_stat_user_indexes where indexrelname = 'timers_by_slot'"
MANY = 3_000  # heartbeats of a quarter of an hour, and the same number of renewals
A, B, LEADER = 1, 2, 9
STATEMENTS = {
    "claim_due": taking(A, window=("'2.1 s'", 0, 1)),
    "beat": [str(B), "0"],
    "lead": [str(LEADER), "'c'", "'5 s'", "'n'", "false", "''", "'0 s'"],
    "list_holders": ["null"],
    "assign": [str(LEADER), "1", f"array[{A}, {B}]", "array[0, 1]", "array[false, false]", "2"],
    "end_holders": [f"array[{B}]", "'test'", "1"],
    "witnesses": [f"array[{A}]", "now()"],
}


@pytest.fixture
async def session(each_dsn: str) -> AsyncIterator[Session]:
    """Register two holders that send heartbeats, and a leader; prevent any vacuum."""
    for table in ("holders", "beats", "coordination", "leadership"):
        await query(as_role(each_dsn, "owner"), f"alter table shardclock.{table} set (autovacuum_enabled = off)")
    await add_holder(each_dsn, A, 0, 2)
    await add_holder(each_dsn, B, 1, 2)
    async with Session(each_dsn, application="test", timeout_s=BOUND_S, plans=QUEUE_PLANS | UNSYNCED) as session:
        assert (await lead(session, LEADER, cluster_id="c", lease_s=5.0, fresh=True)).leads
        async with old_snapshot(each_dsn):
            yield session


async def live(session: Session, times: int) -> None:
    """Send heartbeats and renew the lead, `times` times."""
    for number in range(times):
        assert await beat(session, A, held=number)
        assert await beat(session, B, held=number)
        assert (await lead(session, LEADER, cluster_id="c", lease_s=5.0, fresh=False)).leads


@pytest.mark.exhaustive
async def test_no_statement_reads_old_versions_of_heartbeats_and_renewals(each_dsn: str, session: Session) -> None:
    prepared = {name: await prepare(each_dsn, name) for name in STATEMENTS}

    async def pages() -> dict[str, int]:
        for name, it in prepared.items():
            await it.explain(*STATEMENTS[name], touched=True)  # the first call also reads the catalog
        return {name: (await it.explain(*STATEMENTS[name], touched=True)).pages for name, it in prepared.items()}

    await live(session, 10)
    before = await pages()
    await live(session, MANY)
    after = await pages()

    # Meanwhile an index may have grown a level. Explain's own updates are rolled back, and leave a few row versions.
    assert {name: (before[name], after[name]) for name in before if after[name] > before[name] + 12} == {}


async def test_the_next_statement_reads_each_heartbeat(each_dsn: str, session: Session) -> None:
    await live(session, 50)

    assert {it.holder: it.held for it in await list_holders(session)} == {A: 49, B: 49}
    assert await value(each_dsn, "select count(*) from shardclock.beats") == 2
    assert await value(each_dsn, "select count(*) from shardclock.leadership") == 1


async def test_after_the_clock_is_set_back_the_newest_beat_and_lease_still_count(
    each_dsn: str, session: Session
) -> None:
    await query(each_dsn, "update shardclock.beats set seen_at = now() + interval '1 hour'")
    await query(each_dsn, "update shardclock.leadership set renewed_at = now() + interval '1 hour'")

    await live(session, 3)

    assert {it.holder: it.held for it in await list_holders(session)} == {A: 2, B: 2}
    assert not (await lead(session, 10, cluster_id="other", lease_s=5.0, fresh=True)).leads


async def test_each_claim_still_reads_the_current_assignment(each_dsn: str, session: Session) -> None:
    await query(each_dsn, "insert into shardclock.timers (due_date) select now() from generate_series(1, 840)")
    assert await assign(session, leader=LEADER, term=1, parts={A: 1, B: None}, part_count=2)
    taken = await claim_due(session, A, Scan("own", 0.0, 4_200), lease_s=10.0)
    assert taken.fired == 420
    assert await value(each_dsn, "select array_agg(distinct slot % 2) from shardclock.timers") == [0]
    await end_holders(session, [A], why="test")
    assert (await claim_due(session, A, Scan("own", 0.0, 4_200), lease_s=10.0)).fired == 0


async def test_claims_of_timers_with_the_same_due_date_read_fired_timers_only_once_more(each_dsn: str) -> None:
    timers = "insert into shardclock.timers (timer_key, due_date) select n * 840, now() from generate_series(1, 2000) n"
    await query(as_role(each_dsn, "owner"), "alter table shardclock.timers set (autovacuum_enabled = off)")
    await add_holder(each_dsn, A, 0, 1)
    await query(each_dsn, timers)

    async with Session(each_dsn, application="test", timeout_s=BOUND_S, plans=QUEUE_PLANS) as session:
        fired = [(await claim_due(session, A, Scan("own", 0.0, 84_000), lease_s=10.0)).fired for _ in range(20)]
        async with session.connection() as connection:
            await connection.execute("select pg_stat_force_next_flush()")
            read = await connection.fetchval(READ)

    assert fired == [100] * 20
    # A claim reads the timers that the claim before it has fired, and marks their index entries as dead.
    assert read <= 2 * 2_000
