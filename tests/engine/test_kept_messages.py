"""A kept message reaches exactly one waiting token, and never an ended token."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from unittest import mock

import pytest

from shardclock.api.codes import invalid
from shardclock_server.service import processes
from shardclock_server.sql.processes import instances
from shardclock_server.sql.processes.signals import correlate_waiting
from shardclock_server.sql.session import StatementRefused
from tests.support.bpmn import SHARED, model
from tests.support.bpmn_cluster import Processes, running
from tests.support.refusals import refusing

START, END = '<startEvent id="s"/>', '<endEvent id="e"/>'
RECEIVE = START + '<receiveTask id="r" messageRef="m"/>' + END
MONTH_S = 30 * 86_400.0
# In Postgres's notation the variables have nearly 1 MiB. An engine writes no spaces, so the variables fit into a state.
LARGE: Mapping[str, Any] = {"a": [1] * 349_513}
KEPT = """
    insert into shardclock.messages (message_key, expires_at, tenant_id, name, correlation, variables)
    values (nextval('shardclock.timer_key_seq'), now() + interval '30 days', $1, 'paid', $2, $3)
"""


async def publish(it: Processes, correlation: str, variables: Mapping[str, Any], kept_s: float) -> list[int]:
    return await instances.publish_message(
        it.session, "paid", correlation=correlation, variables=variables, tenant_id="default", time_to_live_s=kept_s
    )


async def test_a_message_of_the_largest_size_reaches_present_and_later_tokens() -> None:
    length = len(json.dumps({**LARGE, "b": ""}))
    largest = {**LARGE, "b": "x" * (1_048_576 - length)}
    async with running() as it:
        await it.deploy(RECEIVE, connected="s>r r>e", beside=SHARED)
        first = await it.start(order="42")
        assert await publish(it, "42", largest, MONTH_S) == [first]
        assert await publish(it, "7", largest, MONTH_S) == []
        later = await it.start(order="7")
        await it.settle()
        assert [await it.state(key) for key in (first, later)] == ["COMPLETED", "COMPLETED"]


async def test_a_message_that_is_too_large_for_a_signal_blocks_no_other_message() -> None:
    async with running() as it:
        await it.deploy(RECEIVE, connected="s>r r>e", beside=SHARED)
        others = model(RECEIVE, connected="s>r r>e", beside=SHARED)
        await processes.deploy(it.session, others, resource="p.bpmn", tenant_id="other")
        large, too_large = await it.start(order="1"), await it.start(order="2")
        other = await processes.start(it.session, "p", variables={"order": "3"}, tenant_id="other")
        await it.settle()
        for tenant_id, correlation, variables in (
            ("default", "1", LARGE),
            ("default", "2", {"a": "x" * 1_100_000}),  # inserted without the check of publish_message
            ("other", "3", {}),
        ):
            await it.query(KEPT, tenant_id, correlation, json.dumps(variables))

        await it.engine.maintenance_turn()
        await it.settle()

        states = [await it.state(key) for key in (large, too_large, other)]
        assert states == ["COMPLETED", "RUNNING", "COMPLETED"]


async def test_a_failed_maintenance_task_blocks_no_other_task() -> None:
    async with running() as it:
        await it.deploy(RECEIVE, connected="s>r r>e", beside=SHARED)
        await it.deploy(START + END, connected="s>e", process_id="ended")
        await processes.start(it.session, "ended", idempotency_key="once")
        await it.start(order="42")
        await publish(it, "7", {}, 3600.0)
        await it.advance("P8D")
        await it.query(KEPT, "default", "42", "{}")
        await it.query("alter function shardclock.correlate_waiting rename to gone")

        with pytest.raises(StatementRefused, match="correlate_waiting"):
            await it.engine.maintenance_turn()

        assert [found.process_id for found in await instances.find_instances(it.session)] == ["p"]
        assert await it.query("select correlation from shardclock.messages") == [{"correlation": "42"}]
        assert await it.query("select 1 from shardclock.process_starts") == []


async def test_a_message_is_kept_for_a_year_at_most() -> None:
    async with running() as it:
        await publish(it, "42", {}, 366 * 86_400.0)
        with refusing(invalid("time_to_live"), match="a message is kept for at most 366 days"):
            await publish(it, "42", {}, 366 * 86_400.0 + 1)
        assert len(await it.query("select 1 from shardclock.messages")) == 1


async def test_a_kept_message_is_not_overtaken_by_a_newer_message() -> None:
    async with running() as it:
        await it.deploy(START + BESIDE + END + '<endEvent id="f"/>', connected="s>t t>e b>n n>f", beside=SHARED)
        await it.deploy(RECEIVE, connected="s>r r>e", beside=SHARED, process_id="once")
        once = await processes.start(it.session, "once", variables={"order": "7"})
        often = await it.start(order="42", seen=[])
        await it.settle()
        # The tokens wait, but no engine has correlated kept messages yet.
        await it.query(KEPT, "default", "7", '{"i": 0}')
        await it.query(KEPT, "default", "42", '{"i": 0}')

        assert await publish(it, "7", {"i": 1}, 0.0) == [], "the waiting instance has received the older message"
        assert await publish(it, "42", {"i": 1}, 0.0) == [often]
        await it.settle()

        assert await it.state(once) == "COMPLETED"
        assert (await it.see(once)).result == {"order": "7", "i": 0}
        assert '"seen":[0,1]' in str((await it.see(often)).state)


async def test_a_message_to_an_ended_token_goes_to_the_next_waiting_token() -> None:
    async with running() as it:
        await it.deploy(RECEIVE, connected="s>r r>e", beside=SHARED)
        first = await it.start(order="42")
        assert await instances.cancel_instance(it.session, first) == "SENT"  # no engine has read the signal yet
        reached = await instances.publish_message(
            it.session, "paid", correlation="42", variables={}, tenant_id="default", time_to_live_s=3600
        )
        assert reached == [first]
        await it.settle()
        assert await it.state(first) == "CANCELED"

        second, third = await it.start(order="42"), await it.start(order="42")
        await it.engine.maintenance_turn()
        await it.settle()
        assert [await it.state(key) for key in (second, third)] == ["COMPLETED", "RUNNING"]


async def test_a_returned_message_is_not_overtaken_by_a_newer_message() -> None:
    async with running() as it:
        await it.deploy(RECEIVE, connected="s>r r>e", beside=SHARED)
        gone, second, third = [await it.start(order="42") for _ in range(3)]
        assert await instances.cancel_instance(it.session, gone) == "SENT"  # The engine has not polled yet.
        assert await publish(it, "42", {"i": 1}, MONTH_S) == [gone]
        assert await publish(it, "42", {"i": 2}, MONTH_S) == [second]
        await it.settle()
        assert [await it.state(key) for key in (gone, second, third)] == ["CANCELED", "COMPLETED", "RUNNING"]

        # The first message is kept again, but no engine has correlated kept messages yet.
        assert await publish(it, "42", {"i": 3}, 0.0) == []
        await it.settle()

        assert (await it.see(third)).result == {"order": "42", "i": 1}


async def test_a_message_that_two_processes_return_can_reach_both_processes_again() -> None:
    async with running() as it:
        keys = []
        for process_id in ("p", "q"):
            await it.deploy(RECEIVE, connected="s>r r>e", beside=SHARED, process_id=process_id)
            keys.append(await processes.start(it.session, process_id, variables={"order": "42"}))
        await it.settle()
        for key in keys:
            assert await instances.cancel_instance(it.session, key) == "SENT"
        assert sorted(await publish(it, "42", {"i": 1}, MONTH_S)) == sorted(keys)
        await it.settle()

        later = [await processes.start(it.session, each, variables={"order": "42"}) for each in ("p", "q")]
        await it.settle()
        await it.engine.maintenance_turn()
        await it.settle()

        assert [await it.state(key) for key in later] == ["COMPLETED", "COMPLETED"]


async def test_a_message_is_not_overtaken_by_a_newer_message_that_has_begun_the_process() -> None:
    begins = START.replace("/>", '><messageEventDefinition messageRef="m"/></startEvent>')
    async with running() as it:
        assert await publish(it, "42", {"i": 1}, MONTH_S) == []
        await it.deploy(begins + '<receiveTask id="r" messageRef="m"/>' + END, connected="s>r r>e", beside=SHARED)
        (begun,) = await publish(it, "42", {"i": 2, "order": "42"}, MONTH_S)
        with mock.patch("shardclock_server.engine.runner.correlate_waiting"):  # no engine correlates kept messages
            await it.settle()

        assert begun not in await publish(it, "42", {"i": 3, "order": "7"}, 0.0)
        await it.settle()

        assert (await it.see(begun)).result == {"order": "42", "i": 1}


async def test_a_message_to_a_token_that_has_left_goes_to_the_next_waiting_token() -> None:
    async with running() as it:
        await it.deploy(RECEIVE, connected="s>r r>e", beside=SHARED)
        first = await it.start(order="42")
        waits = 3  # the third token, after the process's token and the start event's token
        assert await instances.move_tokens(it.session, first, terminated=[waits], begun=["r"])
        await instances.publish_message(
            it.session, "paid", correlation="42", variables={}, tenant_id="default", time_to_live_s=3600
        )
        await it.settle()
        assert await it.stale(first) == ["happened"]
        await it.engine.maintenance_turn()
        await it.settle()
        assert await it.state(first) == "COMPLETED"


async def test_a_message_is_found_among_ten_thousand_without_a_token() -> None:
    async with running() as it:
        await it.deploy(RECEIVE, connected="s>r r>e", beside=SHARED)
        key = await it.start(order="42")
        insert = """
            insert into shardclock.messages (message_key, expires_at, tenant_id, name, correlation, variables)
            select n, now() + make_interval(mins => $2::integer), $3::text, 'paid', '42', '{}'
            from generate_series($4::bigint, $4 + $1::bigint) n
        """
        await it.query(insert, 10_000, 30, "other", 1_000_000)
        await it.query(insert, 0, 60, "default", 2_000_000)
        for _ in range(2):
            await it.engine.maintenance_turn()
        await it.settle()
        assert await it.state(key) == "COMPLETED"


BESIDE = (
    '<userTask id="t"/><boundaryEvent id="b" attachedToRef="t" cancelActivity="false">'
    '<messageEventDefinition messageRef="m"/></boundaryEvent><scriptTask id="n"><extensionElements>'
    '<zeebe:script expression="=append(seen, i)" resultVariable="seen"/></extensionElements></scriptTask>'
)
LOCKS = """
    with given as materialized (select shardclock.correlate_waiting($1) as n)
    select
        g.n,
        (select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid() and g.n >= 0) as locks
    from given g
