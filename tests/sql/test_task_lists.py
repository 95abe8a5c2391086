"""A search finds each of a person's tasks once among many other tasks, and reads no more rows than its limit."""

from __future__ import annotations

from typing import Any

import pytest

from shardclock_server.sql.processes import tasks
from shardclock_server.sql.processes.tasks import FoundTask, TaskFilter, search_tasks
from shardclock_server.sql.session import CLIENT_PLANS, Session
from shardclock_server.sql.statements import statement
from shardclock_server.timers.refusal import Refusal
from tests.support.factories import BOUND_S, query
from tests.support.plans import counting_rows_read
from tests.support.sql_client import session

OTHERS = 10_000
STEP = 500
PAGE = 20
# Ann can find three tasks: the first task is assigned to her, the second task has her as a candidate, and the third
# task has her group as a candidate group. All other tasks belong to other people. The table was never analyzed.
FILL = """
    insert into shardclock.tasks (
        task_key, instance_key, token, tenant_id, process_id, node_id, name, assignee, candidate_groups, candidate_users
    )
    select
        i, i, 1, 'default', 'p', 'u', 'u',
        case when i = 7000 then 'ann' when i <= 5000 then 'bob' end,
        case when i = 9500 then array['rare'] else array['sales', 'all'] end,
        case when i in (8000, 4000) then array['ann', 'eve'] else array['eve'] end
    from generate_series(1, $1::integer) i
"""
READ = counting_rows_read("tasks")
NOTHING: dict[str, Any] = dict.fromkeys(("tenant_id", "candidate_groups", "candidate_user", "process_id"))


@pytest.fixture
async def crowded(dsn: str) -> str:
    """Name a database with many other people's tasks."""
    await query(dsn, FILL, OTHERS)
    return dsn


async def rows_read(dsn: str, name: str, **values: Any) -> int:
    """Count the tasks that a statement reads when a client sends it."""
    given = {"unassigned": False, "after": 0, "page_size": PAGE, "rows_max": STEP} | NOTHING | values
    chosen = {parameter: given.get(parameter) for parameter in statement(name).parameters}
    client = Session(dsn, application="test", timeout_s=BOUND_S, plans=CLIENT_PLANS)
    async with client, client.connection() as connection, connection.transaction():
        await connection.fetch(*statement(name).with_values(chosen))
        read: int = await connection.fetchval(READ)
    return read


async def keys(client: Session, **wanted: Any) -> list[int]:
    return [task.task_key for task in await tasks.find_tasks(client, TaskFilter(**wanted))]


async def pages_of(client: Session, wanted: TaskFilter, *, size: int) -> list[list[FoundTask]]:
    """Read page after page, with the shortest time limit."""
    page = await search_tasks(client, wanted, page_size=size, within_s=0.0)
    pages = [page.tasks]
    while page.next is not None:
        page = await search_tasks(client, wanted, after=page.next, page_size=size, within_s=0.0)
        pages.append(page.tasks)
    return pages


@pytest.mark.parametrize("tenant", [None, "default"])
async def test_a_search_for_a_persons_tasks_reads_only_these_tasks(crowded: str, tenant: str | None) -> None:
    assert await rows_read(crowded, "find_tasks_of_assignee", assignee="ann", tenant_id=tenant) == 1
    assert await rows_read(crowded, "find_tasks_of_instances", instance_key=7_000, tenant_id=tenant) == 1


@pytest.mark.parametrize(
    "asked",
    [
        {"for_user": "ann"},
        {"for_user": "ann", "candidate_groups": ["rare"]},
        {"candidate_groups": ["rare"]},
        {"candidate_user": "ann"},
        {"unassigned": True},
    ],
    ids="_".join,
)
async def test_a_step_reads_no_more_than_its_limit(crowded: str, asked: dict[str, Any]) -> None:
    assert await rows_read(crowded, "find_tasks", **asked) <= 2 * STEP, "its rows, and where they end"


async def test_a_step_for_a_tenant_reads_no_rows_of_other_tenants(crowded: str) -> None:
    late = "insert into shardclock.tasks (task_key, instance_key, token, tenant_id, process_id, node_id, name)"
    await query(
        crowded, f"{late} select i, i, 1, 'late', 'p', 'u', 'u' from generate_series($1::integer, $2) i", 20_001, 21_000
    )
    await query(crowded, "analyze shardclock.tasks")

    assert await rows_read(crowded, "find_tasks", tenant_id="late", for_user="nobody", rows_max=100) <= 300


