"""Format a delivery for output."""

from shardclock_server.service.deliveries import holder_name
from shardclock_server.service.timeline import show_moment
from shardclock_server.sql.deliveries.find import DeliveryState

# Fields of a delivery that the output combines in the field `claimed`.
HOLDER_FIELDS = ("holder", "worker", "claimed_until")


def fields_of_delivery(delivery: DeliveryState, *, without: str) -> list[tuple[str, object]]:
    """Return a delivery's fields for output.

    The field `claimed` combines the worker with a lease on the delivery and the end of this lease.
    """
    names = (name for name in DeliveryState.__slots__ if name not in (*HOLDER_FIELDS, without))
    fields = [(name, getattr(delivery, name)) for name in names]
    if delivery.claimed_until is not None:
        fields.append(("claimed", f"{holder_name(delivery)} has it until {show_moment(delivery.claimed_until)}"))
    return [(name, value) for name, value in fields if value is not None]
