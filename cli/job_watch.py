"""Follow one run of a job to its end; print a progress bar on a terminal, otherwise a line for each change."""

from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from shardclock.api.codes import NOT_DONE
from shardclock_server.cli.job_output import length_of, outcome_of, print_runs
from shardclock_server.cli.output import DONE, cell, err, print_json, print_note
from shardclock_server.cli.serving import NO_SHARD, has_shards
from shardclock_server.service.job_runs import follow_run
from shardclock_server.service.unserved import line_of
from shardclock_server.sql.deliveries.find import find_delivery
from shardclock_server.sql.deliveries.unserved import find_unserved_targets
from shardclock_server.sql.jobs.history import JobRun
from shardclock_server.sql.session import Session
from shardclock_server.timers.refusal import shortened

# Successful outcomes: the function returned, or reported that it had nothing to do.
GOOD = ("SUCCEEDED", "DISCARDED")


async def watch(session: Session, name: str, timer_key: int, *, within_s: float | None, as_json: bool) -> int:
    """Follow a start of a job, print its last run, and return the exit code."""
    with _bars() as bars:
        display = _BarDisplay(bars, name) if err.is_terminal else _LineDisplay()
        ended = await follow_run(session, name, timer_key, within_s=within_s, on_change=display.show)
    if as_json:
        print_json({"timer_key": timer_key, "run": ended})
    elif ended is not None:
        print_runs("", [ended])
    if ended is None:
        outlook = await _outlook_of(session, timer_key)
        print_note(f"shardclock: job {shortened(name)} is not done within {length_of(within_s or 0)}; {outlook}")
        return NOT_DONE
    return DONE if ended.outcome in GOOD else NOT_DONE


async def _outlook_of(session: Session, timer_key: int) -> str:
    """Describe a start that has not ended: it waits for a shard, a worker or its next attempt, or its run goes on."""
    start = await find_delivery(session, timer_key)
    if start is None:
        return "it goes on" if await has_shards(session) else f"the start waits, because {NO_SHARD}"
    if start.state != "WAITING":
        return "it goes on"
    if start.failed_attempts and start.next_attempt_at is not None:
        return f"attempt {start.failed_attempts + 1} is due at {cell(start.next_attempt_at)}"
    unserved = await find_unserved_targets(session, start.target)
    return f"the start waits, because {line_of(unserved)}" if unserved else "the start waits for a worker"


class _BarDisplay:
    """Shows a run's progress as a bar on a terminal."""

    def __init__(self, bars: Bars, name: str) -> None:
        self._bars = bars
        self._bar = bars.add_task(name, total=None, status="waits for its start")

    def show(self, run: JobRun) -> None:
        """Show the progress; the bar of a new attempt begins at zero."""
        done = 1.0 if run.outcome in GOOD else run.progress
        total = None if done is None else 1.0
        self._bars.update(self._bar, completed=done or 0.0, total=total, status=_describe(run))


class _LineDisplay:
    """Prints a line for each change of a run's progress."""

    def __init__(self) -> None:
        self._last = ""

    def show(self, run: JobRun) -> None:
        """Print the progress if its line differs from the last printed line."""
        attempt = f", attempt {run.attempt}" if run.attempt > 1 else ""
        line = f"run {run.run_id}{attempt}: {_describe(run)}"
        if line != self._last:
            print_note(line)
            self._last = line


def _describe(run: JobRun) -> str:
    """Describe a run's state and message, or its outcome and reason."""
    more = run.message if run.outcome is None else run.reason
    return "  ".join(filter(None, (outcome_of(run), more)))


def _bars() -> Bars:
    return Bars(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[status]}", markup=False),
        console=err,
        disable=not err.is_terminal,
    )
