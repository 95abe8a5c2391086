"""Prove what a tenant may do with endpoints, as any interface calls it: without a terminal, and without a cluster."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shardclock_server.service import endpoints
from shardclock_server.service.endpoints import (
    Done,
    EndpointChange,
    EndpointConflict,
    StillNamed,
    TooManySecrets,
    UnknownEndpoint,
)
from shardclock_server.sql.endpoints.endpoints import EndpointName, StoredEndpoint, find_endpoints, set_secrets
from shardclock_server.sql.session import Session
from shardclock_server.timers.refusal import Refusal
from shardclock_server.webhooks.addresses import networks_of
from shardclock_server.webhooks.endpoint import EndpointRules, InvalidEndpoint
from shardclock_server.webhooks.signing import SECRETS_MAX
from tests.support.factories import query
from tests.support.receivers import SECRET, Receiver, answering, receiving
from tests.support.roles import as_role

KEY, NOBODY = EndpointName("acme", "billing"), EndpointName("acme", "nobody")
URL = "https://example.com/hooks"
RULES = EndpointRules()
LOOPBACK = EndpointRules(allow_http=True, networks=networks_of(["127.0.0.0/8"]))


def billing(url: str = URL, *, rules: EndpointRules = RULES) -> StoredEndpoint:
    """Check the endpoint that most tests add."""
    return endpoints.new_endpoint(KEY, url, headers={}, secret=SECRET, policy={}, rules=rules)


async def stored(operator: Session) -> StoredEndpoint:
    """Read the endpoint as it is stored."""
    return (await find_endpoints(operator, [KEY]))[KEY]


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"key": EndpointName("acme", "Bil ling")}, "name 'Bil ling' is refused"),
        ({"url": "http://example.com/"}, "everybody on the way could read http"),
        ({"headers": {"webhook-id": "1"}}, "it is set by the sender"),
        ({"secret": "whsec_AAAA"}, "a secret of 3 bytes is refused"),
        ({"policy": {"concurrency": 0}}, "policy is refused: concurrency 0 is refused"),
        ({"policy": {"timeout_s": 300}}, "must be from 1 to 30 seconds"),
    ],
)
def test_a_new_one_that_is_wrong_is_refused_before_anything_is_asked_of_postgres(
    wrong: dict[str, object], sentence: str
) -> None:
    right = {"key": KEY, "url": URL, "headers": {}, "secret": SECRET, "policy": {}, "rules": RULES}
    said = right | wrong
    with pytest.raises(Refusal) as refused:
        endpoints.new_endpoint(said.pop("key"), said.pop("url"), **said)  # type: ignore[arg-type]

    assert sentence in str(refused.value)


async def test_a_name_is_given_once(operator: Session) -> None:
    added = await endpoints.add(operator, billing())
    assert (added.sentence, added.verifier) == ("endpoint webhook:billing added", SECRET)

    with pytest.raises(EndpointConflict, match="choose another name"):
        await endpoints.add(operator, billing())


async def test_nothing_can_be_done_with_one_that_there_is_not(operator: Session) -> None:
    for use_case in (
        endpoints.change(operator, NOBODY, EndpointChange(URL), rules=RULES),
        endpoints.rotate(operator, NOBODY, asymmetric=False),
        endpoints.end_rotation(operator, NOBODY),
        endpoints.find_open(operator, NOBODY, rules=RULES),
        endpoints.enable(operator, NOBODY),
        endpoints.disable(operator, NOBODY, why="by hand", though_named=True),
        endpoints.remove(operator, NOBODY, though_named=True),
    ):
        with pytest.raises(UnknownEndpoint) as refused:
            await use_case
        assert str(refused.value) == "tenant 'acme' has no endpoint 'nobody'"


async def test_a_rotation_adds_secrets_up_to_a_limit_and_its_end_leaves_the_newest(operator: Session) -> None:
    await endpoints.add(operator, billing())
    rotations = [await endpoints.rotate(operator, KEY, asymmetric=False) for _ in range(1, SECRETS_MAX)]
    assert [it.sentence for it in rotations] == [
        f"endpoint webhook:billing signs with {secrets} secrets" for secrets in range(2, SECRETS_MAX + 1)
    ]

    with pytest.raises(TooManySecrets, match="end the last rotation"):
        await endpoints.rotate(operator, KEY, asymmetric=False)

    assert await endpoints.end_rotation(operator, KEY) == Done(
        "endpoint webhook:billing signs with its newest secret alone"
    )
    assert (await stored(operator)).secrets == (rotations[-1].verifier,)


async def test_of_a_key_pair_its_receiver_gets_the_public_key_alone(operator: Session) -> None:
    await endpoints.add(operator, billing())

    rotated = await endpoints.rotate(operator, KEY, asymmetric=True)

    assert rotated.verifier.startswith("whpk_")
    assert (await stored(operator)).secrets[0].startswith("whsk_")


async def test_two_who_rotate_at_once_do_not_undo_each_other(
    operator: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given somebody else who rotates between our look at the endpoint and our change of it
    await endpoints.add(operator, billing())
    theirs = ("whsec_" + 44 * "B", SECRET)

    async def too_late(session: Session, key: EndpointName, **asked: tuple[str, ...]) -> bool:
        assert await set_secrets(session, key, before=asked["before"], secrets=theirs)
        return await set_secrets(session, key, before=asked["before"], secrets=asked["secrets"])

    monkeypatch.setattr(endpoints, "set_secrets", too_late)

    # Then ours is refused, and theirs stays
    with pytest.raises(EndpointConflict, match="somebody else has changed endpoint 'billing' just now"):
        await endpoints.rotate(operator, KEY, asymmetric=False)
    assert (await stored(operator)).secrets == theirs


async def test_one_that_a_timer_names_is_ended_only_if_that_is_meant(dsn: str, operator: Session) -> None:
    await endpoints.add(operator, billing())
    schedule = "select shardclock.schedule_timer(delay => 'PT1H', target => 'webhook:billing', tenant_id => 'acme')"
    await query(as_role(dsn, "scheduler"), schedule)

    disabled = await endpoints.disable(operator, KEY, why="by hand", though_named=False)
    removed = await endpoints.remove(operator, KEY, though_named=False)

    assert disabled == removed == StillNamed(KEY, 1)
    assert disabled.sentence == (
        "1 pending timer has the target webhook:billing, and it would be a dead letter whenever it fires;"
        " nothing was changed"
    )
    assert (await stored(operator)).disabled_at is None
    assert await endpoints.disable(operator, KEY, why="by hand", though_named=True) == Done(
        "endpoint webhook:billing is disabled"
    )
    assert await endpoints.disable(operator, KEY, why="by hand", though_named=False) == Done(
        "endpoint webhook:billing was disabled already", changed=False
    )
    assert await endpoints.remove(operator, KEY, though_named=True) == Done("endpoint webhook:billing is removed")


async def test_a_test_says_what_was_answered_and_a_disabled_one_is_not_asked(operator: Session) -> None:
    async with receiving(answering("204 No Content")) as receiver:
        await endpoints.add(operator, billing(url_of(receiver), rules=LOOPBACK))

        tried = await endpoints.try_out(await endpoints.find_open(operator, KEY, rules=LOOPBACK), KEY, rules=LOOPBACK)
        await endpoints.disable(operator, KEY, why="moves house", though_named=False)
        with pytest.raises(InvalidEndpoint, match="the endpoint is disabled: moves house"):
            await endpoints.find_open(operator, KEY, rules=LOOPBACK)

    assert (tried.delivered, tried.answer) == (True, "it answered 204")
    assert len(receiver.requests) == 1


def url_of(receiver: Receiver) -> str:
    """Write the URL that leads to a receiver."""
    return f"{receiver.scheme}://{receiver.host}:{receiver.port}/hook"


async def test_a_change_leaves_what_it_does_not_name_and_is_checked_as_a_whole(operator: Session) -> None:
    await endpoints.add(operator, replace(billing(), headers={"x-a": "1"}, policy={"retry_min_s": 60.0}))

    changed = await endpoints.change(operator, KEY, EndpointChange(policy={"concurrency": 5}), rules=RULES)
    for wrong, sentence in (
        (EndpointChange(), "say what is to change"),
        (EndpointChange(policy={"retry_max_s": 1.0}), "policy is refused"),
        (EndpointChange(headers={"webhook-id": "1"}), "it is set by the sender"),
        (EndpointChange(url="", policy={"concurrency": 6}), "it must begin with https://"),
    ):
        with pytest.raises(Refusal, match=sentence):
            await endpoints.change(operator, KEY, wrong, rules=RULES)

    assert changed == Done("endpoint webhook:billing has concurrency 5")
    after = await stored(operator)
    assert (after.url, after.headers, after.policy) == (URL, {"x-a": "1"}, {"retry_min_s": 60.0, "concurrency": 5})
    assert after.secrets == (SECRET,)
