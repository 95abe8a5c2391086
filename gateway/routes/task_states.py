"""The state of a user task or a service task after a change."""

from collections.abc import Mapping

from shardclock.api.codes import RefusalCode
from shardclock_server.gateway.answers.processes import TaskStateAnswer
from shardclock_server.service.tasks import refusal_of


def task_state_answer(task_key: int, outcome: str, why_not: Mapping[str, RefusalCode]) -> TaskStateAnswer:
    """Answer with the state of a task.

    errors:  Refusal  the task was not changed; `why_not` maps the task's state to the code of the refusal
    """
    if outcome in why_not:
        raise refusal_of(task_key, outcome, why_not)
    return TaskStateAnswer(task_key=task_key, state=outcome)
