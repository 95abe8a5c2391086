"""How a delivery is laid out for people."""

from shardclock_server.service.deliveries import in_hand_of
from shardclock_server.service.story import shown
from shardclock_server.sql.deliveries.find import DeliveryState

WHO = ("holder", "worker", "claimed_until")  # who has it in hand, in one sentence


def fields_of_delivery(delivery: DeliveryState, *, without: str) -> list[tuple[str, object]]:
    """List what is known of a delivery, and who has it until when, if somebody has it in hand."""
    names = (name for name in DeliveryState.__slots__ if name not in (*WHO, without))
    fields = [(name, getattr(delivery, name)) for name in names]
    if delivery.claimed_until is not None:
        fields.append(("in hand", f"{in_hand_of(delivery)} has it until {shown(delivery.claimed_until)}"))
    return [(name, value) for name, value in fields if value is not None]
