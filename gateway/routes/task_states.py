"""Say what has become of a task, a person's or a program's."""

from collections.abc import Mapping

from shardclock_server.gateway.answers.processes import TaskStateAnswer
from shardclock_server.gateway.requests.problems import CONFLICT, NOT_FOUND, Problem
from shardclock_server.service.tasks import NOT_FOUND as UNKNOWN


def told(task_key: int, outcome: str, why_not: Mapping[str, str]) -> TaskStateAnswer:
    """Answer what a task is now.

    errors:  Problem  it stays as it is: `why_not` has a sentence for each such outcome
    """
    if outcome in why_not:
        kind = NOT_FOUND if outcome == UNKNOWN else CONFLICT
        raise Problem(kind, why_not[outcome].format(key=task_key), state=outcome)
    return TaskStateAnswer(task_key=task_key, state=outcome)
