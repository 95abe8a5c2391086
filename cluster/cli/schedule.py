"""The command that schedules: one timer, or a file of them."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import IO, Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from cluster.cli.options import (
    DEFAULT_TENANT,
    At,
    Cron,
    Every,
    In,
    MissedRuns,
    ProcessInstance,
    Tenant,
    Zone,
    rule_of,
)
from cluster.cli.output import BAD_INPUT, DONE, NOT_DONE, Json, err, print_json, print_table, tell
from cluster.cli.store import with_session
from cluster.importing import ImportBroken, Report, import_lines, numbered_lines
from sql.pending import Refused, draw_keys, schedule_timers
from sql.session import Session
from timers.model import NewTimer
from timers.payload import PAYLOAD_BYTES_MAX, read_json
from timers.refusal import InvalidTimer

SHOWN_REFUSALS = 20


def schedule(
    delay: In = None,
    at: At = None,
    every: Every = None,
    cron: Cron = None,
    zone: Zone = None,
    missed: MissedRuns = None,
    file: Annotated[
        str | None, typer.Option("--file", metavar="FILE", help="Many: a JSON object a line; - is standard input.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="Unique among the tenant's pending timers.")] = None,
    tenant: Tenant = DEFAULT_TENANT,
    payload: Annotated[str | None, typer.Option("--payload", metavar="JSON", help="Travels with it; 64 KiB.")] = None,
    process_instance: ProcessInstance = None,
    refused_to: Annotated[
        Path | None, typer.Option("--refused-to", help="With --file: write the lines refused here.")
    ] = None,
    start_line: Annotated[int, typer.Option("--start-line", min=1, help="With --file: begin with this line.")] = 1,
    as_json: Json = False,
) -> int:
    """Schedule one timer, or a file of them."""
    fields: dict[str, Any] = {
        "zone": zone,
        "due_date": at,
        "delay": delay,
        "schedule": rule_of(every, cron),
        "missed": missed,
        "name": name,
        "process_instance_key": process_instance,
        "payload": payload,
    }
    given = {field: value for field, value in fields.items() if value is not None}
    if file is not None:
        if given or tenant != DEFAULT_TENANT:
            raise InvalidTimer("--file takes everything from its lines: leave out the options that describe one timer")
        return _schedule_file(file, start_line=start_line, refused_to=refused_to, as_json=as_json)
    if refused_to is not None or start_line != 1:
        raise InvalidTimer("--refused-to and --start-line go with --file")
    if payload is not None:
        given["payload"] = read_json(payload, bytes_max=PAYLOAD_BYTES_MAX)
    return _schedule_one(NewTimer.from_fields({"tenant_id": tenant} | given), as_json=as_json)


def _schedule_one(timer: NewTimer, *, as_json: bool) -> int:
    async def do(session: Session) -> int:
        outcome = (await schedule_timers(session, await draw_keys(session, 1), [timer]))[0]
        if isinstance(outcome, Refused):
            tell(f"shardclock: {outcome.why}")
            return NOT_DONE
        if as_json:
            print_json(outcome)
        else:
            print_table("", ["timer_key", "due"], [(outcome.timer_key, outcome.due_date)])
        return DONE

    return with_session(do)


def _schedule_file(file: str, *, start_line: int, refused_to: Path | None, as_json: bool) -> int:
    try:
        source = nullcontext(sys.stdin.buffer) if file == "-" else Path(file).open("rb")  # noqa: SIM115 - below
        total = None if file == "-" else Path(file).stat().st_size
    except OSError as error:
        tell(f"shardclock: can't read {file}: {error.strerror}")
        return BAD_INPUT
    report = Report()
    with source as lines, _open_for_refused(refused_to) as refused_file:
        try:
            with _bar(total) as bar:
                with_session(lambda session: _import(session, lines, report, start_line, bar))
        except ImportBroken:
            _tell_report(report, refused_file, as_json=as_json)
            raise
        _tell_report(report, refused_file, as_json=as_json)
    return NOT_DONE if report.refused else DONE


@contextmanager
def _open_for_refused(path: Path | None) -> Iterator[IO[bytes] | None]:
    """Open the file for refused lines before anything is scheduled, so that none is lost for want of a place."""
    if path is None:
        yield None
        return
    try:
        file = path.open("wb")
    except OSError as error:
        raise InvalidTimer(f"can't write {path}: {error.strerror}; name another file with --refused-to") from error
    with file:
        yield file


async def _import(session: Session, lines: IO[bytes], report: Report, start_line: int, bar: Progress) -> None:
    def advance(so_far: Report) -> None:
        bar.update(bar.task_ids[0], completed=so_far.read_bytes, scheduled=so_far.scheduled)

    await import_lines(session, numbered_lines(lines, start=start_line), report, progress=advance)


def _bar(total: int | None) -> Progress:
    bar = Progress(
        TextColumn("{task.fields[scheduled]:,} timers"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("bytes"),
        TimeRemainingColumn(),
        console=err,
        disable=not err.is_terminal,
    )
    bar.add_task("scheduling", total=total, scheduled=0)
    return bar


def _tell_report(report: Report, refused_file: IO[bytes] | None, *, as_json: bool) -> None:
    if refused_file is not None:
        refused_file.write(b"".join(refused.line for refused in report.refused))
    if as_json:
        refusals = [{"line": refused.number, "why": refused.why} for refused in report.refused]
        print_json({"scheduled": report.scheduled, "refused": refusals})
        return
    for refused in report.refused[:SHOWN_REFUSALS]:
        tell(f"line {refused.number}: {refused.why}")
    if len(report.refused) > SHOWN_REFUSALS:
        tell(f"and {len(report.refused) - SHOWN_REFUSALS} more lines: --json lists them, --refused-to keeps them")
    print_table("", ["scheduled", "refused"], [(report.scheduled, len(report.refused))])
