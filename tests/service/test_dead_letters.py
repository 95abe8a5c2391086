"""Prove what is said of dead letters that are redriven or discarded, as any interface calls it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from service.dead_letters import discard, of_targets, redrive
from service.many import Changed
from sql.deliveries.dead_letters import DeadLetterFilter
from sql.session import Session
from tests.support.deliveries import HANDLER, WorkerClient, add_worker, dead, declare, deliver
from tests.support.factories import HolderClient, add_holder
from tests.support.sql_client import session as session_of

EACH = DeadLetterFilter()


@pytest.fixture
async def operator(dsn: str) -> AsyncIterator[Session]:
    """Give a session that may change dead letters."""
    async with session_of(dsn, "shard") as session:
        yield session


@pytest.fixture
async def letters(dsn: str) -> list[int]:
    """Let three deliveries die, one after the other; return their keys."""
    await declare(dsn, HANDLER)
    await add_holder(dsn, 1)
    await add_worker(dsn, 11)
    keys: list[int] = []
    async with HolderClient(dsn, holder=1) as shard, WorkerClient(dsn, 11) as worker:
        for _ in range(3):
            keys += await deliver(shard)
            await worker.settle(*map(dead, await worker.take()))
    return keys


async def test_a_dry_run_names_them_the_first_that_died_first_and_changes_nothing(
    operator: Session, letters: list[int]
) -> None:
    would = await redrive(operator, EACH, limit=2, per_s=1, dry_run=True)

    which = f"2 dead letters would be put back, 1 a second, of the target {HANDLER}"
    sentence = f"{which}, and there are more; nothing was changed"
    assert would == Changed(letters[1:], sentence, more=True, again_in_s=2)
    assert (await discard(operator, EACH, dry_run=True)).keys == letters


def test_a_sentence_names_a_few_targets_and_counts_the_others() -> None:
    assert of_targets(["b", "a", "b"]) == "of the targets a and b"
    assert of_targets([f"t{i}" for i in range(5)]) == "of the targets t0, t1, t2, t3 and t4"
    assert of_targets([f"t{i}" for i in range(8)]) == "of the targets t0, t1, t2, t3, t4 and 3 others"


async def test_what_a_run_leaves_may_be_acted_on_when_those_of_the_run_are_due(
    operator: Session, letters: list[int]
) -> None:
    first = await redrive(operator, EACH, limit=2, per_s=1, dry_run=False)
    rest = await discard(operator, EACH, limit=2, reason="refunded by hand", dry_run=False)
    none = await discard(operator, EACH, dry_run=False)

    assert (first.sentence, first.more, first.again_in_s) == ("put back: 2 dead letters are due again", True, 2)
    assert rest == Changed(letters[:1], "1 dead letter discarded", more=False)
    assert none == Changed([], "there is no such dead letter", more=False)
