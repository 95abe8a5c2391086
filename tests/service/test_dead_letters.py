"""The answers to a redrive and to a discard of dead letters, for all interfaces."""

from __future__ import annotations

import pytest

from shardclock.api.refusals.deliveries import UNKNOWN_DEAD_LETTER
from shardclock_server.service.bulk_wording import BulkResult
from shardclock_server.service.dead_letters import change_letters, discarding, of_targets, page_of, redriving
from shardclock_server.sql.deliveries import dead_letters
from shardclock_server.sql.deliveries.dead_letters import DeadLetterFilter
from shardclock_server.sql.session import Record, Session
from shardclock_server.timers.refusal import Refusal
from tests.support.deliveries import HANDLER, bury, let_die
from tests.support.factories import BOUND_S, query
from tests.support.roles import as_role

EACH = DeadLetterFilter()


class Weighed(Session):
    """Count the characters of all rows that the sessions read."""

    read = 0

    async def rows(self, statement_name: str, /, **values: object) -> list[Record]:
        rows = await super().rows(statement_name, **values)
        self.read += sum(len(str(field)) for row in rows for field in row)
        return rows


@pytest.fixture
async def letters(dsn: str) -> list[int]:
    """Turn three deliveries into dead letters, one after the other; return their keys."""
    return await let_die(dsn, 3)


async def test_a_dry_run_lists_the_dead_letters_oldest_first_and_changes_nothing(
    operator: Session, letters: list[int]
) -> None:
    would = await change_letters(operator, redriving(operator, per_s=1), EACH, limit=2, dry_run=True)

    which = f"2 dead letters would be put back, 1 a second, of the target {HANDLER}"
    sentence = f"{which}, and there are more; nothing was changed"
    assert would == BulkResult(letters[:2], sentence, more=True, again_in_s=2)
    assert (await change_letters(operator, discarding(operator), EACH, dry_run=True)).keys == letters


def test_a_sentence_names_a_few_targets_and_counts_the_other_targets() -> None:
    assert of_targets(["b", "a", "b"]) == "of the targets a and b"
    assert of_targets([f"t{i}" for i in range(5)]) == "of the targets t0, t1, t2, t3 and t4"
    assert of_targets([f"t{i}" for i in range(8)]) == "of the targets t0, t1, t2, t3, t4 and 3 others"


async def test_the_dead_letters_beyond_the_limit_may_be_changed_after_again_in_s(
    operator: Session, letters: list[int]
) -> None:
    first = await change_letters(operator, redriving(operator, per_s=1), EACH, limit=2, dry_run=False)
    rest = await change_letters(operator, discarding(operator, reason="refunded by hand"), EACH, limit=2, dry_run=False)
    none = await change_letters(operator, discarding(operator), EACH, dry_run=False)

    assert (first.sentence, first.more, first.again_in_s) == ("put back: 2 dead letters are due again", True, 2)
    assert sorted(first.keys) == letters[:2], "the two that were given up first"
    assert rest == BulkResult(letters[2:], "1 dead letter discarded", more=False)
    assert none == BulkResult([], "there is no such dead letter", more=False)


@pytest.mark.parametrize("dry_run", [True, False])
async def test_an_unknown_dead_letter_is_refused(operator: Session, dry_run: bool) -> None:
    for act in (redriving, discarding):
        with pytest.raises(Refusal, match="there is no dead letter 999") as refused:
            await change_letters(operator, act(operator), DeadLetterFilter(timer_key=999), dry_run=dry_run)
        assert refused.value.code == UNKNOWN_DEAD_LETTER


@pytest.mark.parametrize("dry_run", [True, False])
async def test_a_redrive_and_a_discard_do_not_read_the_payloads(dsn: str, dry_run: bool) -> None:
    await bury_large(dsn, 40)
    async with Weighed(as_role(dsn, "shard"), application="test", timeout_s=BOUND_S) as session:
        redriven = await change_letters(session, redriving(session), EACH, limit=20, dry_run=dry_run)
        discarded = await change_letters(session, discarding(session), EACH, limit=20, dry_run=dry_run)

    assert (len(redriven.keys), len(discarded.keys)) == (20, 20)
    assert session.read < 10_000, "one payload alone has more"


async def test_a_page_of_large_dead_letters_is_shorter_and_has_the_token_of_the_next_page(
    dsn: str, operator: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bury_large(dsn, 5)
    monkeypatch.setattr(dead_letters, "PAGE_BYTES", 90_000)
    pages = [await page_of(operator, EACH, size=4)]
    while (following := pages[-1].next) is not None:
        pages.append(await page_of(operator, EACH, size=4, page=following))
    monkeypatch.setattr(dead_letters, "PAGE_BYTES", 1)
    alone = await page_of(operator, EACH, size=4)

    assert [[letter.timer_key for letter in page.letters] for page in pages] == [[1, 2], [3, 4], [5]]
    assert [letter.timer_key for letter in alone.letters] == [1], "a page has always one"
    whole = await page_of(operator, DeadLetterFilter(timer_key=5), size=1)
    assert ([letter.timer_key for letter in whole.letters], whole.next) == ([5], None)


async def test_a_page_has_the_token_of_the_next_page_and_any_other_text_is_refused_as_a_token(
    dsn: str, operator: Session
) -> None:
    await bury(dsn, 5)
    first = await page_of(operator, EACH, size=3)
    second = await page_of(operator, EACH, size=3, page=first.next)

    assert [letter.timer_key for letter in (*first.letters, *second.letters)] == [5, 4, 3, 2, 1]
    assert (first.next is None, second.next) == (False, None)
    for page in ("", "7", "[]", '["yesterday", 1]', '["2031-01-01T00:00:00", 1]', '["2031-01-01T00:00:00Z", -1]',
                 '["2031-01-01T00:00:00Z", 9999999999999999999]', "[7, 1]"):  # fmt: skip
        with pytest.raises(Refusal, match="is not the `next` of a page of dead letters"):
            await page_of(operator, EACH, size=3, page=page)


async def bury_large(dsn: str, count: int) -> None:
    """Insert dead letters that were given up at one moment, each with a payload of more than 60,000 bytes."""
    await bury(dsn, count)
    await query(dsn, "update shardclock.dead_letters set payload = to_jsonb(repeat('x', 60000)), died_at = now()")
