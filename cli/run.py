"""The commands that run servers: up, gateway, exporter, demo; and migrate.

Each command imports its server inside its function, because the import of a server takes up to a second.
"""

import asyncio
import secrets
import signal
import sys
import threading
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shardclock.api.codes import NOT_DONE
from shardclock_server.cli.output import DONE, Json, print_json, print_note, print_table
from shardclock_server.cli.preparation import Preparation
from shardclock_server.cluster.database import Database, open_database, require_data, wait_until_ready
from shardclock_server.cluster.settings import InvalidSettings, Settings, load_settings
from shardclock_server.sql import migrate as migrations
from shardclock_server.timers.model import SLOTS
from shardclock_server.workers.app import App, AppRefused, find_app, modules_of
from shardclock_server.workers.machine import Machine

if TYPE_CHECKING:
    from shardclock_server.cluster.host_process import HostProcess

POLL_S = 0.1
NO_RAY = (
    "SHARDCLOCK_RAY_ADDRESS names a Ray cluster, and Ray is not installed: `pip install 'shardclock[ray]'` installs it,"
    " and without the address everything runs as local processes"
)


def up(
    shards: Annotated[
        int | None,
        typer.Option("--shards", min=1, max=SLOTS, help="The wanted number of shards. Default: no change."),
    ] = None,
    app: Annotated[
        str | None,
        typer.Option("--app", metavar="MODULES", help="The modules with your handlers, separated by commas."),
    ] = None,
    python: Annotated[
        str | None,
        typer.Option(
            "--python", metavar="PROGRAM", help="The Python interpreter of the environment with your handlers."
        ),
    ] = None,
    local: Annotated[
        bool | None,
        typer.Option(
            "--local", help="Run shards, workers and engines as local processes, without Ray, even if it is installed."
        ),
    ] = None,
    keep_running: Annotated[
        bool, typer.Option("--keep-running", help="At the end, leave the joined Ray cluster and its shards running.")
    ] = False,
) -> int:
    """Run the cluster until Ctrl-C or SIGTERM; at its end, the cluster releases all claims."""
    from shardclock_server.cluster import logs
    from shardclock_server.cluster.host_process import local_host_ahead

    logs.configure()
    settings = load_settings(shards=shards, app=app, python=python, local=local)
    has_ray = find_spec("ray") is not None
    if not has_ray and settings.ray_address is not None:
        raise InvalidSettings(NO_RAY)
    settings = settings.model_copy(
        update={"cluster_id": settings.cluster_id or secrets.token_hex(8), "local": settings.local or not has_ray}
    )
    if keep_running and settings.ray_address is None:
        raise InvalidSettings("--keep-running needs a Ray cluster that continues: name it with SHARDCLOCK_RAY_ADDRESS")
    _end_at_signals()
    with local_host_ahead(is_local=settings.local or settings.has_stand_by) as ahead:
        _run(settings, _find_app(settings), keep_running=keep_running, ahead=ahead)
    return DONE


def _find_app(settings: Settings) -> App | None:
    # With --python, a process of the given interpreter imports the app, and reads the entry points of the interpreter's
    # packages.
    modules = modules_of(settings.app) if settings.python is None else settings.app or ""
    found = find_app(modules, Path.cwd(), python=settings.python) if modules or settings.python else None
    if settings.local and found is not None and (lacks := Machine.here().lacks(found.handlers, found.jobs)):
        raise AppRefused(lacks)
    return found


def _run(settings: Settings, found: App | None, *, keep_running: bool, ahead: "HostProcess | None") -> None:
    """Run a cluster until a signal stops it."""
    from shardclock_server.cluster.running import TEND_S, running_cluster
    from shardclock_server.cluster.scratch import remove_abandoned

    for path in remove_abandoned():
        print_note(f"removed {path}: the process that used it was killed")
    # Until the database runs, a signal interrupts the start, because the recovery of an embedded Postgres may take
    # minutes.
    with open_database(settings) as database:
        stop = _stop_event()
        if not _is_ready(database, stop):
            return
        preparation = Preparation(settings, found)
        preparation.begin(database.dsn)
        with running_cluster(
            settings, database, tell=print_note, keep_running=keep_running, app=found, ahead=ahead, stopped=stop.is_set
        ) as cluster:
            if stop.is_set():
                return
            print_note(
                f"running on {database.place}, {_mode(settings)}; `shardclock status` shows the cluster,"
                f" Ctrl-C stops it"
            )
            while True:
                cluster.wait(TEND_S)
                if stop.is_set():
                    break
                cluster.tend()
                preparation.maintain(database.dsn)
            print_note("stopping: the shards keep running" if keep_running else "stopping: handing claims back")


