"""Write the functions that Shardclock's timers call, and test them without a cluster.

    @shardclock.on_timer("order.expired", max_attempts=5)
    async def expire(timer: shardclock.Timer) -> None: ...

A handler returns: the timer is done. It raises: it is called again later, as its policy says; `Discard`: never again;
`RetryIn`: after this time; `Partly`: for some timers of a batch. The same timer may come more than once, so a handler
must bear that.

`timer` is what a handler gets, `handler` declares it (with `policy`, `durations` and `signature`), `app` finds the
handlers of a module, `calling` calls them (with `payload` and `deadline`), `outcome` says how an attempt ended (with
`raised`, `result` and `reason`), `testing` calls them in a user's tests. What can't be a handler is refused when it is
declared, with `InvalidHandler`: one sentence with the value, the rule and the way out.
"""

from shardclock.app import describe, find_handlers, handlers_of, installed_apps
from shardclock.calling import call_async, call_batch_async, call_batch_plain, call_plain
from shardclock.handler import Handler, on_timer
from shardclock.outcome import COMPLETED, Completed, Discarded, Failed, Outcome, RetryLater
from shardclock.policy import Policy
from shardclock.raised import Discard, Partly, RetryIn
from shardclock.refusal import InvalidHandler
from shardclock.timer import Timer

__all__ = [
    "COMPLETED",
    "Completed",
    "Discard",
    "Discarded",
    "Failed",
    "Handler",
    "InvalidHandler",
    "Outcome",
    "Partly",
    "Policy",
    "RetryIn",
    "RetryLater",
    "Timer",
    "call_async",
    "call_batch_async",
    "call_batch_plain",
    "call_plain",
    "describe",
    "find_handlers",
    "handlers_of",
    "installed_apps",
    "on_timer",
]
