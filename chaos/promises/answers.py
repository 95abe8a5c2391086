"""L2 and L4: each call comes to an end, and each reader of the log gets each record once, in order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from chaos.history import Recorded
from chaos.lives import Run
from chaos.promises.wording import call_of


def nobody_waits_for_ever(run: Run) -> Iterator[str | None]:
    """Hold how long each call took against the bound; one without an end hangs."""
    answer_s = run.history.bounds.answer_s
    for call in run.history.calls:
        if call.ended_at is None:
            yield f"{call_of(call)}: it never came back"
        else:
            took_s = call.ended_at - call.began_at
            yield f"{call_of(call)}: it took {took_s:.1f} s" if took_s > answer_s else None


def read_once(run: Run) -> Iterator[str | None]:
    """Hold what each reader got against all that was recorded: ascending by position, and nothing left out.

    And the records of one timer have the order in which their transactions committed.
    """
    records = [it for commit in run.history.commits for it in commit.changes if type(it) is Recorded]
    missing = defaultdict[str, set[int]](lambda: {it.position for it in records})
    last: dict[str, int] = {}
    for read in run.history.reads:
        place = read.position
        before = last.get(read.reader, -1)
        missing[read.reader].discard(place)
        last[read.reader] = place
        yield None if place > before else f"{read.reader}: read {place} after {before}"
    for reader, places in missing.items():
        yield from (f"{reader}: never read {place}" for place in sorted(places))
    latest: dict[int, Recorded] = {}
    for record in records:
        before_it = latest.get(record.timer_key)
        if before_it and record.position < before_it.position:
            yield f"timer {record.timer_key}: {record.intent} stands before the {before_it.intent} that it followed"
        latest[record.timer_key] = record
