"""The commands that make jobs: one that runs a declared job's function, many from a file; and the one that removes."""

from datetime import timedelta
from typing import Annotated

import typer

from shardclock_server.cli.file_text import STDIN, read_bytes
from shardclock_server.cli.lengths import is_length, read_length
from shardclock_server.cli.options import MissedRuns, Zone
from shardclock_server.cli.output import BAD_INPUT, DONE, Json, print_json, print_table, tell
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
# What a file calls the columns whose names are others; `cron` and `repeat` are one.
WORDS = {"every_s": "every", "schedule": "cron or repeat"}

Name = Annotated[str, typer.Argument(metavar="NAME", show_default=False, help="The job's name.")]


def add(
    name: Name,
    of_job: Annotated[str, typer.Option("--of-job", metavar="JOB", help="The declared job whose function it runs.")],
    every: Annotated[
        str | None,
        typer.Option("--every", metavar="DURATION", help="This long after the end of a run, such as 15m or PT15M."),
    ] = None,
    cron: Annotated[str | None, typer.Option("--cron", metavar="RULE", help="By cron, such as '0 3 * * *'.")] = None,
    repeat: Annotated[str | None, typer.Option("--repeat", metavar="RULE", help="By a repeat, such as R/PT1H.")] = None,
    zone: Zone = None,
    missed: MissedRuns = None,
    overlap: Annotated[
        str | None,
        typer.Option("--overlap", metavar="POLICY", help="If a run is going: skip, queue or replace. Default: as JOB."),
    ] = None,
    priority: Annotated[
        int | None, typer.Option("--priority", min=1, max=4, help="1 comes first, 4 last. Default: as JOB.")
    ] = None,
    config: Annotated[
        str | None,
        typer.Option("--config", metavar="JSON", help="JSON, @FILE, or - for standard input. Default: as JOB."),
    ] = None,
    as_json: Json = False,
) -> int:
    """Add a job that runs the function of a declared one, by a rule and with a configuration of its own."""
    rules = {"--every": every, "--cron": cron, "--repeat": repeat}
    given = [option for option, text in rules.items() if text is not None]
    if len(given) > 1:
        found = " and ".join(given)
        raise Refusal(f"a job has one of {', '.join(rules)}, and this one has {found}; leave out the others")
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

    async def do(session: Session) -> int:
        state = await add_job(session, added)
        if as_json:
            print_json({"state": state})
        else:
            print_table("", ["job", "state"], [(name, state)])
        return DONE

    return with_session(do)


def remove(name: Name, as_json: Json = False) -> int:
    """Remove a job that no app declares; its records stay in the log."""

    async def do(session: Session) -> int:
        await remove_job(session, name)
        if as_json:
            print_json({"removed": name})
        else:
            tell(f"job {shortened(name)} is removed")
        return DONE

    return with_session(do)


def apply(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE", show_default=False, help="A JSON object on each line, or one array; - is standard input."
        ),
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would change, and change nothing.")] = False,
    as_json: Json = False,
) -> int:
    """Make jobs as a file describes them: all of them or, if one is refused, none."""
    content = _content_of(file)

    async def do(session: Session) -> int:
        report = await apply_file(session, content, dry_run=dry_run)
        if as_json:
            print_json(_as_json(report, dry_run=dry_run))
        elif report.refused:
            _tell_refused(report)
        else:
            print_table("", ["job", "change"], [(job.name, _change_of(job)) for job in report.jobs])
            _remark(report.jobs, dry_run=dry_run)
        return BAD_INPUT if report.refused else DONE

    return with_session(do)


def _every_of(text: str) -> timedelta:
    if not is_length(text):
        way_out = "give one such as 15m, or a rule by --cron or --repeat"
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


def _tell_refused(report: FileReport) -> None:
    for entry in report.refused[:SHOWN_REFUSALS]:
        tell(f"shardclock: {report.unit} {entry.number}: {entry.why}")
    if len(report.refused) > SHOWN_REFUSALS:
        tell(f"shardclock: and {len(report.refused) - SHOWN_REFUSALS} more: --json lists them")
    tell("shardclock: nothing was written; mend these, and apply the file again")


def _change_of(job: JudgedJob) -> str:
    if job.changes == ("added",):
        return "created"
    return f"changed: {', '.join(_fields_of(job))}" if job.changes else "unchanged"


def _fields_of(job: JudgedJob) -> list[str]:
    return [WORDS.get(column, column) for column in job.changes if column != "added"]


def _remark(jobs: list[JudgedJob], *, dry_run: bool) -> None:
    for job in jobs:
        if not job.has_code:
            tell(f"no app has the function of job {shortened(job.name)}: it is kept, and starts when an app has it")
    if dry_run:
        tell("nothing was changed; leave out --dry-run to do it")


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