def _mode(settings: Settings) -> str:
    if settings.local:
        return "as local processes"
    return "as local processes until Ray has started" if settings.has_stand_by else "in Ray"


def gateway() -> int:
    """Serve the HTTP API until Ctrl-C or SIGTERM; a gateway needs only Postgres, and several gateways may run."""
    from shardclock_server.cluster import logs
    from shardclock_server.cluster.exporter import Exporting
    from shardclock_server.gateway.serving import run

    logs.configure()
    settings = load_settings()
    require_data(settings)
    with open_database(settings) as database:
        exporting = Exporting(
            settings.model_copy(update={"metrics_store": False}), database.dsn, tell=print_note, unready=list
        )
        try:
            own = settings.gateway.model_copy(update={"metrics_socket": exporting.socket_path})
            run(own, database.dsn, tell=print_note, maintain=exporting.tend)
        finally:
            exporting.stop()
    return DONE


def exporter() -> int:
    """Serve this node's metrics until Ctrl-C or SIGTERM: the reports of its shards, and measurements of the tables."""
    from shardclock_server.cluster import logs
    from shardclock_server.cluster.exporter import place_of
    from shardclock_server.metrics.exporter import Exporter

    logs.configure()
    settings = load_settings()
    if settings.metrics_socket is None:
        raise InvalidSettings("SHARDCLOCK_METRICS_SOCKET must name the socket where this node's shards report")
    if settings.metrics_store:
        require_data(settings)
    stop = _stop_event()
    # An exporter that does not measure the tables must not start the embedded database.
    with open_database(settings) if settings.metrics_store else nullcontext() as database:
        place = place_of(settings, settings.metrics_socket, database.dsn if database else None)
        exporter = Exporter(place)
        try:
            exporter.start()
            print_note(f"metrics at {exporter.address}/metrics")
            stop.wait()
        finally:
            exporter.close()
    return DONE


def demo(
    file: Annotated[
        Path | None, typer.Option("--file", help="A file of timers to fire. Default: 5,000 generated timers.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Fire 5,000 timers, or the timers of a file, on a temporary cluster with injected faults; check every record."""
    from shardclock_server.demo.run import run_demo

    # Handle SIGTERM like Ctrl-C, so that the demo removes its temporary directory.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    verdict = run_demo(file, tell=print_note, live=not as_json)
    if as_json:
        print_json(verdict)
    else:
        print_table("\nverdict", ["", ""], verdict.lines())
    return DONE if verdict.holds else NOT_DONE


def migrate(
    roles: Annotated[bool, typer.Option("--roles", help="Also create the group roles, with their rights.")] = False,
    sql: Annotated[bool, typer.Option("--sql", help="Print the SQL instead of running it, for a DBA.")] = False,
    as_json: Json = False,
) -> int:
    """Bring the database's schema up to date."""
    if sql:
        sys.stdout.write(migrations.as_script(roles=roles))
        return DONE
    settings = load_settings()
    with open_database(settings) as database:
        applied = asyncio.run(migrations.migrate(database.dsn, roles=roles))
    if as_json:
        print_json({"applied": list(applied.steps), "functions": list(applied.functions)})
        return DONE
    made = [f"{len(applied.functions)} functions"] if applied.functions else []
    rows = [*applied.steps, *made] or ["no change: the schema is up to date"]
    print_table("", ["applied"], [[row] for row in rows])
    return DONE


def _end_at_signals() -> None:
    """Raise KeyboardInterrupt at SIGINT and SIGTERM during the start. Imports of user code may take a minute."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)


def _stop_event() -> threading.Event:
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    return stop


def _is_ready(database: Database, stop: threading.Event) -> bool:
    """Wait for the database; return False if `stop` is set first."""

    async def wait() -> bool:
        waiting = asyncio.create_task(wait_until_ready(database, tell=print_note))
        while not stop.is_set() and not waiting.done():
            await asyncio.wait([waiting], timeout=POLL_S)
        if waiting.done():
            waiting.result()
            return True
        waiting.cancel()
        return False

    return asyncio.run(wait())
