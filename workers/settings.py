"""A worker's settings, each number with its unit and its reason."""

from typing import Annotated

from pydantic import Field, field_validator

from shardclock_server.keepers.settings import KeeperSettings, written_as
from shardclock_server.webhooks.addresses import Networks, listed, networks_of

RESOURCE = (r"[A-Za-z_][A-Za-z0-9_.-]*", "a letter or _, then letters, digits, _, . and -, such as shardclock_worker")


class WorkerSettings(KeeperSettings):
    """Hold all settings of one worker; it finds the database's address on its own node."""

    worker_resource: Annotated[str, written_as(*RESOURCE)] | None = Field(
        None,
        description="the Ray resource that nodes for workers alone offer; none: workers live on every node",
    )

    delivery_poll_s: float = Field(0.1, gt=0, description="between two looks for due deliveries, if no hint comes")
    delivery_lease_s: float = Field(
        10.0,
        gt=0,
        description="how long a silent worker keeps what it has in hand; while workers run, lower it by half at most",
    )
    run_places: int = Field(
        4,
        gt=0,
        le=1_000,
        description="runs of jobs at a time in one worker, a process each; as many more that reserve resources",
    )
    run_lease_s: float = Field(20.0, ge=5, description="how long a silent worker keeps the runs of its jobs")
    delivery_batch: int = Field(1_000, gt=0, description="deliveries claimed, or settled, by one statement")
    webhook_http: bool = Field(False, description="whether webhooks may go to http:// too, which everybody can read")
    webhook_allow: str = Field(
        "", description="networks that webhooks may reach beside the public ones, such as 10.1.0.0/16, with commas"
    )
    webhook_deny: str = Field("", description="public networks that webhooks must not reach, with commas")

    @field_validator("webhook_allow", "webhook_deny")
    @classmethod
    def _are_networks(cls, text: str) -> str:
        """Refuse what is no network, in a sentence that names it."""
        networks_of(listed(text))
        return text

    @property
    def networks(self) -> Networks:
        """Return which addresses webhooks may reach."""
        return networks_of(listed(self.webhook_allow), listed(self.webhook_deny))
