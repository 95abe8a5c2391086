"""A change of many timers: count them, with --yes change them, and print the outcome."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from shardclock_server.cli.bars import OnBars, bars_of
from shardclock_server.cli.field_names import in_options
from shardclock_server.cli.output import DONE, NOT_DONE, print_json, print_table, tell
from shardclock_server.cli.session import with_session
from shardclock_server.service.bulk_change import BulkChange, Change
from shardclock_server.service.bulk_run import BulkBroken
from shardclock_server.sql.clients.history import Filter
from shardclock_server.sql.session import Session


@dataclass(frozen=True, slots=True)
class Wording:
    """The words for a change of many timers; `shown` is added to the numbers in the JSON."""

    verb: str
    participle: str
    left: str = "ended or changed meanwhile"
    again: str = "the same command again does the rest"
    shown: dict[str, str | None] = field(default_factory=dict)


def change_many(wanted: Filter, change: Change, words: Wording, *, yes: bool, as_json: bool) -> int:
    """Count the timers that a filter finds, and with `yes` change them.

    errors:  InvalidTimer  the change is refused, before anything was changed
             BulkBroken    Postgres stopped answering half way; what was done until then is printed
    """
    bulk = BulkChange(wanted, change)

    async def do(session: Session) -> None:
        with bars_of("timers") as bars:
            await bulk.run(session, OnBars(bars, words.verb), dry_run=not yes)

    try:
        with_session(do)
    except BulkBroken as broken:
        _print(bulk, words, yes=yes, as_json=as_json)
        raise BulkBroken(f"{broken}; {words.again}") from broken
    except KeyboardInterrupt:
        _print(bulk, words, yes=yes, as_json=as_json)
        raise
    _print(bulk, words, yes=yes, as_json=as_json)
    if bulk.refusal is not None:
        tell(f"shardclock: {in_options(str(bulk.refusal))}; those before it were {words.participle}")
        return NOT_DONE
    return DONE


def _print(bulk: BulkChange, words: Wording, *, yes: bool, as_json: bool) -> None:
    """Print the numbers, and remarks about the timers that were not changed."""
    numbers = {"matched": bulk.matched, "changed": bulk.changed}
    if as_json:
        print_json(numbers | {"unsure": bulk.unsure, "left_out": bulk.left_out} | words.shown)
    else:
        print_table("", list(numbers), [list(numbers.values())])
    for remark in _remarks(bulk, words, yes=yes, as_json=as_json):
        tell(remark)


def _remarks(bulk: BulkChange, words: Wording, *, yes: bool, as_json: bool) -> Iterator[str]:
    if bulk.unsure:
        yield f"up to {bulk.unsure:,} more may have been {words.participle}: the answer was lost"
    left = bulk.matched - bulk.changed - bulk.unsure
    if as_json:
        return
    if bulk.left_out:
        yield (
            f"left out: {bulk.left_out:,}, which belong to jobs and instances of processes: change those"
            " (shardclock jobs, shardclock processes), or their timers as an operator (shardclock operate)"
        )
    if not bulk.matched:
        yield "no other timer matches" if bulk.left_out else "no timer matches"
    elif not yes:
        yield f"nothing was changed; add --yes to {words.verb} them"
    elif left > 0 and bulk.refusal is None:
        yield f"left as they are: {left:,}, which {words.left}"
