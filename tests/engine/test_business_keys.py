"""An instance is found by the business key of its start, from then on."""

from __future__ import annotations

from service import processes
from service.dead_letters import discard
from sql.deliveries.dead_letters import DeadLetterFilter, redrive_dead_letters
from sql.processes import instances
from tests.support.bpmn_cluster import Processes, running

USER = '<startEvent id="s"/><userTask id="u"/>'
CALL = (
    '<startEvent id="s"/><callActivity id="c"><extensionElements><zeebe:calledElement processId="child"/>'
    "</extensionElements></callActivity>"
)


async def found(it: Processes, business_key: str) -> list[int]:
    return [one.instance_key for one in await instances.find_instances(it.session, business_key=business_key)]


async def given_up(it: Processes, definition: int) -> int:
    """Let a start ask for a definition that is not there until it is a dead letter; mend it, and return its key."""
    key = await processes.start(it.session, "p", business_key="order-42")
    await it.query("update shardclock.deliveries set payload = payload || '{\"definition\": 0}'")
    for _ in range(6):
        await it.advance("PT1S")
    mended = "update shardclock.dead_letters set payload = payload || jsonb_build_object('definition', $1::bigint)"
    (dead,) = await it.query(f"{mended} returning timer_key", definition)
    assert dead["timer_key"] == key
    return key


async def test_one_that_is_starting_is_listed_as_it_is_shown() -> None:
    async with running() as it:
        await it.deploy(USER, connected="s>u")
        key = await processes.start(it.session, "p", business_key="order-42")
        starting = (await it.see(key)).found
        assert (starting.state, starting.business_key, starting.version) == ("STARTING", "order-42", 1)
        assert await instances.find_instances(it.session, business_key="order-42") == [starting]
        for filters, listed in (
            ({"process_id": "p"}, [key]), ({"process_id": "q"}, []), ({"tenant_id": "other"}, []),
            ({"state": "RUNNING"}, []), ({"state": "INCIDENT"}, []),
        ):  # fmt: skip
            rows = await instances.find_instances(it.session, business_key="order-42", **filters)  # type: ignore[arg-type] # as they are named
            assert [one.instance_key for one in rows] == listed, filters

        await it.settle()

        begun = (await it.see(key)).found
        assert (begun.state, begun.business_key, await found(it, "order-42")) == ("RUNNING", "order-42", [key])
        assert await found(it, "order-4") == []


async def test_a_called_process_has_none() -> None:
    async with running() as it:
        await it.deploy(USER, connected="s>u", process_id="child")
        await it.deploy(CALL, connected="s>c")
        key = await processes.start(it.session, "p", business_key="order-42")
        await it.settle()
        listed = await instances.find_instances(it.session)
        assert {one.process_id: one.business_key for one in listed} == {"p": "order-42", "child": None}
        assert await found(it, "order-42") == [key]


async def test_a_start_that_was_given_up_keeps_its_key_until_it_is_discarded() -> None:
    async with running() as it:
        definition = await it.deploy(USER, connected="s>u")
        first = await given_up(it, definition)
        assert await redrive_dead_letters(it.session, [first]) == [first]
        await it.settle()
        assert await found(it, "order-42") == [first]

        second = await given_up(it, definition)
        assert (await discard(it.session, DeadLetterFilter(), dry_run=False)).keys == [second]

        kept = await it.query("select instance_key from shardclock.business_keys")
        assert [one["instance_key"] for one in kept] == [first]
