"""What clients do with tasks of persons, for the command line and HTTP alike."""

from collections.abc import Mapping

COMPLETED, COMPLETED_BEFORE = "COMPLETED", "COMPLETED_BEFORE"
# Why a task was not completed.
LEFT: Mapping[str, str] = {
    COMPLETED_BEFORE: "task {key} was completed already",
    "CANCELED": "task {key} is CANCELED: its instance waits for it no more",
    "NOT_FOUND": "task {key} is unknown: it never was, or its instance is forgotten",
}
