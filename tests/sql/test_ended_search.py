"""Prove that a search for ended timers goes back through everybody's log in steps, and finds each timer once."""

from __future__ import annotations

from itertools import pairwise

import pytest

from shardclock_server.sql.clients import history
from shardclock_server.sql.clients.history import Filter, find_timers
from shardclock_server.sql.session import Session
from tests.support.factories import add_timers, query
from tests.support.sql_client import session

QUIET, BUSY = Filter(tenant_id="quiet"), Filter(tenant_id="busy")
ENDED = "ENDED"


async def end(dsn: str, tenant: str, count: int) -> list[int]:
    """Let timers of a tenant end, one record after the other; return their keys, the last one first."""
    keys = await add_timers(dsn, count, "now() + interval '1 hour'", tenant_id=f"'{tenant}'")
    await query(dsn, "select shardclock.cancel_timers($1)", keys)
    return keys[::-1]


async def pages_of(client: Session, wanted: Filter, *, size: int) -> list[list[int]]:
    """Read page after page, each in as little time as possible."""
    pages: list[list[int]] = []
    after: list[str | None] = [None]
    while len(after) == 1 or after[-1] is not None:
        page = await find_timers(client, ENDED, wanted, size=size, page=after[-1], within_s=0.0)
        pages.append([timer.timer_key for timer in page.timers])
        after.append(page.next)
    places = [int(it) for it in after if it is not None]
    assert all(next_ < one for one, next_ in pairwise(places)), "each page leads further back"
    return pages


@pytest.fixture
async def quiet(dsn: str, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Give the ended timers of a quiet tenant, the last one first, in a log that has many others; a step reads ten."""
    monkeypatch.setattr(history, "STEP_LEAST", 10)
    monkeypatch.setattr(history, "STEP_MOST", 10)
    first = await end(dsn, "quiet", 3)
    await end(dsn, "busy", 95)
    middle = await end(dsn, "quiet", 1)
    await end(dsn, "busy", 50)
    return [*middle, *first]


@pytest.mark.parametrize("size", [1, 2, 100])
async def test_pages_that_end_early_lead_to_all_that_there_is(dsn: str, quiet: list[int], size: int) -> None:
    async with session(dsn) as client:
        pages = await pages_of(client, QUIET, size=size)

    assert [key for page in pages for key in page] == quiet
    assert [] in pages, "a page may be empty and yet not the last one"
    assert max(map(len, pages)) <= size


async def test_where_no_time_is_given_one_page_has_all(dsn: str, quiet: list[int]) -> None:
    async with session(dsn) as client:
        page = await find_timers(client, ENDED, QUIET)
        nobodys = await find_timers(client, ENDED, Filter(tenant_id="nobody"))

    assert [timer.timer_key for timer in page.timers] == quiet
    assert (page.next, nobodys.timers, nobodys.next) == (None, [], None)


async def test_a_page_is_full_however_little_time_there_is_if_one_step_finds_enough(dsn: str, quiet: list[int]) -> None:
    async with session(dsn) as client:
        page = await find_timers(client, ENDED, BUSY, size=7, within_s=0.0)

    assert len(page.timers) == 7


async def test_what_ends_while_somebody_reads_is_on_no_later_page(dsn: str, quiet: list[int]) -> None:
    async with session(dsn) as client:
        first = await find_timers(client, ENDED, QUIET, size=1)
        await end(dsn, "quiet", 2)
        rest = await find_timers(client, ENDED, QUIET, page=first.next)

    assert [timer.timer_key for timer in [*first.timers, *rest.timers]] == quiet


async def test_steps_grow_while_they_are_quick_and_shrink_when_they_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0.0

    async def take(step_s: float) -> None:
        nonlocal now_s
        now_s += step_s

    monkeypatch.setattr("shardclock_server.sql.clients.history.time.monotonic", lambda: now_s)
    steps = history._Steps()
    lengths = [steps.length]
    for step_s in (0.05, 0.05, 0.2, 0.2, 0.2):
        await steps.timed(take(step_s))
        lengths.append(steps.length)

    least = history.STEP_LEAST
    assert lengths == [least, 2 * least, 4 * least, 2 * least, least, least]
