"""The commands that add a job, apply a file of jobs, and remove a job."""

from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from typing import Annotated

import typer

from shardclock.api.codes import BAD_INPUT
from shardclock_server.cli.file_text import STDIN, read_bytes
from shardclock_server.cli.lengths import is_length, read_length
from shardclock_server.cli.options import MissedRuns, Zone
from shardclock_server.cli.output import DONE, Json, print_done, print_json, print_note, print_table
from shardclock_server.cli.payload import read_payload
from shardclock_server.cli.session import with_session
from shardclock_server.service.job_file import FILE_BYTES_MAX, FileReport, apply_file
from shardclock_server.service.jobs import add_job, remove_job
from shardclock_server.sql.jobs.apply import JudgedJob
from shardclock_server.sql.jobs.jobs import AddedJob
from shardclock_server.sql.session import Session
from shardclock_server.timers.payload import payload_of
from shardclock_server.timers.refusal import Refusal, shortened

SHOWN_REFUSALS = 20
# Maps columns of the database to the names of these fields in the file; `cron` and `repeat` share one column.
WORDS = {"every_s": "every", "schedule": "cron or repeat"}

Name = Annotated[str, typer.Argument(metavar="NAME", show_default=False, help="The job's name.")]


def add(
    name: Name,
    of_job: Annotated[str, typer.Option("--of-job", metavar="JOB", help="The declared job with this job's function.")],
    every: Annotated[
        str | None,
        typer.Option(
            "--every",
            metavar="DURATION",
            help="The time from the end of a run to the next start, such as 15m or PT15M.",
        ),
    ] = None,
    cron: Annotated[
        str | None, typer.Option("--cron", metavar="RULE", help="The start times as cron rule, such as '0 3 * * *'.")
    ] = None,
    repeat: Annotated[
        str | None,
        typer.Option("--repeat", metavar="RULE", help="The start times as ISO 8601 repeat, such as R/PT1H."),
    ] = None,
    zone: Zone = None,
    missed: MissedRuns = None,
    overlap: Annotated[
        str | None,
        typer.Option(
            "--overlap",
            metavar="POLICY",
            help="The rule for a start during a run: skip, queue or replace. Default: the rule of JOB.",
        ),
    ] = None,
    priority: Annotated[
        int | None,
        typer.Option(
            "--priority", min=1, max=4, help="1 to 4; jobs with priority 1 come first. Default: the priority of JOB."
        ),
    ] = None,
    config: Annotated[
        str | None,
        typer.Option(
            "--config", metavar="JSON", help="JSON, @FILE, or - for standard input. Default: the configuration of JOB."
        ),
    ] = None,
    as_json: Json = False,
) -> int:
    """Add a job that runs a declared job's function, with its own rule and configuration."""
    _refuse_two({"--every": every, "--cron": cron, "--repeat": repeat})
    added = AddedJob(
        name,
        of_job,
        every=None if every is None else _every_of(every),
        schedule=repeat if cron is None else cron,
        zone=zone or "UTC",
        missed=missed or "fire_once",
        overlap=overlap,
        priority=priority,
        config=None if config is None else payload_of(read_payload(config, option="--config")),
    )

    return with_session(partial(_add, added=added, as_json=as_json))


async def _add(session: Session, *, added: AddedJob, as_json: bool) -> int:
    state = await add_job(session, added)
    if as_json:
        print_json({"state": state})
    else:
        print_table("", ["job", "state"], [(added.name, state)])
    return DONE


def _refuse_two(rules: Mapping[str, str | None]) -> None:
    """Refuse more than one rule; `rules` maps each option to its text."""
    given = [option for option, text in rules.items() if text is not None]
    if len(given) > 1:
        found = " and ".join(given)
        raise Refusal(f"give only one of {', '.join(rules)}; {found} are given")


def remove(name: Name, as_json: Json = False) -> int:
    """Remove a job that no app declares; its records stay in the log."""

    async def do(session: Session) -> int:
        await remove_job(session, name)
        return print_done(f"job {shortened(name)} is removed", {"removed": name}, as_json=as_json)

    return with_session(do)


def apply(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            show_default=False,
            help="A file with a JSON object on each line, or with one JSON array; - is standard input.",
        ),
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the changes without making them.")] = False,
    as_json: Json = False,
) -> int:
    """Apply a file of job descriptions; if one description is invalid, no description is applied."""
    content = _content_of(file)

    async def do(session: Session) -> int:
        report = await apply_file(session, content, dry_run=dry_run)
        if as_json:
            print_json(_as_json(report, dry_run=dry_run))
        elif report.refused:
            _print_refused(report)
        else:
            print_table("", ["job", "change"], [(job.name, _change_of(job)) for job in report.jobs])
            _remark(report.jobs, dry_run=dry_run)
        return BAD_INPUT if report.refused else DONE

    return with_session(do)


def _every_of(text: str) -> timedelta:
    if not is_length(text):
        way_out = "give a length such as 15m, or a rule with --cron or --repeat"
        raise Refusal(f"--every {shortened(text)} is not a length of time; {way_out}")
    every = read_length("--every", text)
    if every.months:
        raise Refusal(f"--every {shortened(text)} has years or months, whose length depends on the date; give days")
    return every.average()


def _content_of(file: str) -> bytes:
    shown = "standard input" if file in STDIN else file
    try:
        content = read_bytes(file if file in STDIN else f"@{file}", bytes_max=FILE_BYTES_MAX)
    except OSError as error:
        raise Refusal(f"can't read {shown}: {error.strerror}") from None
    if len(content) > FILE_BYTES_MAX:
        raise Refusal(f"{shown} is longer than {FILE_BYTES_MAX:,} bytes; split it")
    return content


def _print_refused(report: FileReport) -> None:
    for entry in report.refused[:SHOWN_REFUSALS]:
        print_note(f"shardclock: {report.unit} {entry.number}: {entry.why}")
    if len(report.refused) > SHOWN_REFUSALS:
        print_note(f"shardclock: and {len(report.refused) - SHOWN_REFUSALS} more: --json lists them")
    print_note("shardclock: nothing was written; correct the refused entries, and apply the file again")


def _change_of(job: JudgedJob) -> str:
    if job.changes == ("added",):
        return "created"
    return f"changed: {', '.join(_fields_of(job))}" if job.changes else "unchanged"


def _fields_of(job: JudgedJob) -> list[str]:
    return [WORDS.get(column, column) for column in job.changes if column != "added"]


def _remark(jobs: list[JudgedJob], *, dry_run: bool) -> None:
    for job in jobs:
        if not job.has_code:
            print_note(
                f"no app has the function of job {shortened(job.name)}: the job is stored, and starts when an app has"
                f" the function"
            )
    if dry_run:
        print_note("nothing was changed; repeat the command without --dry-run")


def _as_json(report: FileReport, *, dry_run: bool) -> dict[str, object]:
    return {
        "written": not dry_run and not report.refused,
        "jobs": [
            {
                "name": job.name,
                "change": _change_of(job).partition(":")[0],
                "fields": _fields_of(job),
                "has_code": job.has_code,
            }
            for job in report.jobs
            if job.refusal is None
        ],
        "refused": [{report.unit: entry.number, "why": entry.why} for entry in report.refused],
    }
