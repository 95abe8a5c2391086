"""Add, change, test, enable, disable and remove a tenant's endpoints, and rotate their secrets.

A result has a sentence for people and fields for programs. A `Refusal` rejects an invalid request. Results and refusals
don't name options of the command line: the command line and the API each add their own advice.
"""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from shardclock.api.refusals.tenants import ENDPOINT_CHANGED, ENDPOINT_EXISTS, ENDPOINT_SECRETS_FULL, UNKNOWN_ENDPOINT
from shardclock_server.service.wording import counted
from shardclock_server.sql.endpoints.attempts import TEST_SEND, EndedAttempt, keep_attempts
from shardclock_server.sql.endpoints.endpoints import (
    COUNTED_MAX,
    EndpointName,
    StoredEndpoint,
    add_endpoint,
    change_endpoint,
    count_timers_of_endpoint,
    disable_endpoint,
    enable_endpoint,
    find_endpoints,
    remove_endpoint,
    set_secrets,
)
from shardclock_server.sql.session import Session, StoreUnavailable
from shardclock_server.timers.refusal import Refusal, shortened
from shardclock_server.webhooks.endpoint import Endpoint, EndpointRules, InvalidEndpoint, check_endpoint, check_name
from shardclock_server.webhooks.policy_defaults import policy_of
from shardclock_server.webhooks.signing import PRIVATE, SECRETS_MAX, new_key_pair, new_secret, verifier_of


@dataclass(frozen=True, slots=True)
class EndpointResult:
    """The outcome of a change; `changed` is False if the endpoint already had the wanted state."""

    sentence: str
    changed: bool = True


@dataclass(frozen=True, slots=True)
class NewSecret:
    """The outcome of a change that created a secret.

    The receiver verifies webhooks with `verifier`: show this text only once.
    """

    sentence: str
    verifier: str


@dataclass(frozen=True, slots=True)
class EndpointInUse:
    """Nothing was changed, because pending timers have the endpoint as target; `timers` is at most `COUNTED_MAX`."""

    key: EndpointName
    timers: int

    @property
    def sentence(self) -> str:
        """Return a sentence: the number of timers with this target, and the consequence for these timers."""
        many = counted(self.timers, "pending timer")
        if self.timers == COUNTED_MAX:
            many += " or more"
        have, each = ("have", "each") if self.timers > 1 else ("has", "it")
        return (
            f"{many} {have} the target {self.key.target}, and {each} would become a dead letter when it fires;"
            " nothing was changed"
        )


@dataclass(frozen=True, slots=True)
class EndpointChange:
    """A change of an endpoint; a field that is None, or a key that is missing in the policy, stays unchanged.

    `headers` replaces all present headers. A None in the policy removes a limit.
    """

    url: str | None = None
    headers: Mapping[str, str] | None = field(default=None, repr=False)
    policy: Mapping[str, Any] = field(default_factory=dict)

    def of(self, found: StoredEndpoint) -> StoredEndpoint:
        """Return the changed endpoint."""
        return replace(
            found,
            url=found.url if self.url is None else self.url,
            headers=found.headers if self.headers is None else self.headers,
            policy={**found.policy, **self.policy},
        )

    @property
    def sentence(self) -> str:
        """Describe the changed endpoint; give the number of headers instead of their values, which may be secret."""
        said = [] if self.url is None else [f"leads to {self.url}"]
        if self.headers is not None:
            said.append(f"sends {counted(len(self.headers), 'header')} of its own")
        said += [
            f"has no {name}" if number is None else f"has {name} {number:g}" for name, number in self.policy.items()
        ]
        return ", ".join(said)


@dataclass(frozen=True, slots=True)
class SentTest:
    """An endpoint's answer to a test; `attempt` is None if this machine has failed before it sent the test."""

    delivered: bool
    answer: str
    duration_s: float
    attempt: EndedAttempt | None


@dataclass(frozen=True, slots=True)
class SigningFacts:
    """The kinds of an endpoint's secrets, the newest first, and the names of its headers, without any values."""

    kinds: Sequence[str]
    header_names: Sequence[str]


def new_endpoint(
    key: EndpointName,
    url: str,
    *,
    headers: Mapping[str, str],
    secret: str,
    policy: Mapping[str, Any],
    rules: EndpointRules,
) -> StoredEndpoint:
    """Check a tenant's description of a new endpoint.

    errors:  Refusal  the name, the URL, a header, the secret or the policy is wrong; the sentence has the reason
    """
    check_name(key.name)
    wanted = StoredEndpoint(key.tenant_id, key.name, url, headers, (secret,), policy)
    _checked(wanted, rules)
    return wanted


