"""A message that is kept comes to one token that waits for it, and to none that is gone."""

from __future__ import annotations

from sql.processes import instances
from tests.support.bpmn import SHARED
from tests.support.bpmn_cluster import running

START, END = '<startEvent id="s"/>', '<endEvent id="e"/>'
RECEIVE = START + '<receiveTask id="r" messageRef="m"/>' + END


async def test_a_message_for_a_token_that_is_gone_is_for_the_next_one() -> None:
    async with running() as it:
        await it.deploy(RECEIVE, connected="s>r r>e", beside=SHARED)
        first = await it.start(order="42")
        assert await instances.cancel_instance(it.session, first)  # the engine has not looked yet
        reached = await instances.publish_message(
            it.session, "paid", correlation="42", variables={}, tenant_id="default", time_to_live_s=3600
        )
        assert reached == [first]
        await it.settle()
        assert await it.state(first) == "CANCELED"

        second, third = await it.start(order="42"), await it.start(order="42")
        await it.engine.tend_turn()
        await it.settle()
        assert [await it.state(key) for key in (second, third)] == ["COMPLETED", "RUNNING"]


async def test_a_message_for_a_token_that_has_gone_on_is_for_the_next_one() -> None:
    async with running() as it:
        await it.deploy(RECEIVE, connected="s>r r>e", beside=SHARED)
        first = await it.start(order="42")
        waits = 3  # the third token, after the process's own and the start event's
        assert await instances.move_tokens(it.session, first, terminated=[waits], begun=["r"])
        await instances.publish_message(
            it.session, "paid", correlation="42", variables={}, tenant_id="default", time_to_live_s=3600
        )
        await it.settle()
        assert await it.stale(first) == ["happened"]
        await it.engine.tend_turn()
        await it.settle()
        assert await it.state(first) == "COMPLETED"


async def test_a_message_is_found_though_ten_thousand_others_wait_for_nobody() -> None:
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
            await it.engine.tend_turn()
        await it.settle()
        assert await it.state(key) == "COMPLETED"
