"""A tenant's changes of endpoints, without a terminal and without a cluster."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shardclock.api.refusals.tenants import ENDPOINT_CHANGED, ENDPOINT_EXISTS, ENDPOINT_SECRETS_FULL, UNKNOWN_ENDPOINT
from shardclock_server.service import endpoints
from shardclock_server.service.endpoints import EndpointChange, EndpointInUse, EndpointResult
from shardclock_server.sql.endpoints.endpoints import EndpointName, StoredEndpoint, find_endpoints, set_secrets
from shardclock_server.sql.session import Session
from shardclock_server.timers.refusal import Refusal
from shardclock_server.webhooks.addresses import networks_of
from shardclock_server.webhooks.endpoint import EndpointRules, InvalidEndpoint
from shardclock_server.webhooks.signing import SECRETS_MAX
from tests.support.factories import query
from tests.support.receivers import SECRET, Receiver, answering, receiving
from tests.support.refusals import refusing
from tests.support.roles import as_role

KEY, NOBODY = EndpointName("acme", "billing"), EndpointName("acme", "nobody")
URL = "https://example.com/hooks"
RULES = EndpointRules()
LOOPBACK = EndpointRules(allow_http=True, networks=networks_of(["127.0.0.0/8"]))


def billing(url: str = URL, *, rules: EndpointRules = RULES) -> StoredEndpoint:
    """Check the endpoint that most tests add."""
    return endpoints.new_endpoint(KEY, url, headers={}, secret=SECRET, policy={}, rules=rules)


async def stored(operator: Session) -> StoredEndpoint:
    """Read the stored endpoint."""
    return (await find_endpoints(operator, [KEY]))[KEY]


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"key": EndpointName("acme", "Bil ling")}, "endpoint name 'Bil ling' is refused: it has 1 to 100 lower-case"),
        ({"url": "http://example.com/"}, "http is not encrypted"),
        ({"headers": {"webhook-id": "1"}}, "the sender or a proxy sets this header"),
        ({"secret": "whsec_AAAA"}, "a secret of 3 bytes is refused"),
        ({"policy": {"concurrency": 0}}, "policy is refused: concurrency 0 is refused"),
        ({"policy": {"timeout_s": 300}}, "must be from 1 to 30 seconds"),
    ],
)
def test_a_wrong_new_endpoint_is_refused_before_any_statement(wrong: dict[str, object], sentence: str) -> None:
    right = {"key": KEY, "url": URL, "headers": {}, "secret": SECRET, "policy": {}, "rules": RULES}
    said = right | wrong
    with pytest.raises(Refusal) as refused:
        endpoints.new_endpoint(said.pop("key"), said.pop("url"), **said)  # type: ignore[arg-type]

    assert sentence in str(refused.value)


async def test_an_endpoint_s_name_is_unique_in_its_tenant(operator: Session) -> None:
    added = await endpoints.add(operator, billing())
    assert (added.sentence, added.verifier) == ("endpoint webhook:billing added", SECRET)

    with refusing(ENDPOINT_EXISTS):
        await endpoints.add(operator, billing())


async def test_every_change_of_an_unknown_endpoint_is_refused(operator: Session) -> None:
    for use_case in (
        endpoints.change(operator, NOBODY, EndpointChange(URL), rules=RULES),
        endpoints.rotate(operator, NOBODY, asymmetric=False),
        endpoints.end_rotation(operator, NOBODY),
        endpoints.find_open(operator, NOBODY, rules=RULES),
        endpoints.enable(operator, NOBODY),
        endpoints.disable(operator, NOBODY, why="by hand", force=True),
        endpoints.remove(operator, NOBODY, force=True),
    ):
        with refusing(UNKNOWN_ENDPOINT):
            await use_case


async def test_a_rotation_adds_secrets_up_to_a_limit_and_its_end_leaves_the_newest(operator: Session) -> None:
    await endpoints.add(operator, billing())
    rotations = [await endpoints.rotate(operator, KEY, asymmetric=False) for _ in range(1, SECRETS_MAX)]
    assert [it.sentence for it in rotations] == [
        f"endpoint webhook:billing signs with {secrets} secrets" for secrets in range(2, SECRETS_MAX + 1)
    ]

    with refusing(ENDPOINT_SECRETS_FULL):
        await endpoints.rotate(operator, KEY, asymmetric=False)

    assert await endpoints.end_rotation(operator, KEY) == EndpointResult(
        "endpoint webhook:billing signs with its newest secret alone"
    )
    assert (await stored(operator)).secrets == (rotations[-1].verifier,)


async def test_the_receiver_gets_only_the_public_key_of_a_key_pair(operator: Session) -> None:
    await endpoints.add(operator, billing())

    rotated = await endpoints.rotate(operator, KEY, asymmetric=True)

    assert rotated.verifier.startswith("whpk_")
    assert (await stored(operator)).secrets[0].startswith("whsk_")


async def test_two_simultaneous_rotations_do_not_undo_each_other(
    operator: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given another client that rotates between our read of the endpoint and our write
    await endpoints.add(operator, billing())
    theirs = ("whsec_" + 44 * "B", SECRET)

    async def too_late(session: Session, key: EndpointName, **asked: tuple[str, ...]) -> bool:
        assert await set_secrets(session, key, before=asked["before"], secrets=theirs)
        return await set_secrets(session, key, before=asked["before"], secrets=asked["secrets"])

    monkeypatch.setattr(endpoints, "set_secrets", too_late)

    # Then our rotation is refused, and the other client's rotation stays
    with refusing(ENDPOINT_CHANGED):
        await endpoints.rotate(operator, KEY, asymmetric=False)
    assert (await stored(operator)).secrets == theirs


async def test_an_endpoint_that_is_the_target_of_a_timer_is_disabled_or_removed_only_with_though_named(
    dsn: str, operator: Session
) -> None:
    # Given another tenant with an endpoint of the same name and a timer
    for tenant in ("acme", "zoo"):
        await endpoints.add(operator, replace(billing(), tenant_id=tenant))
        schedule = "select shardclock.schedule_timer(delay => 'PT1H', target => 'webhook:billing', tenant_id => $1)"
        await query(as_role(dsn, "scheduler"), schedule, tenant)

    disabled = await endpoints.disable(operator, KEY, why="by hand", force=False)
    removed = await endpoints.remove(operator, KEY, force=False)

    assert disabled == removed == EndpointInUse(KEY, 1)
    assert disabled.sentence == (
        "1 pending timer has the target webhook:billing, and it would become a dead letter when it fires;"
        " nothing was changed"
    )
    assert (await stored(operator)).disabled_at is None
    assert await endpoints.disable(operator, KEY, why="by hand", force=True) == EndpointResult(
        "endpoint webhook:billing is disabled"
    )
    assert await endpoints.disable(operator, KEY, why="by hand", force=False) == EndpointResult(
        "endpoint webhook:billing was disabled already", changed=False
    )
    assert await endpoints.remove(operator, KEY, force=True) == EndpointResult("endpoint webhook:billing is removed")


async def test_a_test_returns_the_answer_and_sends_nothing_to_a_disabled_endpoint(operator: Session) -> None:
    async with receiving(answering("204 No Content")) as receiver:
        await endpoints.add(operator, billing(url_of(receiver), rules=LOOPBACK))

        tried = await endpoints.send_test(await endpoints.find_open(operator, KEY, rules=LOOPBACK), KEY, rules=LOOPBACK)
        await endpoints.disable(operator, KEY, why="moves house", force=False)
        with pytest.raises(InvalidEndpoint, match="the endpoint is disabled: moves house"):
            await endpoints.find_open(operator, KEY, rules=LOOPBACK)

    assert (tried.delivered, tried.answer) == (True, "it answered 204")
    assert len(receiver.requests) == 1


def url_of(receiver: Receiver) -> str:
    """Return a receiver's URL."""
    return f"{receiver.scheme}://{receiver.host}:{receiver.port}/hook"


async def test_a_change_keeps_the_other_fields_and_is_checked_together_with_them(operator: Session) -> None:
    await endpoints.add(operator, replace(billing(), headers={"x-a": "1"}, policy={"retry_min_s": 60.0}))

    changed = await endpoints.change(operator, KEY, EndpointChange(policy={"concurrency": 5}), rules=RULES)
    for wrong, sentence in (
        (EndpointChange(), "give a field to change"),
        (EndpointChange(policy={"retry_max_s": 1.0}), "policy is refused"),
        (EndpointChange(headers={"webhook-id": "1"}), "the sender or a proxy sets this header"),
        (EndpointChange(url="", policy={"concurrency": 6}), "it must begin with https://"),
    ):
        with pytest.raises(Refusal, match=sentence):
            await endpoints.change(operator, KEY, wrong, rules=RULES)

    assert changed == EndpointResult("endpoint webhook:billing has concurrency 5")
    after = await stored(operator)
    assert (after.url, after.headers, after.policy) == (URL, {"x-a": "1"}, {"retry_min_s": 60.0, "concurrency": 5})
    assert after.secrets == (SECRET,)
