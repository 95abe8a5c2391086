"""The command that schedules one timer, or the timers of a file."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import IO, Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from shardclock.api.codes import BAD_INPUT, NOT_DONE
from shardclock_server.cli.field_names import in_options
from shardclock_server.cli.lengths import read_length
from shardclock_server.cli.options import (
    DEFAULT_TENANT,
    At,
    Cron,
    Every,
    In,
    MissedRuns,
    OnConflict,
    ProcessInstance,
    Tenant,
    Zone,
    option_names,
    rule_of,
)
from shardclock_server.cli.output import DONE, Json, err, print_json, print_note, print_table
from shardclock_server.cli.payload import read_payload
from shardclock_server.cli.serving import note_without_shards
from shardclock_server.cli.session import TIMEOUT_S, with_session
from shardclock_server.cli.streams import ANSWER_LOST
from shardclock_server.keepers.collector import collecting_seldom
from shardclock_server.service.bulk_import import PART_LINES, ImportReport, UnreadableLine, import_lines, numbered_lines
from shardclock_server.service.lines import ImportBroken
from shardclock_server.sql.clients.outcomes import Refused
from shardclock_server.sql.clients.scheduling import ScheduleBatch
from shardclock_server.sql.session import CLIENT_PLANS, Session, StoreUnavailable
from shardclock_server.timers.model import NewTimer
from shardclock_server.timers.moment import parse_written
from shardclock_server.timers.refusal import Refusal
from shardclock_server.timers.zone import zone_of

SHOWN_REFUSALS = 20
SESSIONS = 3  # The number of concurrent sessions for a file. Two sessions write 62,000 lines a second, three 66,000.

Payload = Annotated[
    str | None,
    typer.Option(
        "--payload",
        metavar="JSON",
        help="The timer's payload, JSON of at most 64 KiB; @FILE reads a file, - standard input.",
    ),
]
Target = Annotated[
    str | None,
    typer.Option(
        "--target",
        help="The target that the firing calls: the name of a handler of the app, or webhook:NAME. Default: log.",
    ),
]


def schedule(
    delay: In = None,
    at: At = None,
    every: Every = None,
    cron: Cron = None,
    zone: Zone = None,
    missed: MissedRuns = None,
    file: Annotated[
        str | None,
        typer.Option(
            "--file", metavar="FILE", help="A file of timers, one JSON object on each line; - is standard input."
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="The timer's name, unique among the tenant's pending timers.")
    ] = None,
    on_conflict: OnConflict = None,
    tenant: Tenant = DEFAULT_TENANT,
    payload: Payload = None,
    target: Target = None,
    process_instance: ProcessInstance = None,
    refused_to: Annotated[
        Path | None, typer.Option("--refused-to", help="With --file: write refused lines to this file.")
    ] = None,
    start_line: Annotated[int, typer.Option("--start-line", min=1, help="With --file: start at this line.")] = 1,
    as_json: Json = False,
) -> int:
    """Schedule one timer, or a file of timers."""
    rule = rule_of(every, cron)
    fields: dict[str, Any] = {
        "zone": zone,
        "due_date": at,
        "delay": delay,
        "schedule": rule and rule.text,
        "missed": missed,
        "name": name,
        "target": target,
        "process_instance_key": process_instance,
        "payload": payload,
    }
    given = {field: value for field, value in fields.items() if value is not None}
    policy = {} if on_conflict is None else {"on_conflict": on_conflict}
    if file is not None:
        if given or tenant != DEFAULT_TENANT:
            raise Refusal("--file takes everything from its lines: leave out the options that describe one timer")
        return _schedule_file(file, policy, start_line=start_line, refused_to=refused_to, as_json=as_json)
    if refused_to is not None or start_line != 1:
        raise Refusal("--refused-to and --start-line go with --file")
    if delay is not None:
        given["delay"] = str(read_length("--in", delay))
    if payload is not None:
        given["payload"] = read_payload(payload)
    called = option_names(rule)
    fields = {"tenant_id": tenant} | given | policy
    timer = NewTimer.from_fields(fields, called=called)
    done = _schedule_one(timer, called, as_json=as_json)
    if at is not None and timer.zone != "UTC" and (skipped := parse_written(at, zone_of(timer.zone)).skipped):
        print_note(
            f"the clock of {timer.zone} skips {skipped.isoformat()}; the timer is due later, by the clock's jump"
        )
    return done


def _schedule_one(timer: NewTimer, called: Mapping[str, str], *, as_json: bool) -> int:
    async def do(session: Session) -> int:
        (outcome,) = await ScheduleBatch([timer]).send(session)
        if isinstance(outcome, Refused):
            raise Refusal(in_options(outcome.why, called), code=outcome.code)
        if as_json:
            print_json(outcome)
        else:
            print_table("", ["timer_key", "due", "outcome"], [(outcome.timer_key, outcome.due_date, outcome.outcome)])
            await note_without_shards(session)
        return DONE

    return with_session(do, makes_database=True)


def _schedule_file(
    file: str, defaults: dict[str, str], *, start_line: int, refused_to: Path | None, as_json: bool
) -> int:
    try:
        source = nullcontext(sys.stdin.buffer) if file == "-" else Path(file).open("rb")  # noqa: SIM115 - below
        total = None if file == "-" else Path(file).stat().st_size
    except OSError as error:
        print_note(f"shardclock: can't read {file}: {error.strerror}")
        return BAD_INPUT
    report = ImportReport()
    with source as lines, _open_for_refused(refused_to) as refused_file:
        try:
            with _bar(total) as bar:
                numbered = numbered_lines(lines, start=start_line)
                with_session(
                    lambda session: _import(session, numbered, report, defaults, bar),
                    plans=CLIENT_PLANS,
                    makes_database=True,
                )
        except (ImportBroken, UnreadableLine):
            _end_report(report, refused_file, as_json=as_json)
            raise
        except KeyboardInterrupt:
            _end_report(report, refused_file, as_json=as_json)
            _print_interrupted(max(start_line, report.next_line))
            raise
        return _end_report(report, refused_file, as_json=as_json)


@contextmanager
def _open_for_refused(path: Path | None) -> Iterator[IO[bytes] | None]:
    """Open the file for refused lines before the import, so that an unwritable file ends the command at its start."""
    if path is None:
        yield None
        return
    try:
        file = path.open("wb")
    except OSError as error:
        raise Refusal(f"can't write {path}: {error.strerror}; name another file with --refused-to") from error
    with file:
        yield file


async def _import(
    session: Session, lines: Iterable[tuple[int, bytes]], report: ImportReport, defaults: dict[str, str], bar: Progress
) -> None:
    def advance(so_far: ImportReport) -> None:
        bar.update(bar.task_ids[0], completed=so_far.read_bytes, scheduled=so_far.scheduled)

    # The sessions work concurrently: Postgres writes one batch while the client builds the next batch.
    async with AsyncExitStack() as others:
        sessions = [session]
        while len(sessions) < SESSIONS:
            another = session.another(application="shardclock", timeout_s=TIMEOUT_S, plans=CLIENT_PLANS)
            if not await _is_there(await others.enter_async_context(another)):
                break
            sessions.append(another)
        with collecting_seldom():
            await import_lines(sessions, lines, report, defaults=defaults, progress=advance)


async def _is_there(session: Session) -> bool:
    """Return whether Postgres accepts another connection; a role may have a limit of connections."""
    try:
        await session.rows("read_clock")
    except StoreUnavailable:
        return False
    return True


def _bar(total: int | None) -> Progress:
    bar = Progress(
        TextColumn("{task.fields[scheduled]:,} scheduled"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("bytes"),
        TimeRemainingColumn(),
        console=err,
        disable=not err.is_terminal,
    )
    bar.add_task("scheduling", total=total, scheduled=0)
    return bar


def _end_report(report: ImportReport, refused_file: IO[bytes] | None, *, as_json: bool) -> int:
    """Write the refused lines to their file, and print the report; return the exit code."""
    is_kept = refused_file is None or _keep_refused(report, refused_file)
    _print_report(report, as_json=as_json)
    if not is_kept:
        return ANSWER_LOST
    return NOT_DONE if report.refused else DONE


def _print_interrupted(line: int) -> None:
    """Print the line from which to continue; lines with an interrupted write may be stored or not."""
    print_note(
        f"shardclock: interrupted: all lines before line {line} are done, and up to {SESSIONS * PART_LINES:,} lines"
        f" from line {line} on may be done: see `shardclock list`, and continue with --start-line {line}, or with the"
        " first line that is missing"
    )


def _keep_refused(report: ImportReport, file: IO[bytes]) -> bool:
    """Write the refused lines; if the write fails, print the reason and return False."""
    try:
        with file:
            file.write(b"".join(refused.line for refused in report.refused))
    except OSError as error:
        print_note(
            f"shardclock: {file.name} can't be written: {error.strerror}; the report counts the scheduled timers:"
            " send only the refused lines again"
        )
        return False
    return True


def _print_report(report: ImportReport, *, as_json: bool) -> None:
    if as_json:
        refusals = [{"line": refused.number, "why": refused.why, "code": refused.code} for refused in report.refused]
        counts = {"scheduled": report.scheduled, "replaced": report.replaced, "unchanged": report.unchanged}
        print_json(counts | {"refused": refusals})
        return
    for refused in report.refused[:SHOWN_REFUSALS]:
        print_note(f"line {refused.number}: {refused.why}")
    if len(report.refused) > SHOWN_REFUSALS:
        print_note(
            f"and {len(report.refused) - SHOWN_REFUSALS} more: --json lists all refused lines, --refused-to"
            f" writes them to a file"
        )
    counted = (report.scheduled, report.replaced, report.unchanged, len(report.refused))
    print_table("", ["scheduled", "replaced", "unchanged", "refused"], [counted])
