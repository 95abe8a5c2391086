"""Prove that the audit can be appended to and not changed, that it says who logged in, and that it forgets."""

from __future__ import annotations

import pytest

from shardclock_server.sql.audit.acts import NewAct, list_acts, record_act
from shardclock_server.sql.session import StatementRefused
from tests.support.factories import query, value
from tests.support.sql_client import session

ACT = NewAct("cli", "tenants set", {"tenant": "acme"}, tenant_id="acme")
AGE = "update shardclock.audit set recorded_at = now() - $2::integer * interval '1 day' where act_id = any ($1)"


@pytest.mark.parametrize("role", ["owner", "shard", "scheduler", "gateway"])
async def test_a_record_has_the_role_that_logged_in_whatever_the_program_says(each_dsn: str, role: str) -> None:
    async with session(each_dsn, role) as operator:
        number = await record_act(operator, ACT, "done")
    async with session(each_dsn, "shard") as reader:
        (act,) = await list_acts(reader, limit=10)
    assert (act.act_id, act.role, act.interface, act.verb) == (number, f"test_{role}", "cli", "tenants set")
    assert (act.tenant_id, act.what, act.outcome, act.key_prefix) == ("acme", '{"tenant": "acme"}', "done", None)


@pytest.mark.parametrize("role", ["shard", "scheduler", "gateway"])
async def test_nobody_but_the_owner_changes_a_record_or_writes_one_by_hand(dsn: str, role: str) -> None:
    async with session(dsn, role) as operator:
        await record_act(operator, ACT, "done")
        for text in (
            "update shardclock.audit set outcome = 'not done'",
            "delete from shardclock.audit",
            "truncate shardclock.audit",
            "insert into shardclock.audit (role, interface, verb, what, outcome) values ('a', 'cli', 'v', '{}', 'x')",
        ):
            with pytest.raises(StatementRefused, match="permission denied"):
                async with operator.connection() as connection:
                    await connection.execute(text)
    assert await value(dsn, "select count(*) from shardclock.audit") == 1


@pytest.mark.parametrize("role", ["consumer", "reader"])
async def test_who_does_nothing_records_and_reads_nothing(dsn: str, role: str) -> None:
    async with session(dsn, role) as other:
        with pytest.raises(StatementRefused, match="permission denied"):
            await record_act(other, ACT, "done")
        with pytest.raises(StatementRefused, match="permission denied"):
            await list_acts(other, limit=1)


async def test_each_record_forgets_some_that_are_older_than_400_days_and_no_others(each_dsn: str) -> None:
    async with session(each_dsn, "shard") as operator:
        numbers = [await record_act(operator, ACT, "done") for _ in range(4)]
        await query(each_dsn, AGE, numbers[:3], 401)
        await query(each_dsn, AGE, numbers[3:], 399)

        last = await record_act(operator, ACT, "done")

        assert [act.act_id for act in await list_acts(operator, limit=10)] == [last, numbers[3]]


async def test_of_many_that_are_too_old_a_hundred_are_forgotten_at_once(dsn: str) -> None:
    async with session(dsn, "shard") as operator:
        await record_act(operator, ACT, "done")
        old = "now() - interval '500 days', 'r', 'cli', 'v', '{}', 'done'"
        columns = "recorded_at, role, interface, verb, what, outcome"
        await query(dsn, f"insert into shardclock.audit ({columns}) select {old} from generate_series(1, 250)")
        left = []
        for _ in range(3):
            await record_act(operator, ACT, "done")
            left.append(await value(dsn, "select count(*) from shardclock.audit"))
    assert left == [250 + 2 - 100, 250 + 3 - 200, 4]


@pytest.mark.parametrize(
    ("act", "outcome", "rule"),
    [
        (NewAct("web", "v", {}), "done", "interface_is_known"),
        (NewAct("cli", "v", {}), "perhaps", "outcome_is_known"),
        (NewAct("cli", "", {}), "done", "verb_is_1_to_100_characters"),
        (NewAct("cli", "v", {"name": "x" * 20_000}), "done", "what_is_a_short_object"),
        (NewAct("cli", "v", {}, address="x" * 201), "done", "texts_are_short"),
    ],
    ids=lambda it: it if isinstance(it, str) else "",
)
async def test_a_record_that_can_not_be_is_refused(dsn: str, act: NewAct, outcome: str, rule: str) -> None:
    async with session(dsn, "shard") as operator:
        with pytest.raises(StatementRefused, match=rule):
            await record_act(operator, act, outcome)