"""


async def test_a_non_interrupting_event_gets_all_its_kept_messages_in_order() -> None:
    async with running() as it:
        await it.deploy(START + BESIDE + END + '<endEvent id="f"/>', connected="s>t t>e b>n n>f", beside=SHARED)
        for i in range(3):
            assert await publish(it, "42", {"i": i}, 3600.0) == []
        key = await it.start(order="42", seen=[])

        await it.settle()

        assert '"seen":[0,1,2]' in str((await it.see(key)).state)


async def test_only_names_with_a_kept_message_are_locked() -> None:
    async with running() as it:
        await it.deploy(RECEIVE, connected="s>r r>e", beside=SHARED)
        keys = [await it.start(order=str(n)) for n in range(5)]
        await it.settle()
        await it.query(KEPT, "default", "3", "{}")

        assert await it.query(LOCKS, keys) == [{"n": 1, "locks": 1}]


async def test_kept_messages_beyond_one_batch_are_correlated_in_the_next() -> None:
    async with running() as it:
        await it.deploy(START + BESIDE + END + '<endEvent id="f"/>', connected="s>t t>e b>n n>f", beside=SHARED)
        key = await it.start(order="42", seen=[])
        await it.settle()
        await it.query(
            """
            insert into shardclock.messages (message_key, expires_at, tenant_id, name, correlation, variables)
            select n, now() + interval '1 hour', 'default', 'paid', '42', '{"i": 1}'
            from generate_series(5000000, 5001000) n
            """
        )

        assert await correlate_waiting(it.session, [key]) == 1_001
