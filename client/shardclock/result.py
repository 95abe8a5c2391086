"""Record a handler's result, or the reason why the log can't store the result.

The result of a service task becomes variables of its process, so a result that can't be recorded fails the attempt.
"""

from shardclock.outcome import COMPLETED, Completed, Failed
from shardclock.recorded import HUGE, as_json, as_variables
from shardclock.refusal import shown


def completed(result: object) -> Completed:
    """Convert a handler's result; a note replaces a result that can't be recorded, and the attempt succeeds."""
    if result is None:
        return COMPLETED
    value, why = as_json(result)
    if why is None:
        return Completed(value)
    told = type(result) if why is HUGE else result
    return Completed(None, note=f"the result {shown(told)} is not recorded: it {why}")


def with_variables(result: object) -> Completed | Failed:
    """Convert a service task's result; the attempt fails if the result is no object, or can't be recorded."""
    if result is None:
        return COMPLETED
    value, why = as_variables(result)
    return Completed(value) if why is None else Failed(f"the result can't become variables: it {why}")
