"""The demo: fire timers on a real cluster, kill a shard and a worker half way, and check the records."""

import asyncio
import os
import signal
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.live import Live
from rich.table import Table

from shardclock.log import LogRecord
from shardclock.log.async_reading import read_log
from shardclock_server.cluster.database import Database, open_database, wait_until_ready
from shardclock_server.cluster.failed import ClusterFailed
from shardclock_server.cluster.kept_host import Tell
from shardclock_server.cluster.running import TEND_S, RunningCluster, running_cluster
from shardclock_server.cluster.scratch import Scratch, remove_abandoned
from shardclock_server.cluster.settings import Settings, load_settings
from shardclock_server.demo.calls import calls_file, read_calls
from shardclock_server.demo.delivery_verdict import ENDS, judge_deliveries
from shardclock_server.demo.example import example_lines
from shardclock_server.demo.verdict import Kill, Verdict, judge, promises
from shardclock_server.service.bulk_import import ImportReport, import_lines, numbered_lines
from shardclock_server.service.wording import counted
from shardclock_server.sql.cluster.holders import SHARD, WORKER, Holder, list_holders
from shardclock_server.sql.deliveries.handlers import declare_handlers
from shardclock_server.sql.metrics.status import Status, read_status
from shardclock_server.sql.session import Session, StoreUnavailable
from shardclock_server.timers.refusal import InvalidTimer, Refusal
from shardclock_server.workers.app import App, find_app

APP = "shardclock_server.demo.app"
SHARDS = 2
READY_S = 30.0
PATIENCE_S = 30.0  # the longest wait after the last due date, longer than a lease and a restart of Ray
LOOK_S = 0.1
RAY_ADDRESS = "SHARDCLOCK_RAY_ADDRESS"


class Promised(NamedTuple):
    """The number of promised firings, and the number of promised firings with a target."""

    firings: int
    deliveries: int


@dataclass(slots=True)
class Seen:
    """The records that the demo has read so far, and the keepers that it has killed."""

    position: int = 0
    records: list[LogRecord] = field(default_factory=list)
    fired: int = 0
    ended: int = 0
    kill: Kill | None = None
    worker_killed_s: float | None = None
    status: Status | None = None
    holders: Sequence[Holder] = ()

    def learn(self, records: Sequence[LogRecord]) -> None:
        """Add the next records."""
        self.records += records
        self.fired += sum(record.intent == "TRIGGERED" for record in records)
        self.ended += sum(record.intent in ENDS for record in records)
        if records:
            self.position = records[-1].position

    def has_all(self, promised: Promised) -> bool:
        """Return whether all promised firings have happened, and their deliveries have ended."""
        return self.fired >= promised.firings and self.ended >= promised.deliveries

    def serving(self, role: str) -> list[Holder]:
        """List the keepers of a role that have slots."""
        return [holder for holder in self.holders if holder.role == role and holder.part is not None]


def run_demo(file: Path | None, *, tell: Tell, live: bool) -> Verdict:
    """Run a new cluster in a temporary directory, and fire the timers of a file or of the example.

    Without Ray, or with SHARDCLOCK_LOCAL, the keepers run as local processes.

    errors:  Refusal        the file can't be read, or a line is refused
             AppRefused     the demo's app can't be imported
             ClusterFailed  the cluster doesn't start
    """
    remove_abandoned()
    scratch = Scratch.make("demo")
    try:
        settings, mode = _settings(scratch.path / "postgres")
        calls = calls_file(settings.data_dir)
        calls.touch()
        app = find_app(APP, scratch.path)
        # The processes of the keepers log to a file, so that they don't disturb the live table.
        with (scratch.path / "keepers.log").open("wb") as logs, open_database(settings) as database:
            asyncio.run(wait_until_ready(database, tell=tell))
            tell(f"starting {mode}")
            with running_cluster(settings, database, tell=tell, logs=logs, app=app) as cluster:
                return asyncio.run(_Demo(database, cluster, app, calls, tell=tell).run(file, live=live))
    finally:
        scratch.remove()


def _settings(data_dir: Path) -> tuple[Settings, str]:
    """Return the settings of the demo's cluster, and its description for the output.

    The keepers run in Ray if it is installed and SHARDCLOCK_LOCAL is not set.
    """
    given, has_ray = load_settings(data_dir=data_dir), find_spec("ray") is not None
    own = {
        "dsn": None,
        "dsn_file": None,
        "ray_address": None,
        "metrics_port": 0,
        "gateway_enabled": False,
        "standby": False,
        "local": given.local or not has_ray,
    }
    # The host process inherits these variables. The demo kills keepers, so it must not join another Ray cluster.
    os.environ.pop(RAY_ADDRESS, None)
    mode = "Ray, two shards and two workers"
    if own["local"]:
        why = "SHARDCLOCK_LOCAL is set" if given.local else "Ray is not installed"
        mode = f"two shards and two workers as local processes ({why})"
    return given.model_copy(update=own), mode


