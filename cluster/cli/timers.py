"""The commands about timers: schedule, list, show, cancel, reschedule."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import datetime
from pathlib import Path
from typing import IO, Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from cluster.cli.output import BAD_INPUT, DONE, NOT_DONE, Json, Tenant, err, hex_of, print_json, print_table, tell
from cluster.cli.store import with_session
from cluster.importing import ImportBroken, Report, import_lines, numbered_lines
from sql.history import TimerState, find_timer, list_ended, list_pending, records_of
from sql.pending import Refused, cancel_timer, draw_keys, reschedule_timer, schedule_timers
from sql.session import Session
from timers.duration import Duration, parse_duration
from timers.model import BIGINT_MAX, NewTimer
from timers.moment import parse_due_date
from timers.payload import PAYLOAD_BYTES_MAX, read_json
from timers.refusal import InvalidTimer

SHOWN_REFUSALS = 20

Key = Annotated[
    int | None,
    typer.Argument(metavar="[TIMER_KEY]", min=1, max=BIGINT_MAX, help="The timer's key.", show_default=False),
]
Name = Annotated[str | None, typer.Option("--name", help="The timer's name, instead of its key.")]
In = Annotated[str | None, typer.Option("--in", metavar="DURATION", help="After an ISO 8601 delay, such as PT15M.")]
At = Annotated[str | None, typer.Option("--at", metavar="DATE", help="At a moment, such as 2027-01-31T08:00:00Z.")]


def schedule(
    delay: In = None,
    at: At = None,
    every: Annotated[
        str | None, typer.Option("--every", metavar="REPEAT", help="By an ISO 8601 repeat, such as R/PT1H or R5/P1D.")
    ] = None,
    file: Annotated[
        str | None, typer.Option("--file", metavar="FILE", help="Many: a JSON object a line; - is standard input.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="Unique among the tenant's pending timers.")] = None,
    tenant: Tenant = "default",
    payload: Annotated[str | None, typer.Option("--payload", metavar="JSON", help="Travels with it; 64 KiB.")] = None,
    refused_to: Annotated[
        Path | None, typer.Option("--refused-to", help="With --file: write the lines refused here.")
    ] = None,
    start_line: Annotated[int, typer.Option("--start-line", min=1, help="With --file: begin with this line.")] = 1,
    as_json: Json = False,
) -> int:
    """Schedule one timer, or a file of them."""
    if file is not None:
        if any(given is not None for given in (delay, at, every, name, payload)):
            raise InvalidTimer("--file takes everything from its lines: leave out the options that describe one timer")
        return _schedule_file(file, start_line=start_line, refused_to=refused_to, as_json=as_json)
    if refused_to is not None or start_line != 1:
        raise InvalidTimer("--refused-to and --start-line go with --file")
    fields: dict[str, Any] = {"delay": delay, "due_date": at, "schedule": every, "name": name, "tenant_id": tenant}
    if payload is not None:
        fields["payload"] = read_json(payload, bytes_max=PAYLOAD_BYTES_MAX)
    timer = NewTimer.from_fields({field: value for field, value in fields.items() if value is not None})

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


def list_(
    state: Annotated[str, typer.Option("--state", help="pending, triggered, canceled or ended.")] = "pending",
    tenant: Annotated[str | None, typer.Option("--tenant", help="Only this tenant's.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="How many.")] = 20,
    as_json: Json = False,
) -> int:
    """List pending timers, soonest first, or ended ones, newest first."""
    wanted = state.upper()
    if wanted not in ("PENDING", "TRIGGERED", "CANCELED", "ENDED"):
        raise InvalidTimer(f"--state {state!r} is unknown: use pending, triggered, canceled or ended")

    async def do(session: Session) -> int:
        if wanted == "PENDING":
            found = await list_pending(session, limit=limit, tenant_id=tenant)
        else:
            only = None if wanted == "ENDED" else wanted
            found = await list_ended(session, limit=limit, tenant_id=tenant, state=only)
        if as_json:
            print_json(found)
        else:
            rows = [(t.timer_key, t.state, t.due_date, t.ended_at, t.tenant_id, t.name, t.schedule) for t in found]
            print_table("", ["timer_key", "state", "due", "ended", "tenant", "name", "schedule"], rows)
        return DONE

    return with_session(do)


def show(timer_key: Key = None, name: Name = None, tenant: Tenant = "default", as_json: Json = False) -> int:
    """Show one timer, and the last of what happened to it."""
    _one_of(timer_key, name)

    async def do(session: Session) -> int:
        which: dict[str, Any] = {"timer_key": timer_key, "name": name, "tenant_id": tenant}
        timer = await find_timer(session, **which)
        if timer is None:
            tell(f"shardclock: there is no timer {_called(timer_key, name, tenant)}, pending or ended")
            return NOT_DONE
        records = await records_of(session, **which)
        if as_json:
            print_json({"timer": timer, "records": records})
        else:
            print_table("", ["field", "value"], _fields(timer))
            rows = [(r.recorded_at, r.intent, r.timer_key, r.due_date, r.occurrence, r.detail) for r in records]
            print_table("\nrecords", ["recorded", "intent", "timer_key", "due", "occurrence", "detail"], rows)
        return DONE

    return with_session(do)


def cancel(
    timer_key: Key = None,
    name: Name = None,
    tenant: Tenant = "default",
    reason: Annotated[str | None, typer.Option("--reason", help="Kept in the record.")] = None,
    as_json: Json = False,
) -> int:
    """Cancel a pending timer; says so if it has fired already."""
    _one_of(timer_key, name)

    async def do(session: Session) -> int:
        state = await cancel_timer(session, timer_key=timer_key, name=name, tenant_id=tenant, reason=reason)
        return _answer(state, "CANCELED", _called(timer_key, name, tenant), as_json=as_json)

    return with_session(do)


def reschedule(
    timer_key: Key = None,
    delay: In = None,
    at: At = None,
    name: Name = None,
    tenant: Tenant = "default",
    as_json: Json = False,
) -> int:
    """Move a pending timer to another due date."""
    _one_of(timer_key, name)
    when = _moment(delay, at)

    async def do(session: Session) -> int:
        state = await reschedule_timer(session, when, timer_key=timer_key, name=name, tenant_id=tenant)
        return _answer(state, "RESCHEDULED", _called(timer_key, name, tenant), as_json=as_json)

    return with_session(do)


def _moment(delay: str | None, at: str | None) -> Duration | datetime:
    if delay is not None and at is None:
        return parse_duration(delay)
    if at is not None and delay is None:
        return parse_due_date(at)
    raise InvalidTimer("say when: give either --in or --at")


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


def _answer(state: str, wanted: str, called: str, *, as_json: bool) -> int:
    if as_json:
        print_json({"state": state})
    elif state == "UNKNOWN":
        tell(f"shardclock: there is no timer {called}, pending or ended")
    elif state != wanted:
        tell(f"shardclock: too late: timer {called} is {state} already")
    else:
        print_table("", ["timer", "state"], [(called, state)])
    return DONE if state == wanted else NOT_DONE


def _one_of(timer_key: int | None, name: str | None) -> None:
    if (timer_key is None) == (name is None):
        raise InvalidTimer("say which timer: give either its key or --name")


def _called(timer_key: int | None, name: str | None, tenant: str) -> str:
    return str(timer_key) if timer_key is not None else f"{name!r} of tenant {tenant!r}"


def _fields(timer: TimerState) -> list[tuple[str, object]]:
    values = {name: getattr(timer, name) for name in TimerState.__slots__}
    values["holder"] = hex_of(timer.holder)
    return [(name, value) for name, value in values.items() if value is not None]
