"""The refusals of processes, instances, tasks and incidents."""

from shardclock.api.codes import CONFLICT, NOT_ALLOWED, NOT_FOUND, OTHER_REQUEST, REFUSED

UNKNOWN_PROCESS = NOT_FOUND.specific("unknown_process", "process {process!r} is unknown: {known}")
UNKNOWN_VERSION = NOT_FOUND.specific(
    "unknown_version", "process {process!r} has no version {version}: leave the version out for the newest"
)
UNKNOWN_DEFINITION = NOT_FOUND.specific(
    "unknown_definition", "definition {definition_key} is unknown: look for its key in the list of processes"
)
UNKNOWN_INSTANCE = NOT_FOUND.specific(
    "unknown_instance",
    "instance {instance_key} is unknown: it is not in the list of instances, or ended and was forgotten",
)
INSTANCE_ENDED = CONFLICT.specific("instance_ended", "instance {instance_key} has ended, it is {state}: {why}")
INSTANCE_STARTING = CONFLICT.specific("instance_starting", "no engine has begun instance {instance_key} yet: {why}")
INSTANCE_GIVEN_UP = CONFLICT.specific(
    "instance_given_up",
    "the start of instance {instance_key} was given up: redrive dead letter {instance_key}, or cancel the instance",
)
INSTANCE_BEGAN = CONFLICT.specific(
    "instance_began", "instance {instance_key} has begun meanwhile: send the request again"
)
INSTANCE_OF_ANOTHER_TENANT = NOT_ALLOWED.specific(
    "instance_of_another_tenant", "instance {instance_key} belongs to a tenant that the session does not serve"
)
PROCESS_WITHOUT_START = REFUSED.specific(
    "process_without_start", "process {process!r} has no start event without a trigger: it begins by {triggers}"
)
START_KEY_USED = OTHER_REQUEST.specific(
    "start_key_used", "idempotency_key {idempotency_key!r} has started {other}: use another key"
)
INCIDENT_OF_SIGNAL = CONFLICT.specific(
    "incident_of_signal",
    "the incident of token {token} is a signal that no engine could take: send it again (shardclock dead-letters"
    " redrive {signal_key})",
)
UNKNOWN_TASK = NOT_FOUND.specific(
    "unknown_task", "task {task_key} is unknown: it never existed, or its instance was deleted"
)
TASK_COMPLETED = CONFLICT.specific("task_completed", "task {task_key} was completed already")
TASK_CANCELED = CONFLICT.specific("task_canceled", "task {task_key} is CANCELED: its instance no longer waits for it")
TASK_ASSIGNED = CONFLICT.specific(
    "task_assigned",
    "task {task_key} is assigned to {assignee}: let that person return it, or unclaim it (shardclock tasks unclaim)",
)
SERVICE_TASK_TAKEN = CONFLICT.specific(
    "service_task_taken", "service task {task_key} is no longer yours: another program or worker has claimed it"
)
SERVICE_TASK_COMPLETED = CONFLICT.specific("service_task_completed", "service task {task_key} was completed already")
SERVICE_TASK_ERROR = CONFLICT.specific(
    "service_task_error", "service task {task_key} has ended with an error of BPMN already"
)
SERVICE_TASK_GIVEN_UP = CONFLICT.specific(
    "service_task_given_up", "service task {task_key} was given up already: its instance has an incident"
)
SERVICE_TASK_FAILED = CONFLICT.specific(
    "service_task_failed", "service task {task_key} has failed already: claim it again to try it again"
)
SERVICE_TASK_CANCELED = CONFLICT.specific(
    "service_task_canceled", "service task {task_key} is CANCELED: its instance no longer waits for it"
)
UNKNOWN_SERVICE_TASK = NOT_FOUND.specific(
    "unknown_service_task",
    "service task {task_key} is unknown under this claim: it never existed, or its end was deleted from the log",
)
UNKNOWN_INCIDENT = NOT_FOUND.specific("unknown_incident", "instance {instance_key} has no incident at token {token}")