class _Demo:
    """One run: wait for the shards, schedule, watch and kill, check."""

    def __init__(self, database: Database, cluster: RunningCluster, app: App, calls: Path, *, tell: Tell) -> None:
        self._cluster = cluster
        self._app = app
        self._calls = calls
        self._tell = tell
        self._session = Session(database.dsn, application="shardclock demo")
        self._seen = Seen()

    async def run(self, file: Path | None, *, live: bool) -> Verdict:
        """Execute the run from the start to the verdict."""
        tending = asyncio.create_task(self._tend(), name="tend")
        try:
            async with self._session:
                await declare_handlers(self._session, [handler.declared() for handler in self._app.handlers])
                await self._wait_for_shards()
                report = await self._schedule(file)
                promised = _promised(report)
                await self._watch(promised, give_up_at=await self._last_due(report) + PATIENCE_S, live=live)
                return self._judge(report, promised)
        finally:
            tending.cancel()

    async def _tend(self) -> None:
        """Restart processes that die during the demo, because a user may kill any process."""
        while True:
            await asyncio.to_thread(self._cluster.tend)
            await asyncio.sleep(TEND_S)

    async def _wait_for_shards(self) -> None:
        """Wait only for the shards: deliveries can wait until the workers have started."""
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline:
            await self._look()
            if len(self._seen.serving(SHARD)) == SHARDS:
                return
            await asyncio.sleep(LOOK_S)
        raise ClusterFailed(f"{SHARDS} shards did not start within {READY_S:.0f} s")

    async def _schedule(self, file: Path | None) -> ImportReport:
        report, begin = ImportReport(), time.monotonic()
        try:
            with nullcontext() if file is None else file.open("rb") as lines:
                numbered = enumerate(example_lines(), start=1) if lines is None else numbered_lines(lines)
                await import_lines([self._session], numbered, report, keep=True)
        except OSError as error:
            raise Refusal(f"can't read {file}: {error.strerror}; give another file with --file") from error
        for refused in report.refused:
            raise InvalidTimer(f"{file.name if file else 'example'} line {refused.number}: {refused.why}")
        took_s = time.monotonic() - begin
        source = f" from {file.name}" if file else ""
        self._tell(f"{counted(report.scheduled, 'timer')} scheduled{source} in {took_s:.2f} s")
        return report

    async def _watch(self, promised: Promised, *, give_up_at: float, live: bool) -> None:
        seen = self._seen
        screen = Console(stderr=True, emoji=False, markup=False)
        with Live(console=screen, auto_refresh=False, transient=True, screen=False) as view:
            while not seen.has_all(promised) and time.monotonic() < give_up_at:
                await self._look()
                self._kill_half_way(promised)
                if live:
                    view.update(_table(seen, promised), refresh=True)
                await asyncio.sleep(LOOK_S)

    async def _last_due(self, report: ImportReport) -> float:
        """Compute the due date of the last firing; a repeat ends at its first due date plus its periods."""
        await self._look()
        now = self._seen.status.server_time if self._seen.status else report.timers[0][0].due_date
        last = max(
            scheduled.due_date + (sum(1 for _ in promises(scheduled, timer)) - 1) * (scheduled.due_date - now)
            for scheduled, timer in report.timers
        )
        return time.monotonic() + max(last - now, timedelta(0)).total_seconds()

    async def _look(self) -> None:
        """Read the new records; if Postgres does not answer, keep the earlier records."""
        try:
            self._seen.status = await read_status(self._session)
            self._seen.holders = await list_holders(self._session)
            self._seen.learn(await read_log(self._session, self._seen.position, limit=10_000))
        except StoreUnavailable:
            return

    def _kill_half_way(self, promised: Promised) -> None:
        """Kill a shard when half of the timers have fired, and a worker when half of the deliveries have ended."""
        seen = self._seen
        if seen.kill is None and seen.fired >= promised.firings / 2 and seen.status is not None:
            victim = self._kill_one(SHARD)
            if victim is not None and victim.part is not None and victim.part_count is not None:
                seen.kill = Kill(seen.status.server_time, victim.part, victim.part_count)
        if seen.worker_killed_s is None and promised.deliveries and seen.ended >= promised.deliveries / 2:
            killed_s = time.monotonic()
            if self._kill_one(WORKER):
                seen.worker_killed_s = killed_s

    def _kill_one(self, role: str) -> Holder | None:
        """Kill the role's keeper with the most leased rows, and return this keeper; None if the role has no keeper."""
        victim = max(self._seen.serving(role), key=lambda holder: holder.held, default=None)
        if victim is None:
            return None
        try:
            os.kill(victim.pid, signal.SIGKILL)
        except ProcessLookupError:
            return None  # the keeper has died already; the next call chooses another keeper
        self._tell(f"kill -9 of {role} {victim.part} (pid {victim.pid})")
        return victim

    def _judge(self, report: ImportReport, promised: Promised) -> Verdict:
        seen = self._seen
        verdict = judge(report.timers, seen.records, seen.kill)
        if not promised.deliveries:
            return verdict
        calls = read_calls(self._calls)
        deliveries = judge_deliveries(promised.deliveries, seen.records, calls, seen.worker_killed_s)
        return replace(verdict, deliveries=deliveries)


def _promised(report: ImportReport) -> Promised:
    targets = [timer.target for scheduled, timer in report.timers for _ in promises(scheduled, timer)]
    return Promised(len(targets), sum(target != "log" for target in targets))


def _table(seen: Seen, promised: Promised) -> Table:
    table = Table("keeper", "holder", "pid", "held", box=None, header_style="bold", pad_edge=False)
    for holder in seen.holders:
        part = "starting" if holder.part is None else f"{holder.part} of {holder.part_count}"
        table.add_row(f"{holder.role} {part}", f"{holder.holder:016x}", str(holder.pid), str(holder.held))
    state = seen.status
    lag = (
        ""
        if state is None or state.lag_p50_ms is None
        else f"lag p50 {state.lag_p50_ms:.1f}, p99 {state.lag_p99_ms:.1f} ms"
    )
    pending = 0 if state is None else state.pending
    title = f"fired {seen.fired:,} of {promised.firings:,}, pending {pending:,}  {lag}"
    if promised.deliveries:
        title += f"\ndeliveries ended {seen.ended:,} of {promised.deliveries:,}"
    table.title, table.title_justify = title, "left"
    return table
