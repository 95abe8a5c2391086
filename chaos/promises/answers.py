"""Check L2 and L4: each call returns, and each reader of the log gets each record once, in order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from chaos.history.changes import Recorded
from chaos.promises.wording import call_of
from chaos.run_index import RunIndex


def each_call_returns(run: RunIndex) -> Iterator[str | None]:
    """Compare the duration of each call with the limit; a call without a return is a violation."""
    answer_s = run.history.bounds.answer_s
    for call in run.history.calls:
        if call.ended_at is None:
            yield f"{call_of(call)}: the call did not return"
        else:
            took_s = call.ended_at - call.began_at
            yield f"{call_of(call)}: the call took {took_s:.1f} s" if took_s > answer_s else None


def read_once(run: RunIndex) -> Iterator[str | None]:
    """Compare the records of each reader with the commits: positions ascend, and no position is missing.

    The records of one timer are also in the order of their commits.
    """
    records = [it for commit in run.history.commits for it in commit.changes if type(it) is Recorded]
    missing = defaultdict[str, set[int]](lambda: {it.position for it in records})
    last: dict[str, int] = {}
    for read in run.history.reads:
        position = read.position
        before = last.get(read.reader, -1)
        missing[read.reader].discard(position)
        last[read.reader] = position
        yield None if position > before else f"{read.reader}: read {position} after {before}"
    for reader, positions in missing.items():
        yield from (f"{reader}: never read {position}" for position in sorted(positions))
    latest: dict[int, Recorded] = {}
    for record in records:
        before_it = latest.get(record.timer_key)
        if before_it and record.position < before_it.position:
            yield (
                f"timer {record.timer_key}: the record {record.intent} is before {before_it.intent}, but was"
                " committed later"
            )
        latest[record.timer_key] = record
