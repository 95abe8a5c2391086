"""The settings that all keepers have in common."""

import re

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError


def written_as(pattern: str, rule: str) -> AfterValidator:
    """Accept a text that matches a pattern.

    The error message states the rule in words, because patterns are hard to read.
    """

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise PydanticCustomError("rule", "it must be {rule}", {"rule": rule})
        return text

    return AfterValidator(check)


class KeeperSettings(BaseModel):
    """The common settings of shards, workers and engines.

    The database's address is not a setting here: each process reads the address on its own node.
    """

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    identity: str = ""
    metrics_socket: str | None = None

    heartbeat_s: float = Field(0.25, gt=0, description="the time between two heartbeats")
    statement_timeout_s: float = Field(
        3.0,
        gt=0,
        description="the timeout of a statement; shorter than the lease, so that each statement ends before the lease",
    )
    retry_max_s: float = Field(1.0, gt=0, description="the longest wait between two attempts while Postgres is down")
