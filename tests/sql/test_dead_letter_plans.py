"""Prove that a search for the oldest dead letters reads no other dead letters."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from shardclock_server.sql.deliveries import dead_letters
from shardclock_server.sql.deliveries.dead_letters import (
    DeadLetterFilter,
    count_dead_letters_by_target,
    find_dead_letter_keys,
    find_dead_letters,
    group_dead_letters,
)
from shardclock_server.sql.session import EACH_TIME
from tests.support.deliveries import HANDLER, bury
from tests.support.factories import query
from tests.support.plans import arguments_of, prepare
from tests.support.sql_client import session as session_of

MANY = 5_000


@pytest.fixture
async def full(each_dsn: str) -> str:
    """Make many dead letters, one second apart; the oldest has the largest key."""
    await bury(each_dsn, MANY)
    text = "update shardclock.dead_letters set died_at = timestamptz '2031-01-01 00:00Z' - timer_key * interval '1 s'"
    await query(each_dsn, text)
    await query(each_dsn, "analyze shardclock.dead_letters")
    return each_dsn


async def test_a_page_reads_no_more_rows_than_it_returns(full: str) -> None:
    find = await prepare(full, "find_dead_letter_keys", **EACH_TIME)
    behind = f"'2031-01-01 00:00Z'::timestamptz - {MANY // 2} * interval '1 s'"
    nothing = ["null"] * 5

    first = await find.explain(*nothing, "null", "null", "10", touched=True, table="dead_letters")
    later = await find.explain(*nothing, behind, str(MANY // 2), "10", touched=True, table="dead_letters")

    for reading in (first, later):
        assert reading.rows <= 11
        assert reading.indexes == {"dead_letters_in_order"}
    await find.connection.close()


async def test_a_page_begins_after_the_last_one_and_ends_before_a_given_moment(full: str) -> None:
    until = DeadLetterFilter(died_before=datetime(2031, 1, 1, tzinfo=UTC))
    async with session_of(full, "shard") as session:
        first = await find_dead_letter_keys(session, until, limit=2)
        second = await find_dead_letter_keys(session, until, limit=2, after=first[-1].cursor)
        none = await find_dead_letter_keys(session, DeadLetterFilter(died_before=first[0].died_at), limit=2)

    assert [it.timer_key for it in (*first, *second)] == [MANY, MANY - 1, MANY - 2, MANY - 3]
    assert none == []


async def test_the_newest_dead_letters_are_grouped_by_target_and_first_line_of_the_reason(
    full: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = """
        update shardclock.dead_letters
        set reason = case
                when timer_key % 10 = 0 then E'it answered 503\nbusy ' || timer_key
                else 'order ' || 10000 + timer_key || ' of ' || md5(timer_key::text)
                    || ': no answer (attempt ' || timer_key || ' of 1)'
            end,
            target = case when timer_key % 2 = 0 then 'webhook:a' else 'webhook:b' end
    """
    await query(full, text)
    async with session_of(full, "shard") as session:
        found = await group_dead_letters(session, tenant_id="acme")
        of_b = await group_dead_letters(session, target="webhook:b")
        others = await group_dead_letters(session, tenant_id="umbrella")
        monkeypatch.setattr(dead_letters, "GROUPED_MAX", 100)
        newest = await group_dead_letters(session)
        letters, _ = await find_dead_letters(session, DeadLetterFilter(reason_line="it answered 503"), limit=3)
        keys = await find_dead_letter_keys(session, DeadLetterFilter(reason_line="it answered 503"), limit=3)
        one_reason = DeadLetterFilter(reason_line="order 77777 of 0123abcd: no answer (attempt 9 of 1)")
        same = await find_dead_letter_keys(session, one_reason, limit=3)

    assert [(it.target, it.reason_line, it.dead_letters) for it in found.groups] == [
        ("webhook:b", "order # of #: no answer", MANY // 2),
        ("webhook:a", "order # of #: no answer", MANY * 4 // 10),
        ("webhook:a", "it answered 503", MANY // 10),
    ]
    assert (found.counted, found.is_all) == (MANY, True)
    assert (found.groups[2].last_at - found.groups[2].since).total_seconds() == MANY - 10
    assert [it.dead_letters for it in of_b.groups] == [MANY // 2]
    assert others == ([], 0, True)
    assert (newest.counted, newest.is_all, sum(it.dead_letters for it in newest.groups)) == (100, False, 100)
    assert [it.timer_key for it in letters] == [10, 20, 30]
    assert [it.timer_key for it in keys] == [MANY, MANY - 10, MANY - 20]
    assert [it.timer_key for it in same] == [MANY - 1, MANY - 2, MANY - 3]


async def test_a_group_across_tenants_has_the_dead_letters_of_all_tenants(dsn: str) -> None:
    await bury(dsn, 6)
    await query(
        dsn,
        """
        update shardclock.dead_letters
        set died_at = timestamptz '2031-01-01 00:00Z' + timer_key * interval '1 s', target = 'webhook:a',
            tenant_id = 'tenant-' || timer_key % 3, reason = case when timer_key < 3 then 'other' else 'no answer' end
        """,
    )

    async with session_of(dsn, "shard") as session:
        found = await group_dead_letters(session, across_tenants=True)
        of_each = await group_dead_letters(session)
        of_one = await group_dead_letters(session, tenant_id="tenant-1", across_tenants=True)

    assert [(it.reason_line, it.dead_letters, it.tenants, it.tenant_id) for it in found.groups] == [
        ("no answer", 4, 3, "tenant-0"), ("other", 2, 2, "tenant-2"),
    ]  # fmt: skip
    assert (found.groups[0].since.second, found.groups[0].last_at.second) == (3, 6)
    assert {it.tenants for it in of_each.groups} == {1}
    assert len(of_each.groups) == 5
    assert {(it.tenant_id, it.tenants) for it in of_one.groups} == {("tenant-1", 1)}


async def test_the_line_of_a_group_selects_the_letters_of_this_group(dsn: str) -> None:
    reasons = (
        "boom (attempt 1 of 2) (attempt 5 of 5)",
        "boom",
        "boom: -order-1234",
        "boom: order-1234 (attempt 10000 of 2)",
        "KeyError: customer_7",
        "KeyError: customer_12345678",
        "KeyError: cart-3 (attempt 2 of 2)",
        "not UTF-8",
        "not UTF-16",
        "HTTP-503",
        "HTTP-404",
        "status_404",
    )
    await bury(dsn, 10 * len(reasons))
    await query(dsn, "update shardclock.dead_letters set reason = ($1::text[])[1 + timer_key % 12]", reasons)

    async with session_of(dsn, "shard") as session:
        groups = (await group_dead_letters(session)).groups
        found = {
            it.reason_line: len(
                await find_dead_letter_keys(session, DeadLetterFilter(reason_line=it.reason_line), limit=99)
            )
            for it in groups
        }

    assert found == {it.reason_line: it.dead_letters for it in groups}
    assert found == {"boom": 20, "boom: #": 20, "KeyError: #": 30, "not UTF-8": 10, "not UTF-16": 10} | {
        "HTTP-503": 10, "HTTP-404": 10, "status_404": 10,
    }  # fmt: skip


async def test_a_long_reason_of_short_words_is_grouped_within_the_time_of_a_statement(dsn: str) -> None:
    await bury(dsn, 1)
    await query(dsn, "update shardclock.dead_letters set reason = repeat('a-', 100000) || 'b'")

    async with session_of(dsn, "shard") as session:
        (group,) = (await group_dead_letters(session)).groups

    assert group.dead_letters == 1


async def test_a_count_by_target_reads_one_row_for_each_target_and_the_counted_rows(full: str) -> None:
    await query(full, "update shardclock.dead_letters set target = 'b' where timer_key = any ($1)", [1, 2])
    await bury(full, 2, "a")
    await query(full, "update shardclock.dead_letters set tenant_id = 'other' where target = 'a'")
    await query(full, "vacuum analyze shardclock.dead_letters")
    count = await prepare(full, "count_dead_letters_by_target", **EACH_TIME)

    reading = await count.explain("'acme'", "50", "100", touched=True, table="dead_letters")

    async with session_of(full, "shard") as session:
        found = await count_dead_letters_by_target(session, "acme", targets_max=50, letters_max=100)
        first = await count_dead_letters_by_target(session, "acme", targets_max=1, letters_max=100)
    assert {target: it.dead_letters for target, it in found.items()} == {"b": 2, HANDLER: 100}
    assert (list(first), first["b"].since <= first["b"].last_at) == (["b"], True)
    assert reading.rows <= 114
    assert reading.indexes == {"dead_letters_by_tenant", "dead_letters_by_target"}
    await count.connection.close()


async def test_a_group_of_the_newest_dead_letters_reads_no_other_dead_letters(full: str) -> None:
    group = await prepare(full, "group_dead_letters", **EACH_TIME)

    for across in (False, True):
        asked = arguments_of(group.name, rows_max=100, groups_max=50, across_tenants=across)
        reading = await group.explain(*asked, touched=True, table="dead_letters")

        assert reading.rows <= 101
        assert reading.indexes == {"dead_letters_in_order"}
    await group.connection.close()
