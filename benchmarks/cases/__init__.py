"""All cases by name, in the order in which they run; `case` defines a case."""

from benchmarks.cases import (
    at_once,
    beside,
    called,
    consume,
    drain,
    handled,
    herd,
    jobs,
    lasting,
    lives,
    paced,
    pending,
    repeat,
    rest,
    schedule,
    start,
    takeover,
    waiting,
    webhooks,
)
from benchmarks.cases.case import Case

CASES: dict[str, Case] = {
    case.name: case
    for case in (
        drain.CASE,
        paced.CASE,
        handled.CASE,
        called.CASE,
        webhooks.CASE,
        beside.CASE,
        herd.CASE,
        pending.CASE,
        start.CASE,
        takeover.CASE,
        schedule.CASE,
        rest.CASE,
        at_once.CASE,
        repeat.CASE,
        consume.CASE,
        jobs.CASE,
        lives.CASE,
        waiting.CASE,
        *lasting.CASES,
    )
}
