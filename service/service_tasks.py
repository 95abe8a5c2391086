"""What clients hear of service tasks that programs take."""

from collections.abc import Mapping

from service.tasks import CANCELED, COMPLETED_BEFORE, NOT_FOUND, TAKEN

# Why an answer to a service task counts for nothing, by what became of the task.
NOT_YOURS: Mapping[str, str] = {
    TAKEN: "service task {key} is yours no more: another has taken it since",
    COMPLETED_BEFORE: "service task {key} was completed already",
    "DISCARDED_BEFORE": "service task {key} has ended with an error of BPMN already",
    "DEAD_BEFORE": "service task {key} was given up already: its instance has an incident",
    "RETRIED_BEFORE": "service task {key} has failed already: to try it again, take it again",
    CANCELED: "service task {key} is CANCELED: its instance waits for it no more",
    NOT_FOUND: "service task {key} is unknown under this claim: it never was, or the log has forgotten its end",
}
