"""Shardclock with jobs that do nothing."""

import asyncio
import json
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from benchmarks.contenders.contender import Firing
from benchmarks.contenders.handlers import WORKERS, wait_for_workers
from benchmarks.contenders.ours import PATIENCE_S, OnRay
from benchmarks.contenders.recorded import Recorded
from shardclock_server.sql.jobs.declare import declare_jobs
from shardclock_server.workers.app import find_app

APP = Path(__file__).with_name("beating.py")
# The time between the starts of two jobs, in seconds. With this value, the starts of any number of jobs are spread
# evenly over a second.
SPREAD = (5**0.5 - 1) / 2
APPLY = "select shardclock.apply_job(said) from unnest($1::jsonb[]) as said"
BEGUN = """
    select extract(epoch from scheduled_at)::double precision, extract(epoch from started_at)::double precision
    from shardclock.job_runs
    where outcome is distinct from 'SKIPPED'
"""


class WithJobs(Recorded, OnRay):
    """A cluster of two shards and two workers, as `shardclock up --app` starts it, with jobs that start each second."""

    def __init__(self) -> None:
        super().__init__(2)
        self.name = "Shardclock, jobs"
        self.settings = f"as shipped, two shards and {WORKERS} workers, each with 4 concurrent runs"

    async def open(self, dsn: str) -> None:
        """Set up the database, and declare the app's job."""
        await super().open(dsn)
        shutil.copy(APP, self.folder)
        self.app = await asyncio.to_thread(find_app, APP.stem, self.folder)
        async with self.session() as session:
            await declare_jobs(session, self.app.jobs)

    async def launch(self) -> None:
        """Start the cluster, and return when shards and workers have their slots."""
        await super().launch()
        await wait_for_workers(self)

    async def make_jobs(self, count: int) -> None:
        """Add jobs until there are `count`; existing jobs stay unchanged."""
        begin = datetime.now(UTC).replace(microsecond=0, second=0)
        starts = [begin + timedelta(seconds=number * SPREAD % 1) for number in range(count)]
        said = [
            {"name": f"beat-{number}", "function": f"{APP.stem}:beat", "schedule": f"R/{start.isoformat()}/PT1S"}
            for number, start in enumerate(starts)
        ]
        async with self.session() as session, session.connection(timeout_s=PATIENCE_S) as connection:
            await connection.execute(APPLY, [json.dumps(job) for job in said])

    async def firings(self) -> Sequence[Firing]:
        """Read the due date and the start time of each run."""
        async with self.session() as session, session.connection(timeout_s=PATIENCE_S) as connection:
            return [Firing(*row) for row in await connection.fetch(BEGUN)]