def generate_secret(*, asymmetric: bool) -> str:
    """Generate a secret. An asymmetric secret is a key pair, and the receiver gets only the public key."""
    return new_key_pair() if asymmetric else new_secret()


async def add(session: Session, endpoint: StoredEndpoint, *, most: int | None = None) -> NewSecret:
    """Add an endpoint that `new_endpoint` has checked.

    errors:  EndpointsFull     the tenant has `most` endpoints; nothing was added
             Refusal           endpoint_exists
             StoreUnavailable  the outcome is unknown: find out whether the endpoint exists
    """
    if not await add_endpoint(session, endpoint, most=most):
        raise Refusal.of(ENDPOINT_EXISTS, tenant_id=endpoint.tenant_id, name=endpoint.name)
    return NewSecret(f"endpoint {endpoint.key.target} added", verifier_of(endpoint.secrets[0]))


async def change(
    session: Session, key: EndpointName, wanted: EndpointChange, *, rules: EndpointRules
) -> EndpointResult:
    """Change an endpoint; a disabled endpoint is checked too, because an operator may enable it later.

    errors:  Refusal           unknown_endpoint; or the URL, a header or the policy is wrong, or no field is
                               given
             StoreUnavailable  the outcome is unknown: call again
    """
    if wanted == EndpointChange():
        raise InvalidEndpoint(f"endpoint {shortened(key.name)} is unchanged: give a field to change")
    found = await _found(session, key)
    _checked(wanted.of(found), rules)
    changed = await change_endpoint(session, key, url=wanted.url, headers=wanted.headers, policy=wanted.policy)
    still = "" if found.disabled_at is None else f"; it is disabled: {found.disabled_why}"
    return EndpointResult(f"endpoint {key.target} {wanted.sentence}{'' if changed else ' already'}{still}", changed)


async def rotate(session: Session, key: EndpointName, *, asymmetric: bool) -> NewSecret:
    """Add a secret; until the rotation ends, webhooks are signed with the old secrets, too.

    errors:  Refusal           unknown_endpoint, endpoint_secrets_full, endpoint_changed
             StoreUnavailable  the outcome is unknown: read the endpoint
    """
    found = await _found(session, key)
    if len(found.secrets) == SECRETS_MAX:
        raise Refusal.of(ENDPOINT_SECRETS_FULL, name=key.name, limit=SECRETS_MAX)
    secret = generate_secret(asymmetric=asymmetric)
    secrets = (secret, *found.secrets)
    await _set_secrets(session, found, secrets)
    return NewSecret(f"endpoint {key.target} signs with {len(secrets)} secrets", verifier_of(secret))


async def end_rotation(session: Session, key: EndpointName) -> EndpointResult:
    """Remove all secrets of an endpoint except the newest.

    errors:  Refusal           unknown_endpoint, endpoint_changed
             StoreUnavailable  the outcome is unknown: call again
    """
    found = await _found(session, key)
    await _set_secrets(session, found, found.secrets[:1])
    return EndpointResult(f"endpoint {key.target} signs with its newest secret alone")


async def find_open(session: Session, key: EndpointName, *, rules: EndpointRules) -> Endpoint:
    """Find an endpoint that can receive webhooks.

    errors:  Refusal           unknown_endpoint; or the endpoint is disabled, or violates the present rules
             StoreUnavailable  Postgres did not answer within the timeout
    """
    found = await _found(session, key)
    if found.why_closed is not None:
        raise InvalidEndpoint(found.why_closed)
    return _checked(found, rules)


