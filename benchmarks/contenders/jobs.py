"""Shardclock with jobs that do nothing."""

import asyncio
import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

from benchmarks.contenders.contender import Firing
from benchmarks.contenders.ours import PATIENCE_S, OnRay
from benchmarks.contenders.recorded import Recorded
from sql.cluster.holders import WORKER, list_holders
from sql.jobs.declare import declare_jobs
from workers.app import find_app

APP = Path(__file__).with_name("beating.py")
WORKERS = 2
APPLY = "select shardclock.apply_job(said) from unnest($1::jsonb[]) as said"
BEGUN = """
    select extract(epoch from scheduled_at)::double precision, extract(epoch from started_at)::double precision
    from shardclock.job_runs
    where job like 'beat%' and outcome is distinct from 'SKIPPED'
"""
ENDS = """
    select coalesce(outcome, 'RUNNING'), count(*) from shardclock.job_runs where job like 'beat%' group by 1
"""


class WithJobs(Recorded, OnRay):
    """A cluster of two shards and two workers, as `shardclock up --app` starts it, with jobs of one second."""

    def __init__(self, jobs: int, places: int) -> None:
        super().__init__(2)
        self.name = f"Shardclock, {jobs:,} jobs"
        self.settings = f"two shards and two workers; `SHARDCLOCK_RUN_PLACES={places}`"
        self.jobs = jobs
        self._more = {"run_places": places}

    async def open(self, dsn: str) -> None:
        """Set up the database, and declare the app's job."""
        await super().open(dsn)
        shutil.copy(APP, self.folder)
        self.app = await asyncio.to_thread(find_app, APP.stem, self.folder)
        async with self.session() as session:
            await declare_jobs(session, self.app.jobs)

    async def launch(self) -> None:
        """Start, and return when shards and workers have their slots."""
        await super().launch()
        async with self.session() as session:
            while sum(it.part_count == WORKERS for it in await list_holders(session, WORKER)) < WORKERS:
                await asyncio.sleep(0.05)

    async def make_jobs(self) -> None:
        """Make the jobs, which start once a second, spread over the second."""
        begin = datetime.now(UTC).replace(microsecond=0)
        said = [
            json.dumps(
                {
                    "name": f"beat-{number}",
                    "function": f"{APP.stem}:beat",
                    "schedule": f"R/{(begin + timedelta(seconds=number / self.jobs)).isoformat()}/PT1S",
                }
            )
            for number in range(self.jobs)
        ]
        async with self.session() as session, session.connection(timeout_s=PATIENCE_S) as connection:
            await connection.execute(APPLY, said)

    async def firings(self) -> list[Firing]:
        """Read when each run was due, and when it began."""
        async with self.session() as session, session.connection(timeout_s=PATIENCE_S) as connection:
            return [Firing(*row) for row in await connection.fetch(BEGUN)]

    async def ends(self) -> dict[str, int]:
        """Count the runs by their outcomes."""
        async with self.session() as session, session.connection(timeout_s=PATIENCE_S) as connection:
            return {row[0]: row[1] for row in await connection.fetch(ENDS)}