async def test_a_page_that_is_full_at_once_reads_only_its_rows(crowded: str) -> None:
    assert await rows_read(crowded, "find_tasks", candidate_groups=["sales"]) <= PAGE


async def test_one_list_has_the_tasks_of_a_person_and_the_tasks_that_the_person_may_take(crowded: str) -> None:
    async with session(crowded) as client:
        assert await keys(client, for_user="ann") == [7_000, 8_000], "another has the one that she could take"
        assert await keys(client, for_user="ann", candidate_groups=["rare", "none"]) == [7_000, 8_000, 9_500]
        assert await keys(client, for_user="ann", candidate_groups=["rare"], unassigned=True) == [8_000, 9_500]
        assert await keys(client, for_user="ann", instance_key=8_000) == [8_000]
        assert await keys(client, for_user="nobody") == []
        assert await keys(client, candidate_groups=["rare", "none"]) == [9_500]
        assert await keys(client, assignee="ann", candidate_groups=["rare"]) == []
        assert await keys(client, assignee="ann", tenant_id="default") == [7_000]
        assert await keys(client, assignee="ann", tenant_id="other") == []


@pytest.mark.parametrize("size", [1, 2, 100])
async def test_all_tasks_are_on_the_pages_even_if_pages_end_early(
    crowded: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "STEP_ROWS", STEP)
    wanted = TaskFilter(tenant_id="default", for_user="ann", candidate_groups=("rare",))
    async with session(crowded) as client:
        pages = await pages_of(client, wanted, size=size)
        whole = await search_tasks(client, wanted)

    assert [task.task_key for page in pages for task in page] == [7_000, 8_000, 9_500]
    assert [] in pages, "a page may be empty and yet not the last one"
    assert max(map(len, pages)) <= size
    assert [task.task_key for task in whole.tasks] == [7_000, 8_000, 9_500], "where no time is given one page has all"
    assert whole.next is None


async def test_all_tasks_are_on_the_full_pages(crowded: str) -> None:
    async with session(crowded) as client:
        pages = await pages_of(client, TaskFilter(candidate_groups=("sales",)), size=1_000)
    assert [task.task_key for page in pages for task in page] == [key for key in range(1, OTHERS + 1) if key != 9_500]


async def test_tasks_are_found_and_shown_with_the_business_key_of_their_instance(crowded: str) -> None:
    await query(
        crowded,
        "insert into shardclock.business_keys (instance_key, tenant_id, business_key)"
        " values (10, 'default', 'order-42'), (20, 'default', 'order-42'), (30, 'default', 'order-43')",
    )
    async with session(crowded) as client:
        found = await tasks.find_tasks(client, TaskFilter(business_key="order-42"))
        assert [(task.task_key, task.business_key) for task in found] == [(10, "order-42"), (20, "order-42")]
        first = (await tasks.find_tasks(client, page_size=30))[9]
        assert first.business_key == "order-42"
        whole = await tasks.find_task(client, 30)
        assert whole is not None
        assert whole.business_key == "order-43"
        assert await keys(client, business_key="order-42", instance_key=10) == [10]
        assert await keys(client, business_key="order-42", instance_key=30) == []
        assert await keys(client, business_key="order-42", assignee="bob", tenant_id="default") == [10, 20]
        assert await keys(client, business_key="order-42", tenant_id="other") == []
        page = await search_tasks(client, TaskFilter(business_key="order-42"), page_size=1)
        assert (page.tasks[0].task_key, page.next) == (10, 10)
    assert await rows_read(crowded, "find_tasks_of_instances", business_key="order-42") == 2


@pytest.mark.parametrize("other", [{"unassigned": True}, {"for_user": "bob"}], ids=lambda other: next(iter(other)))
def test_an_assignee_excludes_filters_for_other_people(other: dict[str, Any]) -> None:
    with pytest.raises(Refusal, match=f"assignee 'ann' and {next(iter(other))} exclude each other"):
        TaskFilter(assignee="ann", **other)
