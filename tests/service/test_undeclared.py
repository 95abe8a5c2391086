"""A deployment reports the service task types that are not declared, and accepts the model."""

from __future__ import annotations

from shardclock_server.service.processes import deploy
from shardclock_server.service.undeclared import notes_on
from shardclock_server.sql.deliveries.targets import declared_targets
from shardclock_server.sql.endpoints.endpoints import StoredEndpoint, add_endpoint
from shardclock_server.sql.session import Session
from tests.support.bpmn import job, model
from tests.support.deliveries import declare

BILLING = StoredEndpoint("acme", "billing", "https://example.com/", {}, ("whsec_" + 32 * "A",), {})
START = '<startEvent id="s"/>'


def typed(node_id: str, task_type: str) -> str:
    """Return the XML of a service task with the given task type."""
    return job(node_id).replace(f'type="{node_id}"', f'type="{task_type}"')


async def test_types_without_a_declared_handler_or_an_endpoint_of_the_tenant_are_reported(dsn: str) -> None:
    await declare(dsn, "order.pack", "order.old")
    await declare(dsn, "order.pack")
    async with Session(dsn, application="test") as session:
        assert await add_endpoint(session, BILLING)
        text = model(
            START + typed("a", "order.pack") + typed("b", "order.pak") + typed("c", "order.pak") + typed("d", "=next")
            + typed("e", "webhook:billing") + typed("f", "webhook:bill") + typed("g", "order.old"),
            connected="s>a a>b b>c c>d d>e e>f f>g",
        )  # fmt: skip

        (of_acme,) = await deploy(session, text, resource="p.bpmn", tenant_id="acme")
        (of_another,) = await deploy(session, text, resource="p.bpmn")
        notes = await notes_on(session, of_acme.undeclared, tenant_id="acme")

    assert of_acme.undeclared == ("order.old", "order.pak", "webhook:bill")
    assert of_another.undeclared == ("order.old", "order.pak", "webhook:bill", "webhook:billing")
    assert [note.partition(": ")[0] for note in notes] == [
        "no app has declared the handler order.old",
        "no app has declared the handler order.pak (did you mean order.pack?)",
        "there is no endpoint bill (did you mean webhook:billing?)",
    ]
    assert [note.partition(": ")[2] for note in notes] == [
        "until one does, a program must take it, over HTTP or in SQL",
        "until one does, a program must take it, over HTTP or in SQL",
        "until there is one, each of its tasks becomes an incident",
    ]


async def test_each_process_of_a_model_has_its_own_undeclared_types(dsn: str) -> None:
    inside = '<subProcess id="u"><startEvent id="v"/>' + job("pack") + "</subProcess>"
    other = f'<process id="other" isExecutable="true"><startEvent id="o"/>{job("bill", tag="sendTask")}</process>'
    async with Session(dsn, application="test") as session:
        deployed = await deploy(session, model(START + inside, connected="s>u", beside=other), resource="p.bpmn")

        assert {it.process_id: it.undeclared for it in deployed} == {"p": ("pack",), "other": ("bill",)}
        assert await declared_targets(session, "default") == []
        assert await notes_on(session, (), tenant_id="default") == []
