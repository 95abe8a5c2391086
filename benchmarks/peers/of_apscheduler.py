"""APScheduler 4: python of_apscheduler.py open DSN | work DSN SHEET | put DSN COUNT AT EVERY_S | add DSN COUNT."""

import asyncio
import sys
import time
from datetime import UTC, datetime, timedelta

from apscheduler import AsyncScheduler, ConflictPolicy
from apscheduler.datastores.sqlalchemy import SQLAlchemyDataStore
from apscheduler.eventbrokers.asyncpg import AsyncpgEventBroker
from apscheduler.triggers.date import DateTrigger
from recording import Sheet, until_told_to_stop
from sqlalchemy.ext.asyncio import create_async_engine

BESIDE = 50  # the number of concurrent calls; APScheduler has no bulk function
sheet: Sheet | None = None


async def fire(due_s: float) -> None:
    """Fire one timer."""
    if sheet is not None:
        sheet.note(due_s)


def scheduler_on(dsn: str) -> AsyncScheduler:
    """Create a scheduler for a database."""
    engine = create_async_engine(dsn.replace("postgresql://", "postgresql+asyncpg://", 1), pool_size=20)
    broker = AsyncpgEventBroker.from_async_sqla_engine(engine)
    return AsyncScheduler(
        SQLAlchemyDataStore(engine), broker, max_concurrent_jobs=1000, cleanup_interval=None, identity=str(time.time())
    )


async def open_(dsn: str) -> None:
    """Create the peer's tables."""
    async with scheduler_on(dsn):
        pass


async def work(dsn: str, path: str) -> None:
    """Fire timers until the benchmark closes standard input."""
    global sheet  # noqa: PLW0603 - tasks are stored by their functions' names, so `fire` must be a module's function
    sheet = Sheet(path)
    async with scheduler_on(dsn) as scheduler:
        running = asyncio.ensure_future(scheduler.run_until_stopped())
        await until_told_to_stop(sheet, running, running.cancel)


async def put(dsn: str, count: str, at: str, every_s: str) -> None:
    """Create schedules that fire once, at even intervals."""
    begin, places = datetime.fromtimestamp(float(at), UTC), asyncio.Semaphore(BESIDE)
    async with scheduler_on(dsn) as scheduler:

        async def add_one(number: int) -> None:
            due = begin + timedelta(seconds=number * float(every_s))
            async with places:
                await scheduler.add_schedule(
                    fire, DateTrigger(due), args=[due.timestamp()], conflict_policy=ConflictPolicy.replace
                )

        await asyncio.gather(*(add_one(number) for number in range(int(count))))


async def add(dsn: str, count: str) -> None:
    """Create schedules for tomorrow; print the seconds that this took."""
    began_s = time.perf_counter()
    await put(dsn, count, str(time.time() + 86_400), "0")
    sys.stdout.write(f"{time.perf_counter() - began_s}\n")


if __name__ == "__main__":
    # APScheduler stores a task as module:function, so another process must be able to import this module by its name.
    import of_apscheduler as module

    asyncio.run(
        {"open": module.open_, "work": module.work, "put": module.put, "add": module.add}[sys.argv[1]](*sys.argv[2:])
    )
