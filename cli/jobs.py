"""The commands about jobs: list, show, check, run, cancel, disable, enable, configure, history, logs.

`cli.job_changes` has the commands that add and remove jobs.
"""

import json
from collections.abc import Awaitable, Callable
from typing import Annotated

import typer

from shardclock.api.codes import NOT_DONE
from shardclock.api.refusals.jobs import UNKNOWN_RUN
from shardclock_server.cli.job_changes import add, apply, remove
from shardclock_server.cli.job_output import OF_RUNS, print_job, print_jobs, print_run, row_of_run
from shardclock_server.cli.job_watch import watch
from shardclock_server.cli.lists import full_note, lists, print_list
from shardclock_server.cli.options import WAIT_S_MAX, Reason, limit_option
from shardclock_server.cli.output import DONE, Json, print_json, print_line, print_note, print_table
from shardclock_server.cli.payload import read_payload
from shardclock_server.cli.recording import record_done
from shardclock_server.cli.serving import note_without_shards
from shardclock_server.cli.session import with_session
from shardclock_server.service.job_check import check_job
from shardclock_server.service.job_runs import HISTORY_MAX, history_of, logs_of
from shardclock_server.service.jobs import (
    cancel_job,
    configure_job,
    disable_job,
    enable_job,
    find_job,
    run_job,
)
from shardclock_server.service.unserved import line_of
from shardclock_server.sql.deliveries.unserved import find_unserved_targets
from shardclock_server.sql.jobs.declare import TARGET_OF_JOB
from shardclock_server.sql.jobs.jobs import find_jobs
from shardclock_server.sql.session import Session
from shardclock_server.timers.payload import payload_of
from shardclock_server.timers.refusal import Refusal, shortened

RUNS_SHOWN = 5

Name = Annotated[str, typer.Argument(metavar="NAME", show_default=False, help="The job's name.")]

jobs = typer.Typer(
    help="List the jobs of the app; the subcommands show, run, cancel, disable and configure one job.",
    invoke_without_command=True,
)
for command in (add, apply, remove):
    jobs.command()(command)


@lists(jobs)
def list_(as_json: Json = False) -> int:
    """List the jobs with state, next start and last outcome; also show how many starts wait for an app."""

    async def do(session: Session) -> int:
        found = await find_jobs(session)
        if as_json:
            print_json({"jobs": found})
        elif found:
            print_jobs(found)
            unserved = [it for it in await find_unserved_targets(session) if it.target.startswith(TARGET_OF_JOB)]
            if unserved:
                print_line(line_of(unserved))
        else:
            print_note(
                "there are no jobs; an app declares a job with @shardclock.job, and `shardclock up --app` starts it"
            )
        return DONE

    return with_session(do)


@jobs.command()
def show(name: Name, as_json: Json = False) -> int:
    """Show all fields of one job, and its last runs."""

    async def do(session: Session) -> int:
        job = await find_job(session, name)
        runs = await history_of(session, name, limit=RUNS_SHOWN)
        if as_json:
            print_json({"job": job, "runs": runs})
        else:
            print_job(job, runs)
        return DONE

    return with_session(do)


@jobs.command()
def check(name: Name, as_json: Json = False) -> int:
    """Check a job: print nothing if the job works.

    Fail with the reason if a success is overdue or the job is stopped.
    """

    async def do(session: Session) -> int:
        checked = await check_job(session, name)
        if as_json:
            print_json(checked)
        elif checked.why_not is not None:
            print_note(f"shardclock: {checked.why_not}")
        return DONE if checked.why_not is None else NOT_DONE

    return with_session(do)


