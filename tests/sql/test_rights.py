"""Prove that the error for a role with too few rights names the missing grants, and that these grants are enough."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest

from shardclock_server.metrics.tables import read_tables
from shardclock_server.shards.settings import ShardSettings
from shardclock_server.shards.shard import Shard
from shardclock_server.sql.cluster.holders import SHARD, Incarnation, list_holders, register_holder
from shardclock_server.sql.cluster.rights import LacksRights, require_rights
from shardclock_server.sql.log.partitions import drop_log_partition, ensure_log_partitions
from shardclock_server.sql.migrate import require_current
from shardclock_server.sql.session import Session
from tests.support.cli_asserts import NOT_THERE, assert_refused
from tests.support.factories import add_holder, add_schedule, add_timers, intents, query, value
from tests.support.program import Shell
from tests.support.roles import as_role
from tests.support.shard_pool import incarnation

ROLE = "test_stranger"


@pytest.fixture
async def stranger(dsn: str) -> AsyncIterator[str]:
    """Return the DSN of a database for a role that may only log in."""
    await query(dsn, f"create role {ROLE} login")
    await query(dsn, "revoke all on schema shardclock from public")
    await query(dsn, "revoke all on all functions in schema shardclock from public")
    try:
        yield re.sub("//[a-z_]+:?@", f"//{ROLE}:@", dsn)
    finally:
        await query(dsn, f"drop owned by {ROLE}")
        await query(dsn, f"drop role {ROLE}")


async def lacks(dsn: str) -> str:
    async with Session(dsn, application="test") as session:
        try:
            await require_rights(session)
        except LacksRights as error:
            return str(error)
    return ""


def told_grants(told: str) -> list[str]:
    return re.findall(r"((?:usage|select|insert|update|delete|execute)[a-z, ]* on [a-z_. ]+?)(?= to |;|$)", told)


async def group_exists(dsn: str) -> bool:
    return bool((await query(dsn, "select to_regrole('shardclock_shard') is not null"))[0][0])


async def test_the_role_that_created_the_schema_has_all_rights(dsn: str) -> None:
    assert await lacks(dsn) == ""


async def test_a_member_of_the_shards_role_has_all_rights_and_members_of_other_roles_lack_some(dsn: str) -> None:
    assert await lacks(as_role(dsn, "shard")) == ""
    for other in ("scheduler", "consumer", "reader"):
        assert "`grant shardclock_shard to test_" in await lacks(as_role(dsn, other))


async def test_the_error_names_each_missing_grant_and_with_these_the_role_works(dsn: str, stranger: str) -> None:
    told = await lacks(stranger)
    assert told.startswith(f"role {ROLE} may not run shards: `grant ")
    for grant in told_grants(told):
        await query(dsn, f"grant {grant} to {ROLE}")

    assert await lacks(stranger) == ""
    async with Session(stranger, application="test") as session:
        await require_current(session)
        await register_holder(session, Incarnation(1, SHARD, "test", "test", "node", "host", 1))
        assert len(await list_holders(session)) == 1
        assert await drop_log_partition(session, keep_days=7) is None
        assert await ensure_log_partitions(session) == 0
        assert (await read_tables(session, None)).groups == []


async def test_with_the_named_grants_a_shard_fires_timers_and_schedules(dsn: str, stranger: str) -> None:
    for grant in told_grants(await lacks(stranger)):
        await query(dsn, f"grant {grant} to {ROLE}")
    shard = Shard(incarnation(), ShardSettings(), stranger)
    await add_holder(dsn, shard.holder, 0, 1)
    await shard.beat_turn()
    plain, leased = await add_timers(dsn, 1), await add_timers(dsn, 1, "now() + interval '0.5 s'")
    repeat = await add_schedule(dsn)
    await query(
        dsn, "alter sequence shardclock.timer_key_seq restart with 1"
    )  # as after a failover: all keys are in use

    while shard.stats.fired < 3:
        await shard.claim_turn()
        while len(shard):
            await shard.fire_turn()
    await shard._hand_back()

    assert {key for key, _ in await intents(dsn)} == {*plain, *leased, repeat}
    assert await value(dsn, "select count(*) from shardclock.timers") == 1, "the next occurrence"


# Other rights of `shardclock_shard`, for readers and operators; no process of `up` uses them.
NOT_FOR_UP = {
    "delete on shardclock.consumers",
    "delete on shardclock.dead_letters",
    "delete on shardclock.endpoints",
    "delete on shardclock.event_subscriptions",
    "delete on shardclock.operation_pages",
    "delete on shardclock.records_aside",
    "delete on shardclock.tenants",
    "insert on shardclock.event_subscriptions",
    "select on shardclock.operation_pages",
    "select on shardclock.operations",
    "update on shardclock.event_subscriptions",
    "execute on function shardclock.cancel_delivery",
    "execute on function shardclock.cancel_job",
    "execute on function shardclock.check_due_date",
    "execute on function shardclock.check_one_timer",
    "execute on function shardclock.clock_of",
    "execute on function shardclock.configure_job",
    "execute on function shardclock.count_timers",
    "execute on function shardclock.filtered_timers",
    "execute on function shardclock.delay_from_now",
    "execute on function shardclock.disable_job",
    "execute on function shardclock.discard_dead_letters",
    "execute on function shardclock.enable_job",
    "execute on function shardclock.end_of_pause",
    "execute on function shardclock.ended_as",
    "execute on function shardclock.find_keys",
    "execute on function shardclock.closed_target",
    "execute on function shardclock.find_timers",
    "execute on function shardclock.is_of_system",
    "execute on function shardclock.judged_duration",
    "execute on function shardclock.shown",
    "execute on function shardclock.later",
    "execute on function shardclock.lock_delivery",
    "execute on function shardclock.move_timers",
    "execute on function shardclock.named_clock",
    "execute on function shardclock.change_system_timer",
    "execute on function shardclock.parse_delay",
    "execute on function shardclock.pause_rows",
    "execute on function shardclock.pending_key",
    "execute on function shardclock.plain_length",
    "execute on function shardclock.record_act",
    "execute on function shardclock.redrive_dead_letters",
    "execute on function shardclock.reset_group",
    "execute on function shardclock.checked_text",
    "execute on function shardclock.missed_choice",
    "execute on function shardclock.retry_deliveries",
    "execute on function shardclock.retry_delivery",
    "execute on function shardclock.run_job",
    "execute on function shardclock.shift_length",
    "execute on function shardclock.to_utc",
    "insert on shardclock.consumers",
    "insert on shardclock.endpoints",
    "insert on shardclock.records_aside",
    "insert on shardclock.tenants",
    "select on shardclock.audit",
    "select on shardclock.log_ends",
    "select on shardclock.log_times",
    "select on shardclock.tenants",
    "select on shardclock.timer_history",
    "select on shardclock.zones",
    "update on sequence shardclock.position_seq",
    "update on shardclock.consumers",
    "update on shardclock.records_aside",
    "update on shardclock.tenants",
    "usage on sequence shardclock.paused_seq",
    "usage on sequence shardclock.rescheduled_seq",
}
GRANTED = """
    select lower(a.privilege_type) || ' on ' || case c.relkind when 'S' then 'sequence ' else '' end
        || 'shardclock.' || c.relname
    from pg_class c, aclexplode(c.relacl) a
    where c.relnamespace = 'shardclock'::regnamespace and a.grantee = 'shardclock_shard'::regrole
    union
    select 'execute on function shardclock.' || p.proname
    from pg_proc p, aclexplode(p.proacl) a
    where p.pronamespace = 'shardclock'::regnamespace and a.grantee = 'shardclock_shard'::regrole
    union
    select lower(a.privilege_type) || ' on schema shardclock'
    from pg_namespace n, aclexplode(n.nspacl) a
    where n.nspname = 'shardclock' and a.grantee = 'shardclock_shard'::regrole
