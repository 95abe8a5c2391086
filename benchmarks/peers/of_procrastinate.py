"""procrastinate: python of_procrastinate.py open DSN | work DSN SHEET | add DSN COUNT."""

import asyncio
import sys
import time
from datetime import UTC, datetime, timedelta

import procrastinate
from recording import Sheet, until_told_to_stop

CONCURRENCY = 100


def app_on(dsn: str) -> procrastinate.App:
    """Create an application for a database."""
    return procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=dsn, min_size=4, max_size=16))


async def open_(dsn: str) -> None:
    """Create the peer's tables."""
    app = app_on(dsn)
    async with app.open_async():
        await app.schema_manager.apply_schema_async()


async def work(dsn: str, path: str) -> None:
    """Fire timers until the benchmark closes standard input."""
    sheet, app = Sheet(path), app_on(dsn)

    @app.task(name="fire")
    async def fire(due: float) -> None:
        sheet.note(due)

    async with app.open_async():
        running = asyncio.ensure_future(
            app.run_worker_async(
                concurrency=CONCURRENCY,
                fetch_job_polling_interval=0.1,
                delete_jobs="always",
                install_signal_handlers=False,
            )
        )
        await until_told_to_stop(sheet, running, running.cancel)


async def add(dsn: str, count: str) -> None:
    """Add jobs with the bulk function, a thousand at a time; print the seconds that this took."""
    app = app_on(dsn)

    @app.task(name="fire")
    async def fire(due: float) -> None: ...

    async with app.open_async():
        began_s = time.perf_counter()
        for _ in range(0, int(count), 1000):
            at = datetime.now(UTC) + timedelta(days=1)
            await fire.configure(schedule_at=at).batch_defer_async(*[{"due": 0.0}] * 1000)
        sys.stdout.write(f"{time.perf_counter() - began_s}\n")


if __name__ == "__main__":
    asyncio.run({"open": open_, "work": work, "add": add}[sys.argv[1]](*sys.argv[2:]))
