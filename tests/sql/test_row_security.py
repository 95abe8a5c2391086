"""Prove that the gateway's role sees and changes only the rows of the tenants that its session serves."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from uuid import uuid4

import asyncpg
import pytest

from shardclock_server.sql.clients.outcomes import Scheduled
from shardclock_server.sql.clients.scheduling import ScheduleBatch
from shardclock_server.sql.log.records import read_own
from shardclock_server.sql.migrate import migrate
from shardclock_server.sql.served import ALL_TENANTS, NO_TENANTS, Tenants
from shardclock_server.sql.session import NOT_ALLOWED, Session, StatementRefused, StoreUnavailable
from shardclock_server.timers.model import NewTimer
from tests.support.factories import query, value
from tests.support.roles import as_role, ask_for_wall
from tests.support.sql_client import session
from tests.support.tenant_rows import KEYS, OPERATORS, PARTS, ROWS, TABLES, add_rows

# If a statement quotes one of these names wrongly, the statement fails.
ODD = frozenset(
    {"bob", "*", "a,d", "{ada}", 'a"da', "null", "'ada'", "a\\'da", "\\", "ada ", "ada}", "x'; set role none; --"}
)
ADA, EVE = frozenset({"ada"}), frozenset({"eve"})
# Tables of the whole installation: `api_keys` has the tenant of a request, and no gateway reads `tenant_usage`.
NOBODYS = {
    "api_keys", "beats", "console_sessions", "consumers", "coordination", "handlers", "holders", "identity", "jobs",
    "functions", "leadership", "log_days", "migrations", "scale", "tenant_usage", "zones",
}  # fmt: skip
FIRST_COLUMN = """
    select quote_ident(a.attname) from pg_attribute a
    where a.attrelid = $1::regclass and a.attnum > 0 and a.attgenerated = '' and a.attidentity = '' limit 1
"""
COLUMNS = """
    select string_agg(quote_ident(a.attname), ', ') from pg_attribute a
    where a.attrelid = $1::regclass and a.attnum > 0 and a.attgenerated = ''
"""


@pytest.fixture
async def filled(each_dsn: str) -> str:
    """Insert a row of each of two tenants into each table, and grant the gateway every right: only policies restrict
    it.
    """
    if await value(each_dsn, "select count(*) from shardclock.timers"):
        return each_dsn  # a shared database
    await add_rows(each_dsn)
    every = "select, insert, update, delete on all tables in schema shardclock"
    await query(each_dsn, f"grant {every} to shardclock_gateway")
    return each_dsn


@asynccontextmanager
async def gateway(dsn: str, tenants: Tenants) -> AsyncIterator[asyncpg.Connection]:
    """Lend a connection of the gateway's role for some tenants; roll back its changes."""
    async with session(dsn, "gateway") as served:
        served.serve(tenants)
        async with served.connection() as connection:
            transaction = connection.transaction()
            await transaction.start()
            try:
                yield connection
            finally:
                await transaction.rollback()


async def count(connection: asyncpg.Connection, table: str) -> int:
    found = await connection.fetchval(f"select count(*) from shardclock.{table}")
    assert isinstance(found, int)
    return found


@pytest.mark.shared_database
async def test_each_table_has_a_policy_or_belongs_to_the_whole_installation(each_dsn: str) -> None:
    tables = await query(
        each_dsn,
        "select c.relname, exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = 'tenant_id') its"
        " from pg_class c where c.relnamespace = 'shardclock'::regnamespace and c.relkind in ('r', 'p')"
        " and not c.relispartition",
    )
    assert {row["relname"] for row in tables} - TABLES.keys() == NOBODYS
    assert {row["relname"] for row in tables if row["its"]} - {"api_keys", "tenant_usage"} == ROWS.keys()


async def test_a_migration_keeps_correct_policies_and_replaces_wrong_policies(each_dsn: str) -> None:
    policies = (
        "select oid, polname, polrelid::regclass::text as held, pg_get_expr(polqual, polrelid) as rule from pg_policy"
    )
    before = {(row["held"], row["polname"]): (row["oid"], row["rule"]) for row in await query(each_dsn, policies)}
    await ask_for_wall(each_dsn)
    await query(each_dsn, "drop policy served_rows on shardclock.timers")
    await query(each_dsn, "comment on policy served_rows on shardclock.tasks is 'as an earlier release had it'")

    await migrate(as_role(each_dsn, "owner"))

    after = {(row["held"], row["polname"]): (row["oid"], row["rule"]) for row in await query(each_dsn, policies)}
    assert {key: rule for key, (_, rule) in after.items()} == {key: rule for key, (_, rule) in before.items()}
    anew = {held for (held, name), (oid, _) in after.items() if before[held, name][0] != oid}
    assert anew == {"shardclock.timers", "shardclock.tasks"}