"""


async def test_a_start_of_up_checks_all_rights_that_the_shards_role_needs(dsn: str, stranger: str) -> None:
    asked = {
        f"{right} on {grant.partition(' on ')[2]}"
        for grant in told_grants(await lacks(stranger))
        for right in grant.partition(" on ")[0].split(", ")
    }
    granted = {row[0] for row in await query(dsn, GRANTED)}

    assert asked == granted - NOT_FOR_UP
    assert granted >= NOT_FOR_UP


@pytest.mark.parametrize(
    ("right", "on"),
    [("delete", "shardclock.timers"), ("insert", "shardclock.command_log"), ("update", "shardclock.coordination"),
     ("usage", "schema shardclock"), ("usage", "sequence shardclock.position_seq"),
     ("execute", "function shardclock.late_since"), ("execute", "function shardclock.drop_log_partition")],
)  # fmt: skip
async def test_a_single_missing_right_is_named(dsn: str, stranger: str, right: str, on: str) -> None:
    for kind in ("tables", "sequences", "functions"):
        await query(dsn, f"grant all on all {kind} in schema shardclock to {ROLE}")
    await query(dsn, f"grant all on schema shardclock to {ROLE}")
    assert await lacks(stranger) == ""

    await query(dsn, f"revoke {right} on {on} from {ROLE}")

    assert f"{right} on {on}" in await lacks(stranger)


async def test_a_group_role_with_the_missing_rights_is_named_if_it_exists(dsn: str, stranger: str) -> None:
    made = not await group_exists(dsn)
    if made:
        await query(dsn, "create role shardclock_shard nologin")
    try:
        assert f"`grant shardclock_shard to {ROLE}` lets it" in await lacks(stranger)
    finally:
        if made:
            await query(dsn, "drop role shardclock_shard")


async def test_without_a_schema_only_the_schema_is_missing(dsn: str, stranger: str) -> None:
    await query(dsn, "drop schema shardclock cascade")

    assert await lacks(stranger) == "", "the message is about the schema"


def test_up_ends_with_the_sentence_and_other_commands_name_the_roles(
    dsn: str, stranger: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shell = Shell(stranger, capsys)

    assert_refused(shell("up"), f"role {ROLE} may not run shards", "grant ", code=NOT_THERE)
    assert "grant a group role: shardclock_reader reads" in shell("status").err
