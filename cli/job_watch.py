"""Follow one run of a job to its end: a bar on a terminal, otherwise a line for each change."""

from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from shardclock_server.cli.job_words import length_of, outcome_of, print_runs
from shardclock_server.cli.output import DONE, NOT_DONE, cell, err, print_json, tell
from shardclock_server.service.job_runs import follow_run
from shardclock_server.sql.deliveries.find import find_delivery
from shardclock_server.sql.jobs.history import JobRun
from shardclock_server.sql.session import Session
from shardclock_server.timers.refusal import shortened

# What is no fault: the function returned, or said that there was nothing to do.
GOOD = ("SUCCEEDED", "DISCARDED")


async def watch(session: Session, name: str, timer_key: int, *, within_s: float | None, as_json: bool) -> int:
    """Follow a start of a job, print how it ended, and say whether that was well."""
    with _bars() as bars:
        shown = _OnBars(bars, name) if err.is_terminal else _InLines()
        ended = await follow_run(session, name, timer_key, within_s=within_s, told=shown.show)
    if as_json:
        print_json({"timer_key": timer_key, "run": ended})
    elif ended is not None:
        print_runs("", [ended])
    if ended is None:
        goes_on = await _how_it_goes_on(session, timer_key)
        tell(f"shardclock: job {shortened(name)} is not done within {length_of(within_s or 0)}; {goes_on}")
        return NOT_DONE
    return DONE if ended.outcome in GOOD else NOT_DONE


async def _how_it_goes_on(session: Session, timer_key: int) -> str:
    start = await find_delivery(session, timer_key)
    if start is None or start.state != "WAITING" or not start.failed_attempts or start.next_attempt_at is None:
        return "it goes on"
    return f"attempt {start.failed_attempts + 1} is due at {cell(start.next_attempt_at)}"


class _OnBars:
    """Show a run on a terminal."""

    def __init__(self, bars: Bars, name: str) -> None:
        self._bars = bars
        self._bar = bars.add_task(name, total=None, said="waits for its start")

    def show(self, run: JobRun) -> None:
        """Show how far it is; an attempt that follows a failed one begins anew."""
        done = 1.0 if run.outcome in GOOD else run.progress
        total = None if done is None else 1.0
        self._bars.update(self._bar, completed=done or 0.0, total=total, said=_said(run))


class _InLines:
    """Tell of a run in lines, each once."""

    def __init__(self) -> None:
        self._last = ""

    def show(self, run: JobRun) -> None:
        """Tell how far it is, if that is news."""
        attempt = f", attempt {run.attempt}" if run.attempt > 1 else ""
        line = f"run {run.run_id}{attempt}: {_said(run)}"
        if line != self._last:
            tell(line)
            self._last = line


def _said(run: JobRun) -> str:
    """Say what a run does and says, or how it ended and why."""
    more = run.message if run.outcome is None else run.reason
    return "  ".join(filter(None, (outcome_of(run), more)))


def _bars() -> Bars:
    return Bars(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[said]}", markup=False),
        console=err,
        disable=not err.is_terminal,
    )
