"""Prove that each role has exactly the rights in the table of the security page, and other roles have none."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import uuid4

import asyncpg
import pytest

from shardclock.log import LogRecord, async_reading
from shardclock_server.sql import migrate as module
from shardclock_server.sql.clients.scheduling import schedule_timers
from shardclock_server.sql.clients.search import TimerFilter, find_timers
from shardclock_server.sql.clients.verbs import TimerRef, cancel_timer, cancel_timers
from shardclock_server.sql.clients.writing import Drawn
from shardclock_server.sql.log.partitions import ensure_log_partitions
from shardclock_server.sql.migrate import MigrationResult, as_script, migrate
from shardclock_server.sql.scripts import SqlScript, steps
from shardclock_server.sql.session import Connection, Session, StatementRefused
from shardclock_server.timers.model import NewTimer
from tests.support import ROOT
from tests.support.consumers import consume_once
from tests.support.factories import BOUND_S, add_timers, query, value
from tests.support.postgres import Server
from tests.support.roles import COMMANDS, ROLES, as_role
from tests.support.sql_client import session

PAGE = (ROOT / "docs" / "operate" / "security.md").read_text(encoding="utf-8")
GRANTED = ("shard", "scheduler", "gateway", "consumer", "reader")
KINDS = {
    "schema": ("usage", "create"),
    "table": ("select", "insert", "update", "delete", "truncate", "references", "trigger"),
    "sequence": ("select", "usage", "update"),
    "function": ("execute",),
}
# The log's partitions are left out: they come and go, and only the owner has rights on them.
OBJECTS = """
    select 'schema' as kind, 'shardclock' as name, 'shardclock' as called
    union all
    select case c.relkind when 'S' then 'sequence' else 'table' end, c.relname::text, 'shardclock.' || c.relname
    from pg_class c
    where c.relnamespace = 'shardclock'::regnamespace and c.relkind in ('r', 'p', 'v', 'm', 'S', 'f')
        and not c.relispartition
    union all
    select 'function', p.proname::text, p.oid::regprocedure::text
    from pg_proc p
    where p.pronamespace = 'shardclock'::regnamespace
"""
# The roles to check: a role without rights shows the rights of the public.
NOBODY = "nobody"


@dataclass(frozen=True)
class Line:
    """A row of the page's table: some objects, and the rights of each role on these objects."""

    names: tuple[str, ...]
    rights: dict[str, frozenset[str]]


def lines() -> Iterator[Line]:
    heads = r"^\| +\| shard \| scheduler \| gateway \| consumer \| reader \|\n\|[-|]+\|\n"
    (table,) = re.findall(heads + r"((?:\|.*\n)+)", PAGE, re.MULTILINE)
    for row in table.splitlines():
        first, *cells = (cell.strip() for cell in row.strip("|").split("|"))
        rights = (frozenset(re.findall(r"\w+", cell)) for cell in cells)
        yield Line(tuple(re.findall(r"`(\w+)`", first)), dict(zip(GRANTED, rights, strict=True)))


async def rights_in(dsn: str) -> dict[str, dict[str, frozenset[str]]]:
    """Read from the catalog the rights of each role on each object, and the rights of a role without grants."""
    found: dict[str, dict[str, frozenset[str]]] = {}
    for role in (*GRANTED, NOBODY):
        user = role if role == NOBODY else f"shardclock_{role}"
        for kind, privileges in KINDS.items():
            asked = f"select name, p, has_{kind}_privilege($1, called, p) from ({OBJECTS}) o, unnest($2::text[]) p"
            for name, privilege, held in await query(dsn, f"{asked} where kind = $3", user, privileges, kind):
                mine = found.setdefault(name, {}).setdefault(role, frozenset())
                found[name][role] = mine | {privilege} if held else mine
    return found


def differences(found: dict[str, dict[str, frozenset[str]]]) -> list[str]:
    """Return the differences between the page and the catalog, each in a sentence."""
    said = {name: line.rights for line in lines() for name in line.names}
    none: frozenset[str] = frozenset()
    unsaid = [
        f"{name} has no line in docs/operate/security.md, or sql/roles.sql" for name in found.keys() - said.keys()
    ]
    gone = [f"{name} has a line, and is not there" for name in said.keys() - found.keys()]
    wrong = [
        f"{role} may {sorted(rights)} {name}, and the page says {sorted(said[name].get(role, none))}"
        for name, of_roles in found.items()
        for role, rights in of_roles.items()
        if name in said and rights != said[name].get(role, none)
    ]
    return sorted(unsaid + gone + wrong)


