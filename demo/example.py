"""The default timers of the demo: a realistic mixture of timers, which is the same in each run.

One timer in five calls the demo's handler. The payload determines how the delivery ends; `expected_end` returns this
end for the verdict.
"""

import json
from collections.abc import Iterator
from random import Random
from typing import NamedTuple

TIMERS = 5_000
SEED = 42
DELAY_S = (3.0, 20.0)
TENANTS = ("acme",) * 6 + ("globex",) * 3 + ("initech",)
FIRST_INSTANCE = 2_251_799_813_685_249  # the keys of process engines have this length

TARGET = "order.expire"
ATTEMPTS_MAX = 3
# The warehouse of an order answers at the first call, at the second call, or never.
OPEN, BUSY, CLOSED = "open", "busy", "closed"


class ExpectedEnd(NamedTuple):
    """The expected end of a delivery, and its attempt."""

    intent: str
    attempt: int


EXPECTED = {
    OPEN: ExpectedEnd("DELIVERED", 1),
    BUSY: ExpectedEnd("DELIVERED", 2),
    CLOSED: ExpectedEnd("DEAD", ATTEMPTS_MAX),
}


def example_lines() -> Iterator[bytes]:
    """Write timers as JSON lines: one timer in twenty is a schedule, and the others fire once."""
    draw = Random(SEED)  # noqa: S311 - no secret is drawn
    for number in range(TIMERS):
        fields = _schedule(number, draw) if number % 20 == 0 else _timer(number, draw)
        yield json.dumps(fields | {"tenant_id": draw.choice(TENANTS)}).encode()


def warehouse_of(payload: object) -> str:
    """Return the behavior of the warehouse in a payload; an unknown warehouse is open."""
    warehouse = payload.get("warehouse") if isinstance(payload, dict) else None
    return warehouse if isinstance(warehouse, str) and warehouse in EXPECTED else OPEN


def expected_end(payload: str | None) -> ExpectedEnd:
    """Return the expected end of the delivery with a payload, which is JSON text."""
    return EXPECTED[warehouse_of(None if payload is None else json.loads(payload))]


def _schedule(number: int, draw: Random) -> dict[str, object]:
    repeats, period_s = draw.randint(2, 4), draw.choice((2.0, 2.5, 3.0, 3.5, 4.0))
    return {
        "schedule": f"R{repeats}/PT{period_s}S",
        "name": f"heartbeat-{number}",
        "payload": {"kind": "heartbeat", "sensor": draw.randint(1, 100)},
    }


def _timer(number: int, draw: Random) -> dict[str, object]:
    fields: dict[str, object] = {"delay": f"PT{draw.uniform(*DELAY_S):.3f}S"}
    instance = {"process_instance_key": FIRST_INSTANCE + number}
    match number % 5:
        case 0:
            return fields
        case 1:
            order = {"order": number, "amount_cents": draw.randint(500, 90_000), "warehouse": _warehouse(number)}
            return fields | {"name": f"order-{number}-expires", "target": TARGET, "payload": order}
        case 2:
            boundary = {"timer_type": "BOUNDARY", "target_element_id": "PaymentTimeout"}
            return fields | instance | boundary | {"element_instance_key": FIRST_INSTANCE + 100_000 + number}
        case 3:
            return fields | instance | {"timer_type": "INTERMEDIATE", "target_element_id": "CoolingOff"}
    return fields | {"payload": {"kind": "reminder", "to": f"customer-{number}", "text": "Your cart is waiting."}}


def _warehouse(order: int) -> str:
    """Choose a behavior: two of a thousand warehouses are closed, and twenty are busy."""
    if order % 2_500 == 6:
        return CLOSED
    return BUSY if order % 250 == 1 else OPEN
