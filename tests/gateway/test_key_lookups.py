"""Test that keys are looked up in batches, each key once, valid keys first, and that an error reaches all callers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from shardclock_server.gateway.requests import key_lookups
from shardclock_server.gateway.requests.key_lookups import API_KEYS, KeyLookups
from shardclock_server.gateway.requests.problems import Problem
from shardclock_server.service import keys
from shardclock_server.sql.keys.keys import ApiKey, WantedKey
from shardclock_server.sql.pool import Pool
from shardclock_server.sql.session import Session, StoreUnavailable
from tests.support.factories import BOUND_S
from tests.support.roles import as_role
from tests.support.sql_client import session as session_of

U, V, W, X, Y, Z = (f"sck_aaaaaaa{letter}_{'A' * 43}" for letter in "uvwxyz")


class RecordedLookups:
    """Stand in for the database: record the keys of each lookup, and return the rows of the valid keys."""

    def __init__(self, *good: tuple[str, ApiKey]) -> None:
        self.batches: list[list[str]] = []
        self.good = dict(good)
        self.fails = False

    async def __call__(self, _: Session, texts: Sequence[str]) -> list[ApiKey | None]:
        """Answer after all other tasks have run."""
        self.batches.append(list(texts))
        await asyncio.sleep(0)
        if self.fails:
            raise StoreUnavailable("it is away")
        return [self.good.get(text) for text in texts]


@pytest.fixture
async def good(dsn: str) -> tuple[str, ApiKey]:
    """Make a key."""
    async with session_of(dsn, "owner") as owner:
        made = await keys.make(owner, WantedKey("ada", "a key", ("read",)))
    return made.text, made.key


async def looked_up(
    dsn: str, asked: RecordedLookups, monkeypatch: pytest.MonkeyPatch, *turns: Sequence[str]
) -> list[object]:
    """Look up keys, turn by turn, with the keys of one turn at the same time."""
    found: list[object] = []
    async with Pool(as_role(dsn, "gateway"), application="t", size=1, timeout_s=BOUND_S, wait_s=BOUND_S) as pool:
        lookups = KeyLookups(pool, replace(API_KEYS, find=asked))
        for texts in turns:
            found += await asyncio.gather(*map(lookups.find, texts), return_exceptions=True)
        await lookups.aclose()
    return found


async def test_one_statement_looks_up_each_new_key_of_many_requests_once(
    dsn: str, good: tuple[str, ApiKey], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = RecordedLookups(good)
    found = await looked_up(dsn, asked, monkeypatch, [good[0], X, X, Y, good[0]], [X, good[0]])

    assert found == [good[1], None, None, None, good[1], None, good[1]]
    assert asked.batches == [[good[0], X, Y]]


async def test_keys_that_were_valid_are_looked_up_before_unknown_keys(
    dsn: str, good: tuple[str, ApiKey], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_lookups, "KNOWN_S", -1.0)
    monkeypatch.setattr(key_lookups, "BATCH_KEYS", 2)
    asked = RecordedLookups(good)
    await looked_up(dsn, asked, monkeypatch, [good[0]], [U, V, W, good[0]])

    assert asked.batches == [[good[0]], [good[0], U], [V, W]]


async def test_while_postgres_is_away_all_key_lookups_fail_and_nothing_is_cached(
    dsn: str, good: tuple[str, ApiKey], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = RecordedLookups(good)
    asked.fails = True
    assert [type(it) for it in await looked_up(dsn, asked, monkeypatch, [X, good[0]])] == [StoreUnavailable] * 2
    asked.fails = False
    assert await looked_up(dsn, asked, monkeypatch, [X, good[0]]) == [None, good[1]]


async def test_a_key_beyond_the_queue_limit_is_answered_503(
    dsn: str, good: tuple[str, ApiKey], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_lookups, "WAITING_MAX", 2)
    found = await looked_up(dsn, RecordedLookups(good), monkeypatch, [X, Y, Z, X])

    assert [type(it) for it in found] == [type(None), type(None), Problem, type(None)]


async def test_keys_are_compared_by_their_full_text(dsn: str, good: tuple[str, ApiKey]) -> None:
    text, key = good
    wrong = text[:-1] + ("A" if text[-1] != "A" else "B")
    async with session_of(dsn, "gateway") as session:
        assert await keys.authenticate_all(session, [wrong, text, "no key", "", text]) == [None, key, None, None, key]


async def test_a_text_without_the_form_of_a_key_is_not_looked_up(
    dsn: str, good: tuple[str, ApiKey], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = RecordedLookups(good)
    assert await looked_up(dsn, asked, monkeypatch, ["", "sck_", "x" * 9_000, X[:-1], X.upper()]) == [None] * 5
    assert asked.batches == []
