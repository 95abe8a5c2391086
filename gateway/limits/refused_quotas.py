"""Collect this gateway's refusals by quotas until their events for operators are written."""

from collections.abc import Mapping

from shardclock_server.gateway.requests.problems import Problem
from shardclock_server.sql.notify.events import ObservedEvent

QUOTAS_MAX = 1_000  # refusals for more pairs of tenant and quota are dropped, so that tenants can't fill the memory


class RefusedQuotas:
    """Collect the last refusal of each tenant and quota."""

    def __init__(self) -> None:
        self._refused: dict[tuple[str, str], ObservedEvent] = {}

    def __len__(self) -> int:
        """Count the collected refusals."""
        return len(self._refused)

    def add(self, tenant_id: str, quota: str, problem: Problem) -> None:
        """Add a refusal; it replaces an earlier refusal for the same tenant and quota."""
        if len(self._refused) < QUOTAS_MAX:
            detail: Mapping[str, object] = {"quota": quota, "limit": problem.more.get("limit")}
            self._refused[tenant_id, quota] = ObservedEvent(
                "quota.reached", quota, str(problem), detail, tenant_id=tenant_id
            )

    def take(self) -> list[ObservedEvent]:
        """Remove and return the events of all collected refusals."""
        taken = list(self._refused.values())
        self._refused.clear()
        return taken
