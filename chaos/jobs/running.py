"""One run of jobs under faults: the cluster, the faults, and what is read at the end."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Sequence
from pathlib import Path

from chaos.away import until
from chaos.jobs.record import Change, Counted, JobsRecord, Line
from chaos.nemesis import Nemesis
from chaos.plan import Menu, Plan, draw_breaks
from chaos.running import Tell
from chaos.stage import Stage
from tests.support.roles import as_role

WARM_S = 60.0  # for each job to make its first run, whose process must be started
QUIET_S = 90.0  # after the last fault, so that each job shows that it has its cadence back
ENDED_S = 60.0  # for the last runs to end, once all jobs are disabled
FILE = "runs.ndjson"  # where `app` writes
# A run and the pause after it: of jobs on a grid, its period, or of one that is replaced its grace, too.
TAKES_S = {
    "quick": 0.6, "second": 2.0, "plain": 2.2, "long": 13.0, "fails": 1.2, "grid": 2.5, "queues": 3.5, "replaces": 6.0,
}  # fmt: skip
COUNTED_FROM_END = ("quick", "second", "plain", "long", "fails")
CHANGES = """
    select
        position, extract(epoch from recorded_at)::double precision, substr(target, 5), detail ->> 'run',
        detail ->> 'outcome', detail ->> 'reason',
        extract(epoch from (detail ->> 'next_start')::timestamptz)::double precision
    from shardclock.command_log
    where target like 'job:%' and detail ? 'run' and (intent = 'STARTING' or detail ? 'outcome')
    order by position
"""
COUNTED = """
    select name, runs, successes, failures, crashes, run_timer_key is not null from shardclock.jobs order by name
"""
DISABLE = "select shardclock.disable_job(name, 'the run is over') from shardclock.jobs where is_enabled"
ALL_RAN = "select bool_and(last_finish is not null) from shardclock.jobs"
MARKED = "select count(*) from shardclock.jobs where run_timer_key is not null"


async def run(stage: Stage, menu: Sequence[Menu], *, seed: int, length_s: float, tell: Tell) -> JobsRecord:
    """Break things beside the jobs, then leave the jobs alone for a while, and read what was recorded."""
    breaks = draw_breaks(random.Random(f"{seed} breaks"), length_s=length_s, menu=menu)
    nemesis = Nemesis(stage, Plan(seed, length_s, (), breaks))
    tell(f"starting the cluster ({stage.cluster.name})")
    await stage.cluster.start(as_role(stage.dsn, "shard"), stage.direct_dsn)
    await until(lambda: _all_ran(stage), within_s=WARM_S)
    warm_at = time.time()
    tell(f"{length_s:.0f} s, {len(breaks)} faults, seed {seed}")
    await nemesis.run()
    tell(f"all is mended; the jobs are left alone for {QUIET_S:.0f} s")
    await asyncio.sleep(QUIET_S)
    watched_until = time.time()
    await _end_all(stage)
    for missed in nemesis.missed:
        tell(f"not broken: {missed}")
    async with stage.admin() as admin:
        changes = [Change(*row) for row in await admin.fetch(CHANGES)]
        counted = [Counted(*row) for row in await admin.fetch(COUNTED)]
    return JobsRecord(
        lines=read_lines(stage.place / FILE),
        changes=changes,
        counted=counted,
        faults=sorted(nemesis.faults, key=lambda fault: fault.began_at),
        takes_s=TAKES_S,
        counted_from_end=COUNTED_FROM_END,
        warm_at=warm_at,
        watched_until=watched_until,
    )


def read_lines(file: Path) -> list[Line]:
    """Read what runs wrote down; nothing if none was made.

    errors:  ValueError, TypeError  a line is not whole: each is written at once, so the file was damaged
    """
    if not file.exists():
        return []
    return [Line(*json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines()]


async def _all_ran(stage: Stage) -> bool:
    async with stage.admin() as admin:
        return bool(await admin.fetchval(ALL_RAN))


async def _end_all(stage: Stage) -> None:
    """Disable all jobs, and wait until no run is under way; bounded, the judge finds those that go on."""

    async def disabled() -> bool:
        async with stage.admin() as admin:
            await admin.execute(DISABLE)
        return True

    async def ended() -> bool:
        async with stage.admin() as admin:
            return not await admin.fetchval(MARKED)

    await until(disabled, within_s=ENDED_S)
    await until(ended, within_s=ENDED_S)
