"""The result of a check of an installation."""

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """The severity of a finding; a fault makes the command fail."""

    OK = "ok"
    UNKNOWN = "unknown"
    WARNING = "warning"
    FAULT = "fault"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check: the value, the rule, and the advice."""

    check: str
    level: Level
    text: str
