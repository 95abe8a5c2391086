"""Lay out a delivery for people."""

from shardclock_server.service.deliveries import holder_name
from shardclock_server.service.timeline import show_moment
from shardclock_server.sql.deliveries.find import DeliveryState

HOLDER_FIELDS = ("holder", "worker", "claimed_until")  # one sentence shows these fields together


def fields_of_delivery(delivery: DeliveryState, *, without: str) -> list[tuple[str, object]]:
    """Return a delivery's fields for output.

    One field names the worker that has the delivery, and the end of the lease.
    """
    names = (name for name in DeliveryState.__slots__ if name not in (*HOLDER_FIELDS, without))
    fields = [(name, getattr(delivery, name)) for name in names]
    if delivery.claimed_until is not None:
        fields.append(("claimed", f"{holder_name(delivery)} has it until {show_moment(delivery.claimed_until)}"))
    return [(name, value) for name, value in fields if value is not None]
