"""The demo: schedule a file of timers on a real cluster, kill a shard half way, and judge the recorded rows."""

import asyncio
import os
import signal
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.table import Table

from cluster.database import Database, open_database, wait_until_ready
from cluster.example import example_lines
from cluster.running import TEND_S, ClusterFailed, RunningCluster, Tell, running_cluster
from cluster.scratch import Scratch, remove_abandoned
from cluster.settings import load_settings
from cluster.verdict import Kill, Verdict, judge, promises
from service.bulk_import import ImportReport, import_lines, numbered_lines
from service.words import counted
from sql.cluster.holders import Holder, list_holders
from sql.log.records import LogRecord, read_log
from sql.metrics.status import Status, read_status
from sql.session import Session, StoreUnavailable
from timers.refusal import InvalidTimer, Refusal

SHARDS = 2
READY_S = 30.0
PATIENCE_S = 30.0  # after the last due date: longer than a lease and a restart of Ray
LOOK_S = 0.1


@dataclass(slots=True)
class Seen:
    """What the demo has read so far."""

    position: int = 0
    records: list[LogRecord] = field(default_factory=list)
    fired: int = 0
    kill: Kill | None = None
    status: Status | None = None
    holders: Sequence[Holder] = ()

    def learn(self, records: Sequence[LogRecord]) -> None:
        """Add the next records."""
        self.records += records
        self.fired += sum(record.intent == "TRIGGERED" for record in records)
        if records:
            self.position = records[-1].position


def run_demo(file: Path | None, *, tell: Tell, live: bool) -> Verdict:
    """Run a new cluster in a temporary directory, and fire the timers of a file, or the example's, on it.

    errors:  Refusal        the file can't be read, or a line of it is refused
             ClusterFailed  the cluster doesn't come up
    """
    remove_abandoned()
    scratch = Scratch.make("demo")
    settings = load_settings(data_dir=scratch.path / "postgres").model_copy(
        update={"dsn": None, "dsn_file": None, "ray_address": None, "metrics_port": 0}
    )
    try:
        # The logs of Ray's processes go to a file, so that they don't disturb the live table.
        with (scratch.path / "ray.log").open("wb") as logs, open_database(settings) as database:
            asyncio.run(wait_until_ready(database, tell=tell))
            tell("starting Ray and two shards")
            with running_cluster(settings, database, tell=tell, logs=logs) as cluster:
                return asyncio.run(_Demo(database, cluster, tell=tell).run(file, live=live))
    finally:
        scratch.remove()


class _Demo:
    """One run: wait for the shards, schedule, watch and kill, judge."""

    def __init__(self, database: Database, cluster: RunningCluster, *, tell: Tell) -> None:
        self._cluster = cluster
        self._tell = tell
        self._session = Session(database.dsn, application="shardclock demo")
        self._seen = Seen()

    async def run(self, file: Path | None, *, live: bool) -> Verdict:
        """Make the whole run."""
        tending = asyncio.create_task(self._tend(), name="tend")
        try:
            async with self._session:
                await self._wait_for_shards()
                report = await self._schedule(file)
                await self._watch(report, live=live)
                return judge(report.timers, self._seen.records, self._seen.kill)
        finally:
            tending.cancel()

    async def _tend(self) -> None:
        """Restart whatever dies during the demo: a user may kill any of its processes."""
        while True:
            await asyncio.to_thread(self._cluster.tend)
            await asyncio.sleep(TEND_S)

    async def _wait_for_shards(self) -> None:
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline:
            await self._look()
            if sum(holder.part is not None for holder in self._seen.holders) == SHARDS:
                return
            await asyncio.sleep(LOOK_S)
        raise ClusterFailed(f"{SHARDS} shards did not come up within {READY_S:.0f} s")

    async def _schedule(self, file: Path | None) -> ImportReport:
        report, begin = ImportReport(), time.monotonic()
        try:
            with nullcontext() if file is None else file.open("rb") as lines:
                numbered = enumerate(example_lines(), start=1) if lines is None else numbered_lines(lines)
                await import_lines(self._session, numbered, report, keep=True)
        except OSError as error:
            raise Refusal(f"can't read {file}: {error.strerror}; name a file with --file") from error
        for refused in report.refused:
            raise InvalidTimer(f"{file.name if file else 'example'} line {refused.number}: {refused.why}")
        took_s = time.monotonic() - begin
        source = f" from {file.name}" if file else ""
        self._tell(f"{counted(report.scheduled, 'timer')} scheduled{source} in {took_s:.2f} s")
        return report

    async def _watch(self, report: ImportReport, *, live: bool) -> None:
        promised = sum(1 for timer in report.timers for _ in promises(*timer))
        give_up_at = await self._last_due(report) + PATIENCE_S
        with Live(console=Console(stderr=True), auto_refresh=False, transient=True, screen=False) as view:
            while self._seen.fired < promised and time.monotonic() < give_up_at:
                await self._look()
                if self._seen.kill is None and self._seen.fired >= promised / 2:
                    self._kill_a_shard()
                if live:
                    view.update(_table(self._seen, promised), refresh=True)
                await asyncio.sleep(LOOK_S)

    async def _last_due(self, report: ImportReport) -> float:
        """Find when the last firing is due, by our own clock; a repeat's last is its first plus the other periods."""
        await self._look()
        now = self._seen.status.server_time if self._seen.status else report.timers[0][0].due_date
        last = max(
            scheduled.due_date + (sum(1 for _ in promises(scheduled, timer)) - 1) * (scheduled.due_date - now)
            for scheduled, timer in report.timers
        )
        return time.monotonic() + max(last - now, timedelta(0)).total_seconds()

    async def _look(self) -> None:
        """Read what is new; if Postgres does not answer, keep what was read before."""
        try:
            self._seen.status = await read_status(self._session)
            self._seen.holders = await list_holders(self._session)
            self._seen.learn(await read_log(self._session, self._seen.position, limit=10_000))
        except StoreUnavailable:
            return

    def _kill_a_shard(self) -> None:
        victim = next((holder for holder in self._seen.holders if holder.part is not None), None)
        if victim is None or victim.part is None or victim.part_count is None or self._seen.status is None:
            return
        self._seen.kill = Kill(self._seen.status.server_time, victim.part, victim.part_count)
        try:
            os.kill(victim.pid, signal.SIGKILL)
        except ProcessLookupError:
            self._seen.kill = None  # it had died already; choose another one
            return
        self._tell(f"kill -9 of shard {victim.part} (pid {victim.pid})")


def _table(seen: Seen, promised: int) -> Table:
    table = Table("shard", "holder", "pid", "held", box=None, header_style="bold", pad_edge=False)
    for holder in seen.holders:
        shard = "starting" if holder.part is None else f"{holder.part} of {holder.part_count}"
        table.add_row(shard, f"{holder.holder:016x}", str(holder.pid), str(holder.held))
    state = seen.status
    lag = (
        ""
        if state is None or state.lag_p50_ms is None
        else f"lag p50 {state.lag_p50_ms:.1f}, p99 {state.lag_p99_ms:.1f} ms"
    )
    pending = 0 if state is None else state.pending
    table.title = f"fired {seen.fired:,} of {promised:,}, pending {pending:,}  {lag}"
    table.title_justify = "left"
    return table
