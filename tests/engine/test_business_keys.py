"""A start's business key finds the instance as soon as the start is stored."""

from __future__ import annotations

from shardclock.api.refusals.processes import INSTANCE_GIVEN_UP
from shardclock_server.service import processes
from shardclock_server.service.dead_letters import change_letters, discarding
from shardclock_server.sql.deliveries.dead_letters import DeadLetterFilter, redrive_dead_letters
from shardclock_server.sql.processes import instances
from tests.support.bpmn_cluster import Processes, running

USER = '<startEvent id="s"/><userTask id="u"/>'
CALL = (
    '<startEvent id="s"/><callActivity id="c"><extensionElements><zeebe:calledElement processId="child"/>'
    "</extensionElements></callActivity>"
)


async def found(it: Processes, business_key: str) -> list[int]:
    return [one.instance_key for one in await instances.find_instances(it.session, business_key=business_key)]


async def given_up(it: Processes, definition: int) -> int:
    """Remove the definition so that a start becomes a dead letter; restore the definition; return the start's key."""
    key = await processes.start(it.session, "p", business_key="order-42")
    await it.query("update shardclock.deliveries set payload = payload || '{\"definition\": 0}'")
    for _ in range(6):
        await it.advance("PT1S")
    repaired = "update shardclock.dead_letters set payload = payload || jsonb_build_object('definition', $1::bigint)"
    (dead,) = await it.query(f"{repaired} returning timer_key", definition)
    assert dead["timer_key"] == key
    return key


async def test_a_starting_instance_has_the_same_fields_in_the_list_and_by_key() -> None:
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


async def test_an_instance_with_a_dead_start_is_shown_and_begins_after_a_redrive() -> None:
    async with running() as it:
        definition = await it.deploy(USER, connected="s>u")
        key = await given_up(it, definition)

        whole = await it.see(key)
        assert (whole.found.state, whole.found.incidents, whole.found.business_key) == ("STARTING", 1, "order-42")
        (incident,) = whole.waits["incident_list"]
        assert incident["sentence"].startswith("its start was given up: ")
        assert incident["sentence"].endswith(f"; shardclock dead-letters redrive {key} begins it")
        assert await instances.find_instances(it.session, business_key="order-42", state="INCIDENT") == [whole.found]
        assert await instances.find_instance(it.session, key, tenant_id="other") is None
        assert not await instances.set_variables(it.session, key, {})
        refused = await processes.not_sent(it.session, key, "its variables can't be set")
        assert (refused.code, refused.members) == (INSTANCE_GIVEN_UP, {"state": "STARTING"})

        assert await redrive_dead_letters(it.session, [key]) == [key]
        await it.settle()
        assert ((await it.see(key)).found.state, (await it.see(key)).found.incidents) == ("RUNNING", 0)


async def test_an_instance_with_a_dead_start_is_cancelled_permanently() -> None:
    async with running() as it:
        definition = await it.deploy(USER, connected="s>u")
        key = await given_up(it, definition)
        assert await instances.cancel_instance(it.session, key, tenant_id="other") == "NOT_FOUND"

        assert await instances.cancel_instance(it.session, key) == "SENT"

        found = (await it.see(key)).found
        assert (found.state, found.incidents, found.ended_at is None) == ("CANCELED", 0, False)
        (step,) = await instances.steps_of(it.session, key)
        assert [(said["kind"], "by" in said) for said in step.signals] == [("cancel", True)]
        assert await redrive_dead_letters(it.session, [key]) == []
        assert await instances.cancel_instance(it.session, key) == "CANCELED"
        assert (await processes.find(it.session, key)).found == (
            await instances.find_instances(it.session, business_key="order-42")
        )[0]
        (ended,) = await it.query("select detail from shardclock.command_log where intent = 'DISCARDED'")
        assert "its instance was cancelled" in ended["detail"]


async def test_a_cancelled_start_without_its_process_leaves_no_rows() -> None:
    async with running() as it:
        await it.deploy(USER, connected="s>u")
        key = await given_up(it, 0)
        assert await instances.cancel_instance(it.session, key) == "SENT"
        assert await it.query("select from shardclock.business_keys") == []
        assert await it.query("select from shardclock.dead_letters") == []


async def test_a_called_process_has_no_business_key() -> None:
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
        assert (await change_letters(it.session, discarding(it.session), DeadLetterFilter(), dry_run=False)).keys == [
            second
        ]

        kept = await it.query("select instance_key from shardclock.business_keys")
        assert [one["instance_key"] for one in kept] == [first]
