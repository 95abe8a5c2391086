"""Test that the clients over SQL and over HTTP are alike: the same methods, answers, errors and sentences."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any, assert_type

import asyncpg
import psycopg
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

import shardclock.http
import shardclock.sql
from shardclock import AsyncClient
from shardclock.sql import ApiError, AsyncTimers, Changed, Timers, timers
from tests.support import ROOT
from tests.support.factories import pending_keys
from tests.support.roles import as_role
from tests.support.user_connections import UserConnection

# Parameters that only one of the clients has: HTTP requests have keys and waits, a run in a transaction has a name.
OF_HTTP = {"idempotency_key", "if_match", "wait"}
OF_SQL = {"operation"}
VERBS = ("cancel", "pause", "resume", "run", "get", "move")


@pytest.fixture
async def each(client: AsyncClient, one: UserConnection) -> dict[str, Any]:
    """Provide both ways to call a method, over SQL and over HTTP, on one database."""

    async def by_http(method: str, **fields: Any) -> Any:
        return await getattr(client, method)(**fields)

    async def by_sql(method: str, **fields: Any) -> Any:
        try:
            return await one.ask(method, **fields)
        finally:
            await one.commit()

    return {"http": by_http, "sql": by_sql}


def test_both_clients_have_the_same_methods_with_the_same_parameters() -> None:
    for ours, theirs in ((AsyncTimers, shardclock.AsyncClient), (Timers, shardclock.Client)):
        methods = {name: it for name, it in vars(ours).items() if inspect.isfunction(it) and not name.startswith("_")}
        assert set(methods) == {"schedule", "put", *VERBS}
        for name, method in methods.items():
            parameters = inspect.signature(method).parameters
            others = inspect.signature(getattr(theirs, name)).parameters
            assert {it: parameters[it] for it in parameters if it not in OF_SQL} == {
                it: others[it] for it in others if it not in OF_HTTP
            }, name


def test_both_clients_have_the_same_classes() -> None:
    shared = set(shardclock.sql.__all__) & set(shardclock.http.__all__)

    assert {"ApiError", "NameTaken", "TooLate", "TimerState", "New"} <= shared
    assert [name for name in shared if getattr(shardclock.sql, name) is not getattr(shardclock.http, name)] == []
    assert [name for name in shardclock.sql.__all__ if not hasattr(shardclock.sql, name)] == []


@pytest.mark.parametrize(
    "timer",
    [
        {"delay": "P1D"},
        {"due_date": "2031-01-31T08:00", "zone": "Europe/Berlin", "payload": {"a": [1, None, 1.5]}, "name": "n"},
        {"schedule": "R5/PT1H", "missed": "skip", "target_element_id": "e", "timer_type": "BOUNDARY"},
        {"due_date": "2031-01-31T08:00:00Z", "process_instance_key": 7, "element_instance_key": 8},
    ],
    ids=str,
)
async def test_both_clients_make_and_find_the_same_timer(each: dict[str, Any], timer: dict[str, Any]) -> None:
    made = {way: await ask("schedule", **timer | _named(way, timer)) for way, ask in each.items()}
    found = {
        (by, of): (await ask("get", timer_key=made[of].timer_key)).model_copy(update={"etag": None})
        for by, ask in each.items()
        for of in each
    }

    assert made["sql"].model_dump().keys() == made["http"].model_dump().keys()
    for of in each:
        assert found["sql", of] == found["http", of]
    drawn = {"timer_key", "created_at", "due_date", "name"}
    assert found["sql", "sql"].model_dump(exclude=drawn) == found["sql", "http"].model_dump(exclude=drawn)
    if "due_date" in timer:
        assert made["sql"].due_date == made["http"].due_date


async def test_both_clients_raise_the_same_error_for_an_ended_unknown_or_paused_timer(each: dict[str, Any]) -> None:
    made = await each["sql"]("schedule", delay="PT1H", name="n")
    await each["http"]("cancel", name="n")
    for verb in VERBS:
        to = {"delay": "PT1H"} if verb == "move" else {}
        for which in ({"timer_key": made.timer_key}, {"name": "n"}, {"timer_key": made.timer_key + 1}, {"name": "x"}):
            told = [await _told(ask, verb, **which, **to) for ask in each.values()]
            assert told[0] == told[1]
    await each["sql"]("schedule", delay="PT1H", name="n")
    await each["http"]("pause", name="n")
    told = [await _told(ask, "run", name="n") for ask in each.values()]
    assert told[0] == told[1]
    assert "resume it first" in str(told[0])


async def test_both_clients_refuse_an_unknown_zone_of_a_local_date_alike(each: dict[str, Any]) -> None:
    await each["sql"]("schedule", delay="PT1H", name="n")
    given = {"due_date": "2031-01-31T08:00", "zone": "Berlin"}
    for ask in each.values():
        for method, fields in (("schedule", given), ("put", {"name": "n", **given}), ("move", {"name": "n", **given})):
            with pytest.raises(
                ApiError, match=r"^zone 'Berlin' is not an IANA time zone; write one such as"
            ) as refused:
                await ask(method, **fields)
            assert refused.value.code == "invalid_zone"


def _typed(
    connection: psycopg.Connection[dict[str, Any]],
    session: Session,
    awaited: AsyncSession,
    of_asyncpg: asyncpg.Connection,
) -> None:
    """Check the types of both variants: type checkers read this function, and no test calls it."""
    assert_type(timers(connection), Timers)
    assert_type(timers(session), Timers)
    assert_type(timers(awaited), AsyncTimers)
    assert_type(timers(of_asyncpg), AsyncTimers)


async def test_wrappers_and_subclasses_of_a_session_are_accepted(dsn: str) -> None:
    class Own(Session):
        """A subclass, as in Flask-SQLAlchemy and SQLModel."""

    where = as_role(dsn, "scheduler")
    engine = sqlalchemy.create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(where))
    scoped = scoped_session(sessionmaker(engine))
    with Own(engine) as session:
        assert timers(session).schedule(delay="PT1H").outcome == "created"
    assert timers(scoped).schedule(delay="PT1H").outcome == "created"
    scoped.remove()
    engine.dispose()
    awaited = create_async_engine("postgresql+asyncpg://", async_creator=lambda: asyncpg.connect(where))
    async_scoped = async_scoped_session(async_sessionmaker(awaited), scopefunc=asyncio.current_task)
    assert (await timers(async_scoped).schedule(delay="PT1H")).outcome == "created"
    await async_scoped.remove()
    await awaited.dispose()
    assert await pending_keys(dsn) == [], "nobody has committed"


def test_a_timer_is_committed_at_once_on_an_autocommit_connection(dsn: str) -> None:
    with psycopg.connect(as_role(dsn, "scheduler"), autocommit=True) as connection:
        made = timers(connection).schedule(delay="PT1H")
        with psycopg.connect(as_role(dsn, "scheduler")) as other:
            assert timers(other).get(timer_key=made.timer_key).state == "PENDING"


async def test_a_value_that_is_not_a_connection_is_refused(dsn: str) -> None:
    engine = sqlalchemy.create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(dsn))
    async with asyncpg.create_pool(as_role(dsn, "scheduler"), min_size=1, max_size=1) as pool:
        for other in (None, "postgresql://", engine, sessionmaker(engine), pool, sqlalchemy.select(1)):
            with pytest.raises(TypeError, match=r"is not a connection of .*; pass the connection or session"):
                timers(other)  # type: ignore[call-overload]
    engine.dispose()


def test_a_driver_is_imported_only_for_its_own_connection(tmp_path: Path) -> None:
    asked = """if True:
        import sys
        from shardclock.sql import timers
        LIBRARIES = {"asyncpg", "django", "httpx2", "psycopg", "sqlalchemy"}
        print(sorted(LIBRARIES & set(sys.modules)))
        import psycopg
        print(timers(object.__new__(psycopg.Connection)))
        print(sorted(LIBRARIES & set(sys.modules)))
    """
    path = ":".join([str(ROOT / "client"), *(it for it in sys.path if it and Path(it) != ROOT)])
    done = subprocess.run(
        [sys.executable, "-c", asked],
        env={"PYTHONPATH": path},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.splitlines() == ["[]", "<Timers of tenant 'default'>", "['psycopg']"]


def _named(way: str, timer: dict[str, Any]) -> dict[str, str]:
    """Give the calls over SQL and HTTP different timer names, because a name belongs to one timer."""
    return {"name": f"{timer['name']}-{way}"} if "name" in timer else {}


async def _told(ask: Any, method: str, **fields: Any) -> object:
    try:
        answer = await ask(method, **fields)
        if isinstance(answer, Changed):  # Only HTTP answers with the key of a timer that was given by its name.
            return answer.model_copy(update={"timer_key": fields.get("timer_key")})
        return answer.model_copy(update={"etag": None}) if method == "get" else answer
    except ApiError as error:
        return type(error), str(error), error.type, error.members, error.may_be_done