async def send_test(
    endpoint: Endpoint, key: EndpointName, *, rules: EndpointRules, body: bytes | None = None
) -> SentTest:
    """Send one test webhook from this machine, and wait for the answer, for up to half a minute.

    Without `body`, the webhook looks like a timer's webhook.
    """
    # This import takes a fifth of a second, and most commands don't need the module.
    from shardclock_server.webhooks.answer_classification import (
        GONE,
        Delivered,
        EndpointGone,
        FaultSide,
        RetryDelivery,
    )
    from shardclock_server.webhooks.envelope import write_body
    from shardclock_server.webhooks.sender import SenderSettings, WebhookMessage, WebhookSender

    fields = {"timer_key": None, "tenant_id": key.tenant_id, "target": key.target, "name": "a test"}
    body = write_body(datetime.now(UTC), fields, None) if body is None else body
    message = WebhookMessage(f"test_{time.time_ns()}", body)
    async with WebhookSender(SenderSettings(), networks=rules.networks) as sender:
        answer = await sender.send(endpoint, message)
    is_delivered = isinstance(answer, Delivered)
    said = f"it answered {answer.status}" if isinstance(answer, Delivered) else answer.reason
    attempt = EndedAttempt(
        key,
        TEST_SEND,
        TEST_SEND,
        time.monotonic(),
        GONE if isinstance(answer, EndpointGone) else answer.status,
        answer.duration_s,
        None if is_delivered else said,
        answer.body,
    )
    is_unsent = isinstance(answer, RetryDelivery) and answer.fault == FaultSide.SENDER
    return SentTest(is_delivered, said, answer.duration_s, None if is_unsent else attempt)


async def keep_test(session: Session, sent: SentTest) -> None:
    """Store a test send beside the endpoint's attempts; if Postgres does not answer, the test send is not stored."""
    if sent.attempt is not None:
        with suppress(StoreUnavailable):
            await keep_attempts(session, [sent.attempt])


async def read_signing_facts(session: Session, key: EndpointName) -> SigningFacts:
    """Read which secrets sign an endpoint's webhooks, and which headers these webhooks have.

    errors:  Refusal           unknown_endpoint
             StoreUnavailable  Postgres did not answer within the timeout
    """
    found = await _found(session, key)
    kinds = ["key pair (v1a)" if it.startswith(PRIVATE) else "shared secret (v1)" for it in found.secrets]
    return SigningFacts(kinds, sorted(found.headers))


async def enable(session: Session, key: EndpointName) -> EndpointResult:
    """Enable an endpoint that was disabled, or that answered 410.

    errors:  Refusal           unknown_endpoint
             StoreUnavailable  the outcome is unknown: call again
    """
    await _found(session, key)
    changed = await enable_endpoint(session, key)
    return EndpointResult(f"endpoint {key.target} {'is enabled' if changed else 'was enabled already'}", changed)


async def disable(session: Session, key: EndpointName, *, why: str, force: bool) -> EndpointResult | EndpointInUse:
    """Disable an endpoint: its deliveries become dead letters, and new timers can't have it as target.

    Without `force`, an endpoint that is the target of pending timers stays enabled.

    errors:  Refusal           unknown_endpoint
             StoreUnavailable  the outcome is unknown: call again
    """
    found = await _found(session, key)
    if not force and found.disabled_at is None and (named := await _use_of(session, key)):
        return named
    changed = await disable_endpoint(session, key, why=why)
    return EndpointResult(f"endpoint {key.target} {'is disabled' if changed else 'was disabled already'}", changed)


async def remove(session: Session, key: EndpointName, *, force: bool) -> EndpointResult | EndpointInUse:
    """Remove an endpoint; its deliveries become dead letters.

    Without `force`, an endpoint that is the target of pending timers is not removed.

    errors:  Refusal           unknown_endpoint
             StoreUnavailable  the outcome is unknown: call again
    """
    await _found(session, key)
    if not force and (named := await _use_of(session, key)):
        return named
    await remove_endpoint(session, key)
    return EndpointResult(f"endpoint {key.target} is removed")


async def _found(session: Session, key: EndpointName) -> StoredEndpoint:
    found = (await find_endpoints(session, [key])).get(key)
    if found is None:
        raise Refusal.of(UNKNOWN_ENDPOINT, tenant_id=key.tenant_id, name=key.name)
    return found


async def _use_of(session: Session, key: EndpointName) -> EndpointInUse | None:
    timers = await count_timers_of_endpoint(session, key)
    return EndpointInUse(key, timers) if timers else None


async def _set_secrets(session: Session, found: StoredEndpoint, secrets: tuple[str, ...]) -> None:
    if not await set_secrets(session, found.key, before=found.secrets, secrets=secrets):
        raise Refusal.of(ENDPOINT_CHANGED, name=found.name)


def _checked(stored: StoredEndpoint, rules: EndpointRules) -> Endpoint:
    timeout_s = policy_of(stored.policy).timeout_s
    return check_endpoint(stored.url, stored.headers, stored.secrets, timeout_s=timeout_s, rules=rules)
