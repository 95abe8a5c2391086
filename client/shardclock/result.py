"""Keep what a handler returns, if it is JSON that fits into the log; else say why not.

Of a service task of a process it becomes variables, and to lose those is a fault.
"""

from shardclock.outcome import COMPLETED, Completed, Failed
from shardclock.recorded import HUGE, as_json, as_variables
from shardclock.refusal import shown


def completed(result: object) -> Completed:
    """Judge a call that returned; a result that can't be recorded is dropped with a note, and is no fault."""
    if result is None:
        return COMPLETED
    value, why = as_json(result)
    if why is None:
        return Completed(value)
    told = type(result) if why is HUGE else result
    return Completed(None, note=f"the result {shown(told)} is not recorded: it {why}")


def with_variables(result: object) -> Completed | Failed:
    """Judge a call for a service task: it fails if what it returned is no object, or can't be recorded."""
    if result is None:
        return COMPLETED
    value, why = as_variables(result)
    return Completed(value) if why is None else Failed(f"the result can't become variables: it {why}")