async def test_the_acts_of_a_task_are_visible_after_its_row_is_gone(filled: str) -> None:
    await query(filled, "delete from shardclock.tasks")
    async with gateway(filled, ADA) as connection:
        assert await connection.fetchval("select array_agg(task_key) from shardclock.task_acts") == [KEYS["ada"]]


async def test_a_database_has_row_policies_if_its_setting_requires_policies(filled: str) -> None:
    policies = "select count(*) from pg_policies where schemaname = 'shardclock'"
    secured = "select count(*) from pg_class where relrowsecurity"
    made = await value(filled, policies)
    assert made == 2 * len(TABLES)

    await migrate(as_role(filled, "owner"))
    assert await value(filled, policies) == made, "nothing is asked for in this database, as after a restore"

    await ask_for_wall(filled, wall="off")
    await migrate(as_role(filled, "owner"))
    assert (await value(filled, policies), await value(filled, secured)) == (0, 0)
    async with gateway(filled, ADA) as connection:
        assert await count(connection, "timers") == 2

    await ask_for_wall(filled)
    await migrate(as_role(filled, "owner"))
    assert (await value(filled, policies), await value(filled, secured)) == (made, len(TABLES))


async def test_without_policies_a_session_sends_no_tenants(filled: str) -> None:
    told = "select coalesce(current_setting('shardclock.tenants', true), '')"
    timer = NewTimer.from_fields({"delay": "PT1H", "tenant_id": "ada"})
    for wall, said in (("off", ""), ("on", '{"ada"}')):
        await ask_for_wall(filled, wall=wall)
        await migrate(as_role(filled, "owner"))
        async with session(filled, "gateway") as served:
            served.serve(ADA)
            await ScheduleBatch([timer]).send(served)
            async with served.connection() as connection:
                assert await connection.fetchval(told) == said


@pytest.mark.shared_database
async def test_a_gateway_sees_only_the_rows_of_its_tenant(filled: str) -> None:
    async with gateway(filled, ADA) as connection:
        for table in ROWS:
            rows = await connection.fetch(f"select tenant_id from shardclock.{table}")
            assert [row["tenant_id"] for row in rows] == ["ada"], table
        for table in PARTS:
            rows = await connection.fetch(f"select instance_key from shardclock.{table}")
            assert [row["instance_key"] for row in rows] == [KEYS["ada"]], table
        for table in OPERATORS:
            assert await count(connection, table) == 0, table
        history = await connection.fetch("select distinct tenant_id from shardclock.timer_history")
        assert [row["tenant_id"] for row in history] == ["ada"]


@pytest.mark.shared_database
@pytest.mark.parametrize("tenants", [NO_TENANTS, ODD])
async def test_a_session_for_no_tenant_or_for_other_tenants_reads_no_rows(filled: str, tenants: Tenants) -> None:
    async with gateway(filled, tenants) as connection:
        assert {table: await count(connection, table) for table in TABLES} == dict.fromkeys(TABLES, 0)


@pytest.mark.shared_database
async def test_a_session_for_several_tenants_reads_their_rows_and_a_session_for_all_tenants_reads_all_rows(
    filled: str,
) -> None:
    async with gateway(filled, ADA | EVE) as connection:
        found = {table: await count(connection, table) for table in TABLES}
    assert found == dict.fromkeys(ROWS | PARTS, 2) | dict.fromkeys(OPERATORS, 0)
    async with gateway(filled, ALL_TENANTS) as connection:
        assert {table: await count(connection, table) for table in TABLES} == dict.fromkeys(TABLES, 2)


@pytest.mark.shared_database
async def test_a_gateway_changes_no_row_of_another_tenant(filled: str) -> None:
    async with gateway(filled, frozenset({"bob"})) as connection:
        for table in TABLES:
            column = await connection.fetchval(FIRST_COLUMN, f"shardclock.{table}")
            assert await connection.execute(f"update shardclock.{table} set {column} = {column}") == "UPDATE 0", table
            assert await connection.execute(f"delete from shardclock.{table}") == "DELETE 0", table
            locked = await connection.fetch(f"select from shardclock.{table} for update")
            assert locked == [], table


@pytest.mark.shared_database
async def test_a_gateway_writes_no_row_of_another_tenant(filled: str) -> None:
    for table in TABLES:
        columns = await value(filled, COLUMNS, f"shardclock.{table}")
        column = "tenant_id" if table in ROWS else "instance_key" if table in PARTS else None
        of_eve = f"where {column}::text in ('eve', '8')" if column else "limit 1"
        row = await value(filled, f"select to_jsonb(t)::text from shardclock.{table} t {of_eve}")
        async with gateway(filled, ADA) as connection:
            with pytest.raises(asyncpg.InsufficientPrivilegeError, match="row-level security"):
                await connection.execute(
                    f"insert into shardclock.{table} ({columns}) overriding system value"
                    f" select {columns} from jsonb_populate_record(null::shardclock.{table}, $1::jsonb)",
                    row,
                )
    for table in ROWS:
        async with gateway(filled, ADA) as connection:
            with pytest.raises(asyncpg.InsufficientPrivilegeError, match="row-level security"):
                await connection.execute(f"update shardclock.{table} set tenant_id = 'eve'")


