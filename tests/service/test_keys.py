"""A key identifies its caller. The key's text is shown once. Each refusal names the field that is wrong."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import pytest

from shardclock.api.refusals.tenants import KEY_NOT_LIVE, KEY_REFUSED
from shardclock_server.service import keys
from shardclock_server.service.keys import SCOPES, InvalidKey, allows, authenticate_all, found_or_refused, new_key
from shardclock_server.sql.keys.keys import ApiKey, WantedKey, list_keys
from shardclock_server.sql.session import Session
from shardclock_server.timers.duration import parse_duration
from tests.support.factories import query
from tests.support.refusals import refusing
from tests.support.sql_client import session

SHOP = WantedKey("acme", "webshop", ("read", "write"))
UNKNOWN = KEY_REFUSED.sentence()


@pytest.fixture
async def owner(dsn: str) -> AsyncIterator[Session]:
    """Open a session that may make keys."""
    async with session(dsn, "owner") as operator:
        yield operator


@pytest.fixture
async def gateway(dsn: str) -> AsyncIterator[Session]:
    """Open a gateway's session, which only reads keys."""
    async with session(dsn, "gateway") as client:
        yield client


async def found(gateway: Session, text: str) -> ApiKey:
    """Find a key as a gateway does."""
    (key,) = await authenticate_all(gateway, [text])
    return found_or_refused(key)


async def refusal(gateway: Session, text: str) -> str:
    """Send a key that is not live; return the refusal."""
    with refusing(KEY_REFUSED) as refused:
        await found(gateway, text)
    return str(refused.value)


def test_each_key_has_a_shown_prefix_and_a_hidden_secret() -> None:
    drawn = {new_key() for _ in range(100)}

    for key in drawn:
        assert re.fullmatch(r"sck_[a-z2-7]{8}_[A-Za-z0-9_-]{43}", key.text)
        assert key.text[4:12] == key.proof.prefix
        assert len(key.proof.digest) == 32
        assert key.text not in repr(key)
        assert repr(key.proof.digest) not in repr(key)
    assert len({key.text[13:] for key in drawn}) == 100


async def test_a_caller_is_identified_by_the_text_of_its_key(owner: Session, gateway: Session) -> None:
    made = await keys.make(owner, SHOP)

    assert await found(gateway, made.text) == made.key
    assert (made.key.tenant_id, made.key.scopes) == ("acme", ("read", "write"))
    assert made.sentence == f"key {made.key.prefix} ('webshop') of tenant 'acme' is made"
    assert made.text not in repr(made)


async def test_the_database_does_not_store_the_text(dsn: str, owner: Session) -> None:
    made = await keys.make(owner, SHOP)

    (row,) = await query(dsn, "select k::text as stored from shardclock.api_keys k")
    assert made.text not in row["stored"]
    assert made.text[13:] not in row["stored"]


async def test_every_wrong_key_is_refused_in_the_same_sentence(dsn: str, owner: Session, gateway: Session) -> None:
    good, revoked, expired = [await keys.make(owner, replace(SHOP, name=name)) for name in "abc"]
    await keys.revoke(owner, revoked.key.prefix)
    await query(
        dsn,
        "update shardclock.api_keys set created_at = now() - interval '2 h', expires_at = now() where prefix = $1",
        expired.key.prefix,
    )
    other_secret = good.text[:13] + new_key().text[13:]
    other_prefix = "sck_" + new_key().proof.prefix + good.text[12:]

    assert await found(gateway, good.text) == good.key
    for text in (
        other_secret, other_prefix, revoked.text, expired.text, new_key().text, "", "sck_", good.text[:-1],
        good.text + "A", good.text + "\n", " " + good.text, good.text.upper(), 10_000 * "a", "\udcff", "sck_\x00",
    ):  # fmt: skip
        assert await refusal(gateway, text) == UNKNOWN, text[:60]


@pytest.mark.parametrize("number", range(4))
def test_each_scope_includes_the_scopes_before_it(number: int) -> None:
    for place, needed in enumerate(SCOPES):
        assert allows((SCOPES[number],), needed) is (place <= number)
        assert allows(("read", SCOPES[number]), needed) is (place <= number)
    assert not allows((), "read")


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (replace(SHOP, scopes=("rite",)), "scope 'rite' is unknown: the scopes are read, write, operate and admin"),
        (replace(SHOP, scopes=()), "a key without a scope could do nothing: give it one; the scopes are read, write,"),
        (replace(SHOP, name=""), "name '' of a key is refused: it has 1 to 100 characters, none of them a control"),
        (replace(SHOP, name=101 * "a"), "of a key is refused: it has 1 to 100 characters"),
        (replace(SHOP, name="a\nb"), r"name 'a\nb' of a key is refused"),
        (replace(SHOP, name="a\x85b"), r"name 'a\x85b' of a key is refused"),
        (replace(SHOP, tenant_id="a\x00"), r"tenant 'a\x00' of a key is refused: it has 1 to 200 characters"),
        (replace(SHOP, tenant_id=""), "tenant '' of a key is refused"),
        (replace(SHOP, lifetime=parse_duration("PT0S")), "a key that expires after PT0S is refused: it must live"),
        (replace(SHOP, lifetime=parse_duration("P11Y")), "a key that expires after P11Y is refused: it must live"),
    ],
)
async def test_a_wrong_field_of_a_new_key_is_refused_in_a_sentence(
    owner: Session, wrong: WantedKey, sentence: str
) -> None:
    with pytest.raises(InvalidKey) as refused:
        await keys.make(owner, wrong)

    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)
    assert await list_keys(owner, limit=10) == []


async def test_scopes_are_stored_once_and_in_order(owner: Session) -> None:
    made = await keys.make(owner, replace(SHOP, scopes=("admin", "read", "admin")))

    assert made.key.scopes == ("read", "admin")


async def test_a_rotation_keeps_the_old_key_for_a_day(owner: Session, gateway: Session) -> None:
    old = await keys.make(owner, SHOP)

    new = await keys.rotate(owner, old.key.prefix)

    assert (await found(gateway, old.text)).expires_at == new.key.created_at + timedelta(days=1)
    assert await found(gateway, new.text) == new.key
    assert (new.key.name, new.key.tenant_id, new.key.scopes) == ("webshop", "acme", ("read", "write"))
    assert re.fullmatch(
        rf"key {new.key.prefix} \('webshop'\) of tenant 'acme' is made;"
        rf" the old one, {old.key.prefix}, expires at \d{{4}}-\d\d-\d\dT[0-9:.]+Z",
        new.sentence,
    )


async def test_a_wrong_rotation_is_refused_and_changes_nothing(owner: Session) -> None:
    made = await keys.make(owner, SHOP)

    with pytest.raises(InvalidKey, match=r"an overlap of P91D is refused: it may be 90 days \(P90D\) at most"):
        await keys.rotate(owner, made.key.prefix, overlap=parse_duration("P91D"))
    with pytest.raises(InvalidKey, match="a key that expires after PT0S is refused"):
        await keys.rotate(owner, made.key.prefix, lifetime=parse_duration("PT0S"))
    with refusing(KEY_NOT_LIVE):
        await keys.rotate(owner, "zzzzzzzz")
    assert await list_keys(owner, limit=10) == [made.key]
