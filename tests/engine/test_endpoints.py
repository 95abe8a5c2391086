"""Service tasks with an endpoint as their type: a webhook completes these tasks."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from shardclock_server.cluster.testing.webhooks import WebhookBook
from shardclock_server.service import endpoints
from shardclock_server.sql.endpoints.endpoints import StoredEndpoint
from shardclock_server.webhooks.answer_classification import Answer, EndpointGone, RetryDelivery
from shardclock_server.webhooks.endpoint import Endpoint
from shardclock_server.webhooks.sender import WebhookMessage
from shardclock_server.webhooks.signing import new_secret
from tests.support.bpmn_cluster import Processes, running

TASK = (
    '<startEvent id="s"/><serviceTask id="bill"><extensionElements>'
    '<zeebe:taskDefinition type="webhook:billing" retries="3"/>'
    '<zeebe:ioMapping><zeebe:input source="=order.total" target="amount"/></zeebe:ioMapping>'
    '</extensionElements></serviceTask><endEvent id="e"/>'
)
FLOWS = "s>bill bill>e"


async def add_endpoint(it: Processes) -> None:
    endpoint = StoredEndpoint("default", "billing", "https://billing.example/bills", {}, (new_secret(),), {})
    await endpoints.add(it.session, endpoint)


def answering(monkeypatch: pytest.MonkeyPatch, answer: Answer) -> None:
    async def send(self: WebhookBook, _: Endpoint, write: Callable[[], WebhookMessage], *, tenant_id: str) -> Answer:
        assert write().body, f"of {tenant_id}"
        return answer

    monkeypatch.setattr(WebhookBook, "send", send)


async def sentence(it: Processes, key: int) -> str:
    (incident,) = (await it.see(key)).waits["incident_list"]
    return str(incident["sentence"])


async def test_an_endpoint_gets_the_variables_of_the_task_and_its_answer_is_not_a_variable() -> None:
    async with running() as it:
        await add_endpoint(it)
        await it.deploy(TASK, connected=FLOWS)
        key = await it.start(order={"total": 5}, status="open")
        (webhook,) = it.cluster.webhooks
        data = webhook.body["data"]
        assert data["payload"] == {"order": {"total": 5}, "status": "open", "amount": 5}
        assert (data["timer_type"], data["target"]) == ("SERVICE_TASK", "webhook:billing")
        assert (data["process_instance_key"], data["target_element_id"]) == (key, "bill")
        assert (await it.see(key)).result == {"order": {"total": 5}, "status": "open"}


async def test_a_failing_endpoint_gets_the_number_of_attempts_in_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, RetryDelivery("it answered 500", 0.0, status=500))
    async with running() as it:
        await add_endpoint(it)
        await it.deploy(TASK, connected=FLOWS)
        key = await it.start(order={"total": 5})
        await it.advance("P2D")
        assert await sentence(it, key) == "it answered 500 (attempt 3 of 3)"
        assert await it.query("select 1 from shardclock.dead_letters") == []


async def test_an_endpoint_that_is_gone_is_an_incident(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, EndpointGone("it answered 410", 0.0))
    async with running() as it:
        await add_endpoint(it)
        await it.deploy(TASK, connected=FLOWS)
        key = await it.start(order={"total": 5})
        assert await sentence(it, key) == "it answered 410"


async def test_a_missing_endpoint_is_an_incident() -> None:
    async with running() as it:
        await it.deploy(TASK, connected=FLOWS)
        key = await it.start(order={"total": 5})
        assert await sentence(it, key) == "the endpoint does not exist: it was removed, or never added"
