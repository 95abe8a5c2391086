"""The commands that run things: up, demo, migrate, scale."""

import asyncio
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Annotated

import typer

from cluster import logs
from cluster.cli.output import DONE, NOT_DONE, Json, print_json, print_table, tell
from cluster.cli.store import with_session
from cluster.database import Database, open_database, wait_until_ready
from cluster.demo import EXAMPLE, run_demo
from cluster.running import TEND_S, running_cluster
from cluster.settings import load_settings
from sql import migrate as migrations
from sql.holders import list_holders
from sql.leadership import scale as set_scale
from sql.session import Session
from timers.model import SLOTS
from timers.refusal import InvalidTimer

POLL_S = 0.1


def up(
    shards: Annotated[int | None, typer.Option("--shards", min=1, max=SLOTS, help="How many; else as it was.")] = None,
) -> int:
    """Run the cluster until Ctrl-C or SIGTERM, which hands everything back."""
    logs.configure()
    settings = load_settings(shards=shards)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with open_database(settings) as database:
        if not _is_ready(database, stop):
            return DONE
        if settings.shards is not None:
            asyncio.run(_scale(database.dsn, settings.shards))
        with running_cluster(settings, database, tell=tell) as cluster:
            tell(f"running on {database.place}; `shardclock status` shows it, Ctrl-C stops it")
            while not stop.wait(TEND_S):
                cluster.tend()
            tell("stopping: handing claims back")
    return DONE


def demo(
    file: Annotated[Path, typer.Option("--file", help="The timers to fire.")] = EXAMPLE,
    as_json: Json = False,
) -> int:
    """Fire a file of timers on a cluster of its own, kill a shard half way, and check every record."""
    # Told to stop, it cleans up as after Ctrl-C: its directory is temporary.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    verdict = run_demo(file, tell=tell, live=not as_json)
    if as_json:
        print_json(verdict)
    else:
        print_table("\nverdict", ["", ""], verdict.lines())
    return DONE if verdict.holds else NOT_DONE


def migrate(
    sql: Annotated[bool, typer.Option("--sql", help="Print the SQL instead, for a DBA to apply.")] = False,
    as_json: Json = False,
) -> int:
    """Bring the database's schema up to date."""
    if sql:
        sys.stdout.write(migrations.as_script())
        return DONE
    settings = load_settings()
    with open_database(settings) as database:
        applied = asyncio.run(migrations.migrate(database.dsn))
    if as_json:
        print_json({"applied": applied})
    else:
        print_table("", ["applied"], [[name] for name in applied or ["nothing: the schema is up to date"]])
    return DONE


def scale(
    shards: Annotated[int, typer.Argument(help="How many shards are wanted, 1 to 840.")],
    wait_s: Annotated[float, typer.Option("--wait", metavar="SECONDS", help="Wait until they serve.")] = 0.0,
    as_json: Json = False,
) -> int:
    """Change how many shards the cluster runs, while it fires."""
    if not 1 <= shards <= SLOTS:
        raise InvalidTimer(f"{shards} shards are not possible: choose 1 to {SLOTS}")

    async def do(session: Session) -> int:
        before, wanted = await set_scale(session, shards)
        serving = await _serving(session, wanted, wait_s)
        if as_json:
            print_json({"before": before, "wanted": wanted, "serving": serving})
        else:
            print_table("", ["before", "wanted", "serving"], [(before, wanted, serving)])
        return DONE if serving == wanted or not wait_s else NOT_DONE

    return with_session(do)


async def _serving(session: Session, wanted: int, wait_s: float) -> int:
    deadline = time.monotonic() + wait_s
    while True:
        holders = await list_holders(session)
        serving = sum(holder.shard is not None for holder in holders)
        if serving == wanted or time.monotonic() >= deadline:
            return serving
        await asyncio.sleep(POLL_S)


async def _scale(dsn: str, shards: int) -> None:
    async with Session(dsn, application="shardclock up") as session:
        await set_scale(session, shards)


def _is_ready(database: Database, stop: threading.Event) -> bool:
    """Wait for the database, unless we are told to stop first."""

    async def wait() -> bool:
        waiting = asyncio.create_task(wait_until_ready(database, tell=tell))
        while not stop.is_set() and not waiting.done():
            await asyncio.wait([waiting], timeout=POLL_S)
        if waiting.done():
            waiting.result()
            return True
        waiting.cancel()
        return False

    return asyncio.run(wait())
