"""The refusals of tenants: their quotas, limits, endpoints and API keys."""

from collections.abc import Mapping

from shardclock.api.codes import CONFLICT, NO_KEY, NOT_FOUND

# For each quota: the counted resources, and the advice that a refusal gives.
QUOTAS: Mapping[str, tuple[str, str]] = {
    "timers": ("pending timers", "cancel some, or wait until some have fired"),
    "schedules": ("pending schedules", "cancel some, or wait until some have ended"),
    "payload_bytes": ("bytes of pending payloads", "cancel timers, or wait until some have fired"),
    "instances": ("instances that have not ended", "cancel some, or wait until some have ended"),
    "tasks": ("open tasks", "complete some, or cancel their instances"),
    "messages": ("kept messages", "keep messages for a shorter time"),
    "definitions": ("versions of processes", "delete old versions"),
    "endpoints": ("endpoints", "remove one"),
    "waiters": (
        "callers that wait at one gateway or follow the log",
        "ask again without wait, or read a page of the log",
    ),
}

UNKNOWN_TENANT = NOT_FOUND.specific(
    "unknown_tenant",
    "tenant {tenant_id!r} is unknown: it has no pending timers, no endpoints, no processes, no limits of its own and no"
    " API key; check the name",
)
NO_OWN_LIMITS = NOT_FOUND.specific(
    "no_own_limits", "tenant {tenant_id!r} has no own limits: list the tenants with own limits (shardclock tenants)"
)
UNKNOWN_ENDPOINT = NOT_FOUND.specific(
    "unknown_endpoint", "tenant {tenant_id!r} has no endpoint {name!r}: list its endpoints (shardclock endpoints)"
)
ENDPOINT_EXISTS = CONFLICT.specific(
    "endpoint_exists", "tenant {tenant_id!r} has an endpoint {name!r} already: choose another name"
)
ENDPOINT_CHANGED = CONFLICT.specific(
    "endpoint_changed", "another request has changed endpoint {name!r} at the same time: read it, and try again"
)
ENDPOINT_SECRETS_FULL = CONFLICT.specific(
    "endpoint_secrets_full",
    "endpoint {name!r} has {limit} secrets: end the last rotation (shardclock endpoints rotate --end)",
)
UNKNOWN_SUBSCRIPTION = NOT_FOUND.specific(
    "unknown_subscription",
    "endpoint {name!r} of tenant {tenant_id!r} gets no events: list the endpoints with events (shardclock notify)",
)
UNKNOWN_KEY = NOT_FOUND.specific("unknown_key", "no key has the prefix {prefix!r}: list the keys (shardclock keys)")
KEY_NOT_LIVE = NOT_FOUND.specific(
    "key_not_live", "no live key has the prefix {prefix!r}: list the keys (shardclock keys)"
)
KEYS_FULL = CONFLICT.specific(
    "keys_full",
    "{owner} has {limit} live keys with the name {name!r}, and can't have more: revoke a key, or choose another name",
)
KEY_REFUSED = NO_KEY.specific(
    "key_refused", "this API key is unknown, expired or revoked: ask the operator of the cluster for another one"
)
ENDPOINT_IN_USE = CONFLICT.specific("endpoint_in_use", "{sentence}; force=true makes the change nevertheless")