@jobs.command()
def run(
    name: Name,
    config: Annotated[
        str | None,
        typer.Option(
            "--config",
            metavar="JSON",
            help="The configuration of only this run: JSON, @FILE, or - for standard input.",
        ),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Follow the run to its end, and fail if the run fails.")] = False,
    within_s: Annotated[
        float | None,
        typer.Option("--within", metavar="SECONDS", min=0, max=WAIT_S_MAX, help="With --wait: the longest wait."),
    ] = None,
    as_json: Json = False,
) -> int:
    """Start a job now; the next scheduled start does not change."""
    if within_s is not None and not wait:
        raise Refusal("--within goes with --wait; add it, or leave --within out")
    given = None if config is None else _read_config("--config", config)

    async def do(session: Session) -> int:
        timer_key = await run_job(session, name, config=given)
        if not wait:
            _print_change({"timer_key": timer_key}, name, as_json=as_json)
        if within_s is None and not as_json:
            await note_without_shards(session)
        if not wait:
            return DONE
        await record_done(session)
        return await watch(session, name, timer_key, within_s=within_s, as_json=as_json)

    try:
        return with_session(do)
    except KeyboardInterrupt:
        if wait:
            print_note(f"the run continues; `shardclock jobs cancel {name}` ends it")
        raise


@jobs.command()
def cancel(name: Name, reason: Reason = None, as_json: Json = False) -> int:
    """End the present run of a job; the next scheduled start does not change."""

    async def do(session: Session) -> int:
        state = await cancel_job(session, name, reason=reason)
        _print_change({"state": state}, name, as_json=as_json)
        return DONE

    return with_session(do)


@jobs.command()
def disable(
    name: Name,
    reason: Annotated[str | None, typer.Option("--reason", help="The reason, which lists and the log show.")] = None,
    as_json: Json = False,
) -> int:
    """Prevent new starts of a job until it is enabled, and end its present run."""
    return _to_state(name, lambda session: disable_job(session, name, reason=reason), as_json=as_json)


@jobs.command()
def enable(name: Name, as_json: Json = False) -> int:
    """Allow a disabled job to start again."""
    return _to_state(name, lambda session: enable_job(session, name), as_json=as_json)


@jobs.command()
def configure(
    name: Name,
    config: Annotated[
        str,
        typer.Argument(metavar="JSON", show_default=False, help="JSON, @FILE, or - for standard input."),
    ],
    as_json: Json = False,
) -> int:
    """Set a job's configuration for its next runs, until the app declares another configuration."""
    given = _read_config("config", config)

    async def do(session: Session) -> int:
        before = await configure_job(session, name, given)
        if as_json:
            print_json({"before": None if before is None else json.loads(before), "config": json.loads(given)})
        else:
            print_table("", ["job", "before", "now"], [(name, before, given)])
        return DONE

    return with_session(do)


@jobs.command()
def history(
    name: Name,
    limit: Annotated[int, limit_option(HISTORY_MAX)] = 20,
    as_json: Json = False,
) -> int:
    """List the last runs of a job, newest first; the command log has the older runs."""

    async def do(session: Session) -> int:
        runs = await history_of(session, name, limit=limit)
        none, more = f"job {shortened(name)} has not run yet", full_note(runs, limit, most=HISTORY_MAX)
        return print_list(
            {"runs": runs}, OF_RUNS, [row_of_run(run) for run in runs], none=none, more=more, as_json=as_json
        )

    return with_session(do)


@jobs.command()
def logs(
    name: Name,
    run_id: Annotated[
        str | None,
        typer.Argument(metavar="[RUN]", show_default=False, help="The run, such as 4711.2. Default: the newest run."),
    ] = None,
    as_json: Json = False,
) -> int:
    """Show a run with its last printed and logged lines, and its traceback if it failed."""

    async def do(session: Session) -> int:
        found = await logs_of(session, name, run_id=run_id)
        if found is None and run_id is not None:
            raise Refusal.of(UNKNOWN_RUN, run=run_id)
        if found is None:
            print_note(f"shardclock: job {shortened(name)} has no run yet")
        elif as_json:
            print_json(found)
        else:
            print_run(found)
            for text in filter(None, (found.log, found.traceback)):
                print_line(f"\n{text}")
        return NOT_DONE if found is None else DONE

    return with_session(do)


def _to_state(name: str, change: Callable[[Session], Awaitable[str]], *, as_json: bool) -> int:
    async def do(session: Session) -> int:
        _print_change({"state": await change(session)}, name, as_json=as_json)
        return DONE

    return with_session(do)


def _print_change(now: dict[str, object], name: str, *, as_json: bool) -> None:
    if as_json:
        print_json(now)
    else:
        print_table("", ["job", *now], [(name, *now.values())])


def _read_config(option: str, text: str) -> str:
    return payload_of(read_payload(text, option=option))
