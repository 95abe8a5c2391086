"""The settings of a worker."""

from typing import Annotated

from pydantic import Field, field_validator

from shardclock_server.keepers.settings import KeeperSettings, written_as
from shardclock_server.webhooks.addresses import Networks, listed, networks_of

RESOURCE = (r"[A-Za-z_][A-Za-z0-9_.-]*", "a letter or _, then letters, digits, _, . and -, such as shardclock_worker")


class WorkerSettings(KeeperSettings):
    """The settings of one worker; the database's address comes from its node."""

    worker_resource: Annotated[str, written_as(*RESOURCE)] | None = Field(
        None,
        description="the Ray resource that marks nodes only for workers; by default workers run on every node",
    )

    delivery_poll_s: float = Field(
        0.1, gt=0, description="the time between two polls for due deliveries if no notification comes"
    )
    delivery_lease_s: float = Field(
        10.0,
        gt=0,
        description="the lease of a delivery; after a worker's death its deliveries wait this long; while workers run,"
        " lower it at most to half of the old value",
    )
    run_places: int = Field(
        4,
        gt=0,
        le=1_000,
        description="the limit of concurrent runs in one worker; runs that reserve resources have a separate limit",
    )
    run_lease_s: float = Field(
        20.0,
        ge=5,
        description="the lease of a run; after a worker's death its runs wait until their leases expire",
    )
    delivery_batch: int = Field(
        1_000, gt=0, description="the number of deliveries that one statement claims or settles"
    )
    webhook_http: bool = Field(False, description="whether webhooks may also go to http:// URLs, unencrypted")
    webhook_allow: str = Field(
        "", description="networks that webhooks may also reach, such as 10.1.0.0/16, separated by commas"
    )
    webhook_deny: str = Field("", description="public networks that webhooks must not reach, separated by commas")

    @field_validator("webhook_allow", "webhook_deny")
    @classmethod
    def _are_networks(cls, text: str) -> str:
        networks_of(listed(text))
        return text

    @property
    def networks(self) -> Networks:
        """Return the addresses that webhooks may reach."""
        return networks_of(listed(self.webhook_allow), listed(self.webhook_deny))
