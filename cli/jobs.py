"""The commands about jobs: list, show and check them, run one by hand, cancel, disable, configure, and look back.

Those that make and remove jobs are in `cli.job_making`.
"""

import json
from collections.abc import Awaitable, Callable
from typing import Annotated

import typer

from shardclock_server.cli.job_making import add, apply, remove
from shardclock_server.cli.job_watch import watch
from shardclock_server.cli.job_words import print_job, print_jobs, print_run, print_runs
from shardclock_server.cli.lists import lists, tell_if_full
from shardclock_server.cli.options import WAIT_S_MAX, Reason
from shardclock_server.cli.output import DONE, NOT_DONE, Json, print_json, print_table, say, tell
from shardclock_server.cli.payload import read_payload
from shardclock_server.cli.session import with_session
from shardclock_server.service.job_check import check_job
from shardclock_server.service.job_runs import HISTORY_MAX, history_of, logs_of
from shardclock_server.service.jobs import (
    NoRun,
    cancel_job,
    configure_job,
    disable_job,
    enable_job,
    find_job,
    list_jobs,
    run_job,
)
from shardclock_server.sql.session import Session
from shardclock_server.timers.payload import payload_of
from shardclock_server.timers.refusal import Refusal, shortened

RUNS_SHOWN = 5

Name = Annotated[str, typer.Argument(metavar="NAME", show_default=False, help="The job's name.")]

jobs = typer.Typer(
    help="List the jobs of the app; the subcommands show, run, cancel, disable and configure one.",
    invoke_without_command=True,
)
for command in (add, apply, remove):
    jobs.command()(command)


@lists(jobs)
def list_(as_json: Json = False) -> int:
    """List the jobs: what each does now, when it starts next, and how its last runs ended."""

    async def do(session: Session) -> int:
        found = await list_jobs(session)
        if as_json:
            print_json(found)
        elif found:
            print_jobs(found)
        else:
            tell("there are no jobs; an app declares them by @shardclock.job (docs/jobs.md)")
        return DONE

    return with_session(do)


@jobs.command()
def show(name: Name, as_json: Json = False) -> int:
    """Show all that is known of one job, and its last runs."""

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
    """Say nothing if a job does its work; fail, and say why, if its success is overdue, or it is disabled or paused."""

    async def do(session: Session) -> int:
        checked = await check_job(session, name)
        if as_json:
            print_json(checked)
        elif checked.why_not is not None:
            tell(f"shardclock: {checked.why_not}")
        return DONE if checked.why_not is None else NOT_DONE

    return with_session(do)


@jobs.command()
def run(
    name: Name,
    config: Annotated[
        str | None,
        typer.Option("--config", metavar="JSON", help="For this run alone: JSON, @FILE, or - for standard input."),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Follow the run to its end; fail if it fails.")] = False,
    within_s: Annotated[
        float | None,
        typer.Option("--within", metavar="SECONDS", min=0, max=WAIT_S_MAX, help="With --wait: wait at most this long."),
    ] = None,
    as_json: Json = False,
) -> int:
    """Start a job now; its next start stays when it is."""
    if within_s is not None and not wait:
        raise Refusal("--within goes with --wait; add it, or leave --within out")
    given = None if config is None else _read_config("--config", config)

    async def do(session: Session) -> int:
        timer_key = await run_job(session, name, config=given)
        if not wait:
            _print_change({"timer_key": timer_key}, name, as_json=as_json)
            return DONE
        return await watch(session, name, timer_key, within_s=within_s, as_json=as_json)

    try:
        return with_session(do)
    except KeyboardInterrupt:
        if wait:
            tell(f"the run goes on; `shardclock jobs cancel {name}` ends it")
        raise


@jobs.command()
def cancel(name: Name, reason: Reason = None, as_json: Json = False) -> int:
    """Tell the present run of a job to end; its next start stays when it is."""

    async def do(session: Session) -> int:
        try:
            state = await cancel_job(session, name, reason=reason)
        except NoRun as refusal:
            if as_json:
                print_json({"state": refusal.state})
            else:
                tell(f"shardclock: {refusal}")
            return NOT_DONE
        _print_change({"state": state}, name, as_json=as_json)
        return DONE

    return with_session(do)


@jobs.command()
def disable(
    name: Name,
    reason: Annotated[str | None, typer.Option("--reason", help="Why, for whoever finds it.")] = None,
    as_json: Json = False,
) -> int:
    """Keep a job from starting until it is enabled, and tell its present run to end."""
    return _to_state(name, lambda session: disable_job(session, name, reason=reason), as_json=as_json)


@jobs.command()
def enable(name: Name, as_json: Json = False) -> int:
    """Let a disabled job start again."""
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
    """Give a job another configuration: its next run has it, until the app declares another one."""
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
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, max=HISTORY_MAX, help="At most N.")] = 20,
    as_json: Json = False,
) -> int:
    """List the last runs of a job, the newest first; the log of commands has the older ones."""

    async def do(session: Session) -> int:
        runs = await history_of(session, name, limit=limit)
        if as_json:
            print_json(runs)
        elif runs:
            print_runs("", runs)
            tell_if_full(runs, limit, most=HISTORY_MAX)
        else:
            tell(f"job {shortened(name)} has not run yet")
        return DONE

    return with_session(do)


@jobs.command()
def logs(
    name: Name,
    run_id: Annotated[
        str | None,
        typer.Argument(metavar="[RUN]", show_default=False, help="Such as 4711.2; if not given, the newest run."),
    ] = None,
    as_json: Json = False,
) -> int:
    """Show a run, and print the last lines that it printed or logged, and where it failed."""

    async def do(session: Session) -> int:
        found = await logs_of(session, name, run_id=run_id)
        if found is None:
            which = (
                "no run yet" if run_id is None else f"no run {shortened(run_id)}: `shardclock jobs history` lists them"
            )
            tell(f"shardclock: job {shortened(name)} has {which}")
        elif as_json:
            print_json(found)
        else:
            print_run(found)
            for text in filter(None, (found.log, found.traceback)):
                say(f"\n{text}")
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