@pytest.fixture
async def anybody(each_dsn: str) -> AsyncIterator[str]:
    try:
        await query(each_dsn, f"create role {NOBODY} login")
        yield each_dsn
    finally:
        await query(each_dsn, f"drop role {NOBODY}")


async def test_each_role_has_exactly_the_rights_on_the_page_and_other_roles_have_no_rights(anybody: str) -> None:
    assert differences(await rights_in(anybody)) == []


async def test_an_object_without_grants_is_reported_and_only_the_owner_may_use_it(
    anybody: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a release that brings a function, a table, a view and a sequence, without their grants
    text = (
        "create function shardclock.later_function() returns integer language sql as 'select 1';"
        "create table shardclock.later_table (); create view shardclock.later_view as select 1;"
        "create sequence shardclock.later_seq;"
    )
    with_later = (*steps(), SqlScript("0099_later", text))
    monkeypatch.setattr(module, "steps", lambda: with_later)

    # When one of the owner's members brings the schema up to date
    await migrate(as_role(anybody, "owner"))

    # Then the owner owns all these objects, no other role may use them, and each object is reported.
    owners = "select distinct pg_get_userbyid(relowner) from pg_class where relname like 'later%'"
    assert [row[0] for row in await query(anybody, owners)] == ["shardclock_owner"]
    found = await rights_in(anybody)
    later = ["later_function", "later_seq", "later_table", "later_view"]
    assert differences(found) == [f"{it} has no line in docs/operate/security.md, or sql/roles.sql" for it in later]
    assert {right for name in later for right in found[name].values()} == {frozenset()}


async def test_objects_that_the_owner_creates_manually_are_not_public(anybody: str) -> None:
    await query(
        as_role(anybody, "owner"), "create function shardclock.by_hand() returns integer language sql as 'select 1'"
    )

    assert set((await rights_in(anybody))["by_hand"].values()) == {frozenset()}


async def test_a_manually_granted_right_is_revoked(anybody: str) -> None:
    await query(anybody, "grant all on shardclock.timers, shardclock.identity to public, shardclock_reader")
    await query(anybody, "grant execute on function shardclock.adopt to public")

    assert await migrate(anybody) == MigrationResult()

    assert differences(await rights_in(anybody)) == []


async def test_a_right_that_was_granted_to_a_login_and_passed_on_is_revoked(anybody: str) -> None:
    await query(anybody, f"grant usage, create on schema shardclock to {NOBODY}")
    await query(anybody, "grant all on shardclock.timers to shardclock_reader with grant option")
    await query(as_role(anybody, "reader"), f"grant delete on shardclock.timers to {NOBODY}")
    await query(anybody, f"grant update (due_date), select on shardclock.timers to {NOBODY}")
    await query(anybody, f"grant update (state) on shardclock.timer_history to {NOBODY}")
    await query(anybody, f"grant all on sequence shardclock.position_seq to {NOBODY}")
    await query(anybody, f"grant execute on function shardclock.adopt to {NOBODY}")

    assert await migrate(anybody) == MigrationResult()

    assert differences(await rights_in(anybody)) == []
    columns = "select c.relname from pg_attribute a join pg_class c on c.oid = a.attrelid where a.attacl::text ~ $1"
    assert await query(anybody, columns, NOBODY) == []


async def test_a_schema_without_the_roles_also_gives_the_public_no_rights(each_dsn: str) -> None:
    await query(each_dsn, "drop schema shardclock cascade")
    await migrate(each_dsn)

    functions = f"select called from ({OBJECTS}) o where kind = 'function'"
    public = f"select called from ({functions}) o where has_function_privilege('public', called, 'execute')"
    assert await query(each_dsn, public) == []
    assert not await value(each_dsn, "select has_schema_privilege('public', 'shardclock', 'usage')")


async def test_the_script_for_a_dba_gives_the_same_rights(anybody: str) -> None:
    await query(anybody, "drop schema shardclock cascade")
    connection = await asyncpg.connect(anybody)
    try:
        await connection.execute(as_script(roles=True))
    finally:
        await connection.close()

    assert differences(await rights_in(anybody)) == []
    assert await migrate(as_role(anybody, "owner")) == MigrationResult()


@pytest.fixture
async def tenant(postgres: Callable[[int], Server]) -> AsyncIterator[str]:
    """Return the DSN of an empty database; its owner is not a superuser, and may make roles."""
    server = postgres(18)
    clone, name = server.clone(), f"tenant_{uuid4().hex}"
    user = clone.replace("//postgres:@", f"//{name}:@").replace(clone.partition("?")[0].rpartition("/")[2], name)
    try:
        await query(clone, f"create role {name} login createrole")
        await query(clone, f"create database {name} owner {name}")
        # Another role created the test server's roles, because the creator of a role would have this right.
        await query(clone, f"grant shardclock_owner to {name} with admin option")
        yield user
    finally:
        await query(clone, f"drop database if exists {name} with (force)")
        await query(clone, f"drop role {name}")
        server.drop(clone)


async def test_a_database_owner_that_is_not_a_superuser_can_make_and_renew_the_roles(tenant: str) -> None:
    assert (await migrate(tenant, roles=True)).steps == tuple(step.name for step in steps())

    assert await migrate(tenant) == MigrationResult()

    assert await migrate(as_role(re.sub(r"//\w+:", "//postgres:", tenant), "owner")) == MigrationResult()
    owners = "select distinct pg_get_userbyid(relowner) from pg_class where relnamespace = 'shardclock'::regnamespace"
    assert [row[0] for row in await query(tenant, owners)] == ["shardclock_owner"]


async def test_an_object_that_a_superuser_adds_gets_the_owner_of_the_schema(
    tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await migrate(tenant)
    with_later = (*steps(), SqlScript("0099_later", "create table shardclock.later ();"))
    monkeypatch.setattr(module, "steps", lambda: with_later)

    assert await migrate(re.sub(r"//\w+:", "//postgres:", tenant)) == MigrationResult(("0099_later",))

    owners = "select count(distinct relowner) from pg_class where relnamespace = 'shardclock'::regnamespace"
    assert await value(tenant, owners) == 1


async def test_a_role_without_the_right_to_make_roles_is_refused(each_dsn: str) -> None:
    with pytest.raises(StatementRefused, match="permission denied"):
        await migrate(as_role(each_dsn, "scheduler"), roles=True)


# Rights that no other test uses as this role


async def test_a_consumer_works_and_moves_its_position_and_can_neither_schedule_nor_delete_groups(
    each_dsn: str,
) -> None:
    keys = await add_timers(each_dsn, 3)
    await query(each_dsn, "select shardclock.cancel_timer(timer_key) from shardclock.timers")
    found: list[int] = []

    async def work(connection: Connection, records: Sequence[LogRecord]) -> None:
        found.extend(record.timer_key for record in records)

    async with session(each_dsn, "consumer") as member:
        assert await consume_once(member, "billing", work) == 3
        for text in (
            "select shardclock.schedule_timer(delay => 'PT1H')",
            "select count(*) from shardclock.timers",
            "delete from shardclock.consumers",
            "update shardclock.consumers set group_name = 'gone'",
            "update shardclock.consumers set partition = 1, partitions = 2",
            "update shardclock.records_aside set position = 1",
            "delete from shardclock.command_log",
        ):
            await refused(member, text)
    assert sorted(found) == keys


async def test_the_scheduler_role_can_write_timers_and_neither_lead_nor_change_the_past(each_dsn: str) -> None:
    async with session(each_dsn, "scheduler") as client:
        async with client.connection() as connection:
            await connection.execute("insert into shardclock.timers (due_date) values (now() + interval '1 hour')")
        for text in (
            "update shardclock.scale set wanted = 9",
            "update shardclock.holders set ended_at = now()",
            "update shardclock.command_log set intent = 'TRIGGERED'",
            "delete from shardclock.command_log",
            "truncate shardclock.timers",
            "insert into shardclock.timers (due_date, period_us) values (now(), 1)",
            "update shardclock.identity set name = 'mine'",
        ):
            await refused(client, text)


async def test_the_shard_role_can_create_partitions_of_the_log_and_no_other_objects(each_dsn: str) -> None:
    day = await value(each_dsn, "select max(relname) from pg_class where relname ~ '^command_log_[0-9]{8}$'")
    await query(each_dsn, f"drop table shardclock.{day}")
    async with session(each_dsn, "shard") as keeper:
        assert await ensure_log_partitions(keeper) == 1
        for text in (
            f"drop table shardclock.{day}",
            "create table shardclock.mine ()",
            "truncate shardclock.command_log",
        ):
            await refused(keeper, text)
    assert (
        await value(each_dsn, f"select pg_get_userbyid(relowner) from pg_class where relname = '{day}'")
        == "shardclock_owner"
    )


async def test_the_reader_role_can_not_write(each_dsn: str) -> None:
    async with session(each_dsn, "reader") as reader:
        assert await async_reading.read_log(reader, 0) == []
        for text in ("select shardclock.schedule_timer(delay => 'PT1H')", "delete from shardclock.timers"):
            await refused(reader, text)


ACTS = (
    "open_group", "reset_group", "redrive_dead_letters", "discard_dead_letters", "lock_delivery", "cancel_delivery",
    "retry_delivery", "retry_deliveries", "end_of_page", "closed_target", "change_system_timer",
)  # fmt: skip


async def test_a_gateway_has_the_rights_of_a_scheduler_and_those_for_the_api(anybody: str) -> None:
    found = await rights_in(anybody)
    more = {name: of["gateway"] - of["scheduler"] for name, of in found.items() if of["gateway"] != of["scheduler"]}

    assert [name for name, of in found.items() if not of["scheduler"] <= of["gateway"]] == []
    assert more == {
        "api_keys": {"select"},
        "idempotent_requests": {"select", "insert", "update"},
        "console_sessions": {"select", "insert", "delete"},
        "operations": {"delete"},
        **{name: {"insert", "delete"} for name in ("consumers", "records_aside", "dead_letters")},
        "business_keys": {"delete"},
        "endpoints": {"select", "insert", "update", "delete"},
        "endpoint_attempts": {"insert", "update", "delete"},
        "event_subscriptions": {"select", "insert", "update", "delete"},
        "event_throttles": {"select"},
        "operator_events": {"insert"},
        "tenants": {"insert", "update", "delete"},
        "audit": {"select"},
        **{name: {"update"} for name in ("coordination", "identity", "position_seq", "scale")},
        **{name: {"execute"} for name in ACTS},
        "find_requests": {"execute"},
        "forget_requests": {"execute"},
        "request_slot": {"execute"},
    }
    async with session(anybody, "gateway") as gateway:
        gateway.serve(frozenset({"default"}))
        async with gateway.connection() as connection:
            await connection.execute("select shardclock.schedule_timer(delay => 'PT1H')")
            await connection.fetch("select tenant_id, name, url from shardclock.endpoints")
        for text in (
            "update shardclock.api_keys set scopes = '{admin}'",
            "update shardclock.operations set role = 'x'",
            "insert into shardclock.operation_pages (operation_id, page, role, keys) values (1, 1, 'x', '{1}')",
            "delete from shardclock.idempotent_requests",
            "truncate shardclock.idempotent_requests",
            "truncate shardclock.idempotent_requests_0",
            "insert into shardclock.timers (due_date, period_us) values (now(), 1)",
        ):
            await refused(gateway, text)


def test_the_page_names_the_role_that_each_command_needs() -> None:
    (section,) = re.findall(r"^## Roles and rights\n(.*?)^## ", PAGE, re.MULTILINE | re.DOTALL)
    said = {
        role: set(re.findall(r"`([a-z-]+)`", commands))
        for role, commands in re.findall(r"^\| `shardclock_(\w+)` \|[^|]*\|([^|]*)\|$", section, re.MULTILINE)
    }
    assert said.keys() == set(ROLES)
    assert {role: set(commands) for role, commands in COMMANDS.items()} == {role: it for role, it in said.items() if it}


HOUR = {"delay": "PT1H"}
ASKED: dict[str, Callable[[Session], Awaitable[object]]] = {
    "schedule": lambda it: schedule_timers(it, Drawn((1, 2), datetime.now(UTC)), [NewTimer.from_fields(HOUR)] * 2),
    "cancel": lambda it: cancel_timer(it, TimerRef(timer_key=1)),
    "cancel many": lambda it: cancel_timers(it, [1]),
    "find": lambda it: find_timers(it, "PENDING", TimerFilter()),
}


@pytest.mark.shared_database
@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
async def test_a_missing_right_is_not_the_fault_of_the_request(
    dsn: str, ask: Callable[[Session], Awaitable[object]]
) -> None:
    async with session(dsn, "consumer") as client:
        with pytest.raises(StatementRefused, match="permission denied for"):
            await ask(client)


async def refused(asked: Session, text: str) -> None:
    """Check that Postgres refuses a statement because of a missing right."""
    with pytest.raises(StatementRefused) as refusal:
        async with asked.connection() as connection:
            await connection.execute(text, timeout=BOUND_S)
    assert refusal.value.sqlstate == "42501", f"{text}: {refusal.value}"
