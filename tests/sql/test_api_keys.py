"""Prove that only live keys are found, that a name has at most two keys, and that only the owner makes keys."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import pytest

from shardclock_server.sql.keys.keys import (
    ApiKey,
    Proof,
    WantedKey,
    count_expiring,
    list_keys,
    live_key,
    make_key,
    revoke_key,
    rotate_key,
)
from shardclock_server.sql.session import NOT_ALLOWED, Session, StatementRefused
from shardclock_server.sql.statements import statement
from shardclock_server.timers.duration import parse_duration
from tests.support.sql_client import session

SHOP = WantedKey("acme", "webshop", ("read", "write"))
HOUR, DAY = parse_duration("PT1H"), parse_duration("P1D")


def proof(letter: str) -> Proof:
    """Return the stored parts of a key; the prefix is one letter, eight times."""
    return Proof(8 * letter, 32 * letter.encode())


@pytest.fixture
async def owner(each_dsn: str) -> AsyncIterator[Session]:
    async with session(each_dsn, "owner") as operator:
        yield operator


@pytest.fixture
async def gateway(each_dsn: str) -> AsyncIterator[Session]:
    async with session(each_dsn, "gateway") as client:
        yield client


async def made(owner: Session, letter: str, wanted: WantedKey = SHOP) -> ApiKey:
    key = await make_key(owner, wanted, proof(letter))
    assert key is not None
    return key


async def test_a_key_is_found_by_its_prefix_with_all_its_properties(owner: Session, gateway: Session) -> None:
    key = await made(owner, "a")

    assert await live_key(gateway, "aaaaaaaa") == (key, 32 * b"a")
    assert await live_key(gateway, "bbbbbbbb") is None
    assert (key.tenant_id, key.name, key.scopes, key.prefix) == ("acme", "webshop", ("read", "write"), "aaaaaaaa")
    assert (key.expires_at, key.revoked_at) == (None, None)


async def test_a_key_is_found_until_it_expires(owner: Session, gateway: Session) -> None:
    key = await made(owner, "a", replace(SHOP, lifetime=HOUR))

    assert key.expires_at == key.created_at + timedelta(hours=1)
    assert await live_key(gateway, "aaaaaaaa", now=key.expires_at - timedelta(microseconds=1)) is not None
    assert await live_key(gateway, "aaaaaaaa", now=key.expires_at) is None


async def test_a_key_is_found_until_it_is_revoked_and_is_revoked_once(owner: Session, gateway: Session) -> None:
    await made(owner, "a")

    revoked = await revoke_key(owner, "aaaaaaaa")

    assert revoked is not None
    assert revoked.revoked_at is not None
    assert await live_key(gateway, "aaaaaaaa") is None
    assert await revoke_key(owner, "aaaaaaaa") is None
    assert await list_keys(gateway, limit=10) == [revoked]


@pytest.mark.parametrize(("tenant", "other"), [("acme", None), (None, "acme"), ("acme", "zoo")])
async def test_a_name_has_at_most_two_live_keys(owner: Session, tenant: str | None, other: str | None) -> None:
    wanted = replace(SHOP, tenant_id=tenant)
    await made(owner, "a", wanted)
    await made(owner, "b", wanted)

    assert await make_key(owner, wanted, proof("c")) is None

    await made(owner, "c", replace(wanted, tenant_id=other))
    await made(owner, "d", replace(wanted, name="other"))
    await revoke_key(owner, "aaaaaaaa")
    await made(owner, "e", wanted)


async def test_an_expired_key_does_not_count(owner: Session) -> None:
    first = await made(owner, "a", replace(SHOP, lifetime=HOUR))
    await made(owner, "b")
    assert first.expires_at is not None

    assert await make_key(owner, SHOP, proof("c"), now=first.expires_at - timedelta(microseconds=1)) is None
    assert await make_key(owner, SHOP, proof("c"), now=first.expires_at) is not None


async def test_two_of_many_simultaneously_created_keys_are_created(each_dsn: str, owner: Session) -> None:
    async def make(letter: str) -> ApiKey | None:
        async with session(each_dsn, "owner") as operator:
            return await make_key(operator, SHOP, proof(letter))

    outcomes = await asyncio.gather(*map(make, "abcdef"))

    assert len([key for key in outcomes if key]) == 2
    assert len(await list_keys(owner, limit=10)) == 2


async def test_a_rotation_makes_a_second_key_and_the_first_expires_after_the_overlap(
    owner: Session, gateway: Session
) -> None:
    first = await made(owner, "a")

    rotated = await rotate_key(owner, "aaaaaaaa", proof("b"), overlap=DAY, lifetime=parse_duration("P2D"))

    assert rotated is not None
    second = rotated.key
    assert (second.tenant_id, second.name, second.scopes) == (first.tenant_id, first.name, first.scopes)
    assert rotated.old_expires_at == second.created_at + timedelta(days=1)
    assert second.expires_at == second.created_at + timedelta(days=2)
    assert [(key.prefix, key.expires_at) for key in await list_keys(gateway, limit=10)] == [
        ("aaaaaaaa", rotated.old_expires_at),
        ("bbbbbbbb", second.expires_at),
    ]


async def test_a_rotation_does_not_extend_the_life_of_a_key(owner: Session) -> None:
    first = await made(owner, "a", replace(SHOP, lifetime=HOUR))

    rotated = await rotate_key(owner, "aaaaaaaa", proof("b"), overlap=DAY)

    assert rotated is not None
    assert (rotated.old_expires_at, rotated.key.expires_at) == (first.expires_at, None)


async def test_a_rotation_begins_only_after_the_last_one_is_over(owner: Session) -> None:
    await made(owner, "a")
    first = await rotate_key(owner, "aaaaaaaa", proof("b"), overlap=DAY)
    assert first is not None

    for prefix in ("aaaaaaaa", "bbbbbbbb", "zzzzzzzz"):
        assert await rotate_key(owner, prefix, proof("c"), overlap=DAY) is None
    again = await rotate_key(owner, "bbbbbbbb", proof("c"), overlap=DAY, now=first.old_expires_at)

    assert again is not None
    assert len(await list_keys(owner, limit=10)) == 3


async def test_one_of_many_simultaneous_rotations_succeeds(each_dsn: str, owner: Session) -> None:
    await made(owner, "a")

    async def rotate(letter: str) -> object:
        async with session(each_dsn, "owner") as operator:
            return await rotate_key(operator, "aaaaaaaa", proof(letter), overlap=DAY)

    outcomes = await asyncio.gather(*map(rotate, "bcde"))

    assert len([it for it in outcomes if it]) == 1
    assert len(await list_keys(owner, limit=10)) == 2


async def test_keys_are_listed_by_tenant_name_and_age_after_the_keys_for_all_tenants(
    owner: Session, gateway: Session
) -> None:
    for letter, tenant_id, name in (("a", "zoo", "x"), ("b", "acme", "y"), ("c", None, "z"), ("d", "acme", "x")):
        await made(owner, letter, WantedKey(tenant_id, name, ("read",)))
    await made(owner, "e", WantedKey("acme", "x", ("admin",)))

    assert "".join(key.prefix[0] for key in await list_keys(gateway, limit=10)) == "cdeba"
    assert "".join(key.prefix[0] for key in await list_keys(gateway, tenant_id="acme", limit=2)) == "de"
    assert [key.name for key in await list_keys(gateway, prefix="cccccccc", limit=10)] == ["z"]


async def test_a_read_of_keys_does_not_wait_for_the_creation_of_a_key(owner: Session, gateway: Session) -> None:
    key = await made(owner, "a")
    async with owner.transaction() as connection:
        await connection.execute(*statement("lock_api_keys").with_values({}))
        await connection.execute("update shardclock.api_keys set revoked_at = now()")

        assert await live_key(gateway, "aaaaaaaa") == (key, 32 * b"a")


@pytest.mark.parametrize(
    ("wrong", "of", "constraint"),
    [
        (replace(SHOP, scopes=()), proof("a"), "scopes_are_known"),
        (replace(SHOP, scopes=("read", "root")), proof("a"), "scopes_are_known"),
        (replace(SHOP, name=""), proof("a"), "name_is_1_to_100_characters"),
        (replace(SHOP, name="a\tb"), proof("a"), "name_is_1_to_100_characters"),
        (replace(SHOP, tenant_id=""), proof("a"), "tenant_id_is_1_to_200_characters"),
        (SHOP, Proof("AAAAAAAA", 32 * b"a"), "prefix_is_base32"),
        (SHOP, Proof("aaaaaaaa", 31 * b"a"), "digest_is_of_sha256"),
        (SHOP, proof("b"), "api_keys_by_prefix"),
    ],
)
async def test_an_invalid_key_is_not_stored(owner: Session, wrong: WantedKey, of: Proof, constraint: str) -> None:
    await made(owner, "b", replace(SHOP, name="another"))

    with pytest.raises(StatementRefused) as refused:
        await make_key(owner, wrong, of)

    assert refused.value.constraint == constraint


async def test_a_gateway_can_read_keys_and_can_not_make_rotate_or_revoke_keys(owner: Session, gateway: Session) -> None:
    await made(owner, "a")

    for attempt in (
        make_key(gateway, SHOP, proof("b")),
        rotate_key(gateway, "aaaaaaaa", proof("b"), overlap=DAY),
        revoke_key(gateway, "aaaaaaaa"),
    ):
        with pytest.raises(StatementRefused) as refused:
            await attempt
        assert refused.value.sqlstate == NOT_ALLOWED
    assert await live_key(gateway, "aaaaaaaa") is not None


async def test_a_key_that_expires_soon_is_counted_unless_it_has_a_successor_or_is_temporary(
    owner: Session, gateway: Session
) -> None:
    fortnight, quarter = parse_duration("P14D"), parse_duration("P90D")
    key = await made(owner, "a", replace(SHOP, lifetime=quarter))
    await made(owner, "b", replace(SHOP, name="nightly", lifetime=parse_duration("P27D")))  # keys that are meant to end
    await made(owner, "c", replace(SHOP, name="for ever"))
    assert key.expires_at is not None

    async def counted(**before_its_end: float) -> int:
        assert key.expires_at is not None
        return await count_expiring(gateway, fortnight, now=key.expires_at - timedelta(**before_its_end))

    assert [await counted(days=15), await counted(days=13), await counted(days=0)] == [0, 1, 0]
    assert await count_expiring(gateway, fortnight, now=key.created_at + timedelta(days=20)) == 0

    await made(owner, "d", replace(SHOP, tenant_id="initech", lifetime=None))
    assert await counted(days=13) == 1, "another tenant's key of that name replaces none"
    await made(owner, "e")
    assert await counted(days=13) == 0
    await revoke_key(owner, "eeeeeeee")
    assert await counted(days=13) == 1
    await revoke_key(owner, "aaaaaaaa")
    assert await counted(days=13) == 0
