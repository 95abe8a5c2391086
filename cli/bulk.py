"""Change many timers: count them, change them with --yes, and print the result."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from shardclock.api.codes import NOT_DONE, invalid
from shardclock_server.cli.bars import ProgressBars, bars_of
from shardclock_server.cli.field_names import in_options
from shardclock_server.cli.operator import end_interrupted, operator, way_on
from shardclock_server.cli.output import DONE, print_json, print_note, print_table
from shardclock_server.cli.recording import note_result
from shardclock_server.cli.session import with_session
from shardclock_server.service.bulk_change import BulkChange, ChangeKind
from shardclock_server.service.bulk_run import BulkBroken
from shardclock_server.service.unchanged import describe_unchanged
from shardclock_server.sql.clients.search import OPEN_STATES, TimerFilter
from shardclock_server.sql.session import Session
from shardclock_server.timers.refusal import Refusal, unknown

CHANGEABLE = tuple(it.upper() for it in OPEN_STATES)


@dataclass(frozen=True, slots=True)
class Wording:
    """The words that describe a bulk change in the output; `shown` has additional fields for the JSON output."""

    verb: str
    participle: str
    again: str = "repeat the same command for the rest"
    shown: dict[str, str | None] = field(default_factory=dict)


def states_of(state: str | None, able: tuple[str, ...]) -> tuple[str, ...]:
    """Return the states of timers that the command changes: the given `--state`, or all states that the verb supports.

    errors:  Refusal  the verb does not support the given state
    """
    if state is None:
        return able
    if state.lower() not in OPEN_STATES:
        raise Refusal.of(invalid("--state"), why=unknown(state, OPEN_STATES))
    return tuple(it for it in able if it == state.upper())


def change_many(wanted: TimerFilter, change: ChangeKind, wording: Wording, *, yes: bool, as_json: bool) -> int:
    """Count the timers that match a filter; with `yes`, also change them.

    errors:  InvalidTimer  Postgres refused the first change, so nothing was changed.
             BulkBroken    Postgres stopped answering during the change; the command prints the number of changed
             timers."""
    bulk = BulkChange(operator(), wanted, change)

    async def do(session: Session) -> None:
        try:
            with bars_of("timers") as bars:
                await bulk.run(session, ProgressBars(bars, wording.verb), dry_run=not yes)
        finally:
            note_result({"changed": bulk.changed, "operation_id": bulk.operation_id})

    try:
        with_session(do)
    except BulkBroken as broken:
        _print(bulk, wording, yes=yes, as_json=as_json)
        raise BulkBroken(f"{broken}; {way_on(bulk, wording.again)}") from broken
    except KeyboardInterrupt:
        end_interrupted(bulk)
        _print(bulk, wording, yes=yes, as_json=as_json)
        raise
    _print(bulk, wording, yes=yes, as_json=as_json)
    if bulk.refusal is not None:
        print_note(f"shardclock: {in_options(str(bulk.refusal))}; the earlier timers were {wording.participle}")
        return NOT_DONE
    return DONE if yes or not bulk.matched else NOT_DONE


def _print(bulk: BulkChange, wording: Wording, *, yes: bool, as_json: bool) -> None:
    """Print the counts, and explain why some timers were not changed."""
    numbers = {"matched": bulk.matched, "changed": bulk.changed}
    if as_json:
        unchanged = {"unchanged": bulk.unchanged, "unchanged_reasons": bulk.unchanged_reasons}
        more = {"unsure": bulk.unsure, "left_out": bulk.left_out, "operation_id": bulk.operation_id}
        print_json(numbers | unchanged | more | wording.shown)
    else:
        print_table("", list(numbers), [list(numbers.values())])
    for remark in _remarks(bulk, wording, yes=yes, as_json=as_json):
        print_note(remark)


def _remarks(bulk: BulkChange, wording: Wording, *, yes: bool, as_json: bool) -> Iterator[str]:
    if bulk.is_canceled:
        yield f"operation {bulk.operation_id} was cancelled"
    if bulk.unsure:
        yield f"up to {bulk.unsure:,} more rows may have been {wording.participle}: the answer was lost"
    if as_json:
        return
    if bulk.left_out:
        yield (
            f"left out: {bulk.left_out:,} timers of jobs and process instances: change the job or instance"
            " (shardclock jobs, shardclock processes), or change a timer as an operator (shardclock operate)"
        )
    if not bulk.matched:
        yield "no other timer matches" if bulk.left_out else "no timer matches"
    elif not yes:
        yield f"nothing was changed; add --yes to {wording.verb} the timers"
    elif bulk.unchanged_reasons:
        yield f"unchanged: {describe_unchanged(bulk.unchanged_reasons)}"
