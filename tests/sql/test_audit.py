"""Prove that the audit only grows and names the login role, and that old records are deleted."""

from __future__ import annotations

import pytest

from shardclock_server.sql.audit.acts import NewAuditRecord, list_acts, record_act
from shardclock_server.sql.session import StatementRefused
from tests.support.factories import query, value
from tests.support.sql_client import session

ACT = NewAuditRecord("cli", "tenants set", {"tenant": "acme"}, tenant_id="acme")
AGE = "update shardclock.audit set recorded_at = now() - $2::integer * interval '1 day' where act_id = any ($1)"


@pytest.mark.parametrize("role", ["owner", "shard", "scheduler", "gateway"])
async def test_a_record_has_the_login_role_and_no_name_from_the_program(each_dsn: str, role: str) -> None:
    async with session(each_dsn, role) as operator:
        number = await record_act(operator, ACT, "done")
    async with session(each_dsn, "shard") as reader:
        (act,) = await list_acts(reader, limit=10)
    assert (act.act_id, act.role, act.interface, act.verb) == (number, f"test_{role}", "cli", "tenants set")
    assert (act.tenant_id, act.parameters, act.outcome, act.key_prefix) == ("acme", '{"tenant": "acme"}', "done", None)


@pytest.mark.parametrize("role", ["shard", "scheduler", "gateway"])
async def test_only_the_owner_can_change_a_record_or_write_a_record_in_sql(dsn: str, role: str) -> None:
    async with session(dsn, role) as operator:
        await record_act(operator, ACT, "done")
        for text in (
            "update shardclock.audit set outcome = 'not done'",
            "delete from shardclock.audit",
            "truncate shardclock.audit",
            "insert into shardclock.audit (role, verb, parameters, outcome) values ('a', 'v', '{}', 'x')",
        ):
            with pytest.raises(StatementRefused, match="permission denied"):
                async with operator.connection() as connection:
                    await connection.execute(text)
    assert await value(dsn, "select count(*) from shardclock.audit") == 1


@pytest.mark.shared_database
@pytest.mark.parametrize("role", ["consumer", "reader"])
async def test_roles_without_the_operators_rights_can_neither_write_nor_read_records(dsn: str, role: str) -> None:
    async with session(dsn, role) as other:
        with pytest.raises(StatementRefused, match="permission denied"):
            await record_act(other, ACT, "done")
        with pytest.raises(StatementRefused, match="permission denied"):
            await list_acts(other, limit=1)


async def test_each_new_record_deletes_some_records_that_are_older_than_400_days(each_dsn: str) -> None:
    async with session(each_dsn, "shard") as operator:
        numbers = [await record_act(operator, ACT, "done") for _ in range(4)]
        await query(each_dsn, AGE, numbers[:3], 401)
        await query(each_dsn, AGE, numbers[3:], 399)

        last = await record_act(operator, ACT, "done")

        assert [act.act_id for act in await list_acts(operator, limit=10)] == [last, numbers[3]]


async def test_at_most_a_hundred_old_records_are_deleted_at_once(dsn: str) -> None:
    async with session(dsn, "shard") as operator:
        await record_act(operator, ACT, "done")
        old = "now() - interval '500 days', 'r', 'cli', 'v', '{}', 'done'"
        columns = "recorded_at, role, interface, verb, parameters, outcome"
        await query(dsn, f"insert into shardclock.audit ({columns}) select {old} from generate_series(1, 250)")
        left = []
        for _ in range(3):
            await record_act(operator, ACT, "done")
            left.append(await value(dsn, "select count(*) from shardclock.audit"))
    assert left == [250 + 2 - 100, 250 + 3 - 200, 4]


@pytest.mark.shared_database
@pytest.mark.parametrize(
    ("act", "outcome", "rule"),
    [
        (NewAuditRecord("web", "v", {}), "done", "interface_is_known"),
        (NewAuditRecord("cli", "v", {}), "perhaps", "outcome_is_known"),
        (NewAuditRecord("cli", "", {}), "done", "verb_is_1_to_100_characters"),
        (NewAuditRecord("cli", "v", {"name": "x" * 20_000}), "done", "parameters_are_a_short_object"),
        (NewAuditRecord("cli", "v", {}, address="x" * 201), "done", "texts_are_short"),
    ],
    ids=lambda it: it if isinstance(it, str) else "",
)
async def test_an_invalid_record_is_refused(dsn: str, act: NewAuditRecord, outcome: str, rule: str) -> None:
    async with session(dsn, "shard") as operator:
        with pytest.raises(StatementRefused, match=rule):
            await record_act(operator, act, outcome)