@pytest.mark.shared_database
@pytest.mark.parametrize("role", ["shard", "scheduler", "consumer", "reader", "owner"])
async def test_all_other_roles_see_all_rows_of_the_tables_that_they_may_read(filled: str, role: str) -> None:
    async with session(filled, role) as other, other.connection() as connection:
        for table in TABLES:
            if await connection.fetchval("select has_table_privilege($1, 'select')", f"shardclock.{table}"):
                assert await count(connection, table) == 2, table


@pytest.mark.shared_database
async def test_a_login_that_has_the_gateways_role_and_other_roles_is_restricted_too(filled: str) -> None:
    role = f"both_{uuid4().hex}"
    await query(filled, f"create role {role} login in role shardclock_gateway, shardclock_shard, shardclock_scheduler")
    try:
        async with Session(as_role(filled, "gateway").replace("test_gateway", role), application="test") as both:
            for tenants, seen in ((NO_TENANTS, 0), (ADA, 1), (ALL_TENANTS, 2)):
                both.serve(tenants)
                async with both.connection() as connection:
                    assert await count(connection, "timers") == seen
        # `up` runs shards, clients and a gateway with one login: only the gateway's sessions set tenants.
        login = as_role(filled, "gateway").replace("test_gateway", role)
        async with Session(login, application="test") as shard, shard.connection() as connection:
            assert await count(connection, "timers") == 2
    finally:
        await query(filled, f"drop role {role}")


async def test_a_session_serves_the_same_tenants_after_its_connection_broke(filled: str) -> None:
    async with session(filled, "gateway") as served:
        served.serve(ADA)
        assert [record.tenant_id for record in (await read_own(served, 0)).records] == ["ada"]
        await query(filled, "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'test_gateway'")
        with suppress(StoreUnavailable):
            await read_own(served, 0)
        assert [record.tenant_id for record in (await read_own(served, 0)).records] == ["ada"]


async def test_a_page_of_the_log_ends_after_its_limit_of_records_of_all_tenants(filled: str) -> None:
    for key in range(100, 110):
        await query(filled, f"insert into shardclock.command_log {ROWS['command_log'].format(tenant='eve', key=key)}")
    async with session(filled, "gateway") as served:
        served.serve(ADA)
        first = await read_own(served, 0, limit=5)
        second = await read_own(served, first.next, limit=500)
        third = await read_own(served, second.next, limit=500)
    assert ([record.tenant_id for record in first.records], second.records, third.records) == (["ada"], [], [])
    positions = [
        row["position"] for row in await query(filled, "select position from shardclock.command_log order by 1")
    ]
    assert (first.next, second.next, third.next) == (positions[4], positions[-1], positions[-1])


def keys_taken_by_eve() -> Iterator[tuple[str, NewTimer]]:
    """Yield the tables in which a key may exist already, and the timers that then need another key."""
    for table in ("timers", "command_log"):
        yield table, NewTimer.from_fields({"delay": "PT1H", "tenant_id": "ada"})
        for on_conflict in ("refuse", "ignore", "replace"):
            fields = {"delay": "PT1H", "name": "n", "tenant_id": "ada", "on_conflict": on_conflict}
            yield table, NewTimer.from_fields(fields)


@pytest.mark.parametrize(("table", "timer"), list(keys_taken_by_eve()), ids=str)
async def test_a_key_of_an_invisible_timer_is_drawn_again(each_dsn: str, table: str, timer: NewTimer) -> None:
    # Given a sequence that was set back before the key of another tenant's timer
    taken = 5_000
    await query(each_dsn, f"insert into shardclock.{table} {ROWS[table].format(tenant='eve', key=taken)}")
    await query(each_dsn, "select setval('shardclock.timer_key_seq', $1, false)", taken)

    # When a timer is written for a tenant that can't see the other tenant's timer
    async with session(each_dsn, "gateway") as served:
        served.serve(ADA)
        (outcome,) = await ScheduleBatch([timer]).send(served)

    # Then the new timer has another key, and the other timer is unchanged.
    assert isinstance(outcome, Scheduled), outcome
    assert outcome.timer_key > taken
    assert await value(each_dsn, f"select tenant_id from shardclock.{table} where timer_key = $1", taken) == "eve"


async def test_a_timer_of_a_tenant_that_is_not_served_is_refused(each_dsn: str) -> None:
    async with session(each_dsn, "gateway") as served:
        served.serve(ADA)
        with pytest.raises(StatementRefused) as refused:
            await ScheduleBatch([NewTimer.from_fields({"delay": "PT1H", "tenant_id": "eve"})]).send(served)
    assert refused.value.sqlstate == NOT_ALLOWED
    assert await value(each_dsn, "select count(*) from shardclock.timers") == 0
