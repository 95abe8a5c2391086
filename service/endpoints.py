"""What a tenant does with endpoints: add one, change it, rotate its secrets, try it, disable, enable or remove it.

An answer is a sentence for people, and what a program needs beside it. What the request itself forbids is a `Refusal`.
Neither names an option of the command line: each interface adds its own way out.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from shardclock_server.service.words import counted
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
from shardclock_server.sql.session import Session
from shardclock_server.timers.refusal import Refusal, shortened
from shardclock_server.webhooks.endpoint import Endpoint, EndpointRules, InvalidEndpoint, check_endpoint, check_name
from shardclock_server.webhooks.policy import policy_of
from shardclock_server.webhooks.signing import SECRETS_MAX, new_key_pair, new_secret, verifier_of


class UnknownEndpoint(Refusal):
    """Refuse the name of an endpoint that its tenant does not have."""


class EndpointConflict(Refusal):
    """Refuse what the endpoint's present state does not allow; nothing was changed."""


class TooManySecrets(EndpointConflict):
    """Refuse one more secret: a rotation must end first."""


@dataclass(frozen=True, slots=True)
class Done:
    """What became of an endpoint; `changed` is False if it was so already."""

    sentence: str
    changed: bool = True


@dataclass(frozen=True, slots=True)
class NewSecret:
    """What became of an endpoint that has a new secret, and the text that its receiver verifies with: show it once."""

    sentence: str
    verifier: str


@dataclass(frozen=True, slots=True)
class StillNamed:
    """Nothing was changed, because pending timers name the endpoint; `timers` is at most `COUNTED_MAX`."""

    key: EndpointName
    timers: int

    @property
    def sentence(self) -> str:
        """Say how many timers name it, and what would become of them."""
        many = counted(self.timers, "pending timer")
        if self.timers == COUNTED_MAX:
            many += " or more"
        have, each = ("have", "each") if self.timers > 1 else ("has", "it")
        return (
            f"{many} {have} the target {self.key.target}, and {each} would be a dead letter whenever it fires;"
            " nothing was changed"
        )


@dataclass(frozen=True, slots=True)
class EndpointChange:
    """What is to change of an endpoint; what is None, or missing in the policy, stays.

    `headers` are all that there are from then on. In the policy a None lifts a limit.
    """

    url: str | None = None
    headers: Mapping[str, str] | None = field(default=None, repr=False)
    policy: Mapping[str, Any] = field(default_factory=dict)

    def of(self, found: StoredEndpoint) -> StoredEndpoint:
        """Return an endpoint as it is after this change."""
        return replace(
            found,
            url=found.url if self.url is None else self.url,
            headers=found.headers if self.headers is None else self.headers,
            policy={**found.policy, **self.policy},
        )

    @property
    def sentence(self) -> str:
        """Say how the endpoint is after this change; a header may hold a token, so they are only counted."""
        said = [] if self.url is None else [f"leads to {self.url}"]
        if self.headers is not None:
            said.append(f"sends {counted(len(self.headers), 'header')} of its own")
        said += [
            f"has no {name}" if number is None else f"has {name} {number:g}" for name, number in self.policy.items()
        ]
        return ", ".join(said)


@dataclass(frozen=True, slots=True)
class Tried:
    """What an endpoint answered to a test."""

    delivered: bool
    answer: str
    duration_s: float


def new_endpoint(
    key: EndpointName,
    url: str,
    *,
    headers: Mapping[str, str],
    secret: str,
    policy: Mapping[str, Any],
    rules: EndpointRules,
) -> StoredEndpoint:
    """Check what a tenant says of a new endpoint.

    errors:  Refusal  the name, the URL, a header, the secret or the policy is wrong; the sentence says why
    """
    check_name(key.name)
    wanted = StoredEndpoint(key.tenant_id, key.name, url, headers, (secret,), policy)
    _checked(wanted, rules)
    return wanted


def drawn_secret(*, asymmetric: bool) -> str:
    """Draw a secret; an asymmetric one is a key pair, of which the receiver gets only the public key."""
    return new_key_pair() if asymmetric else new_secret()


async def add(session: Session, endpoint: StoredEndpoint, *, most: int | None = None) -> NewSecret:
    """Add an endpoint that `new_endpoint` has checked.

    errors:  EndpointsFull     its tenant has `most` endpoints; nothing was added
             EndpointConflict  its tenant has one of this name
             StoreUnavailable  the outcome is unknown: look whether it is there
    """
    if not await add_endpoint(session, endpoint, most=most):
        raise EndpointConflict(
            f"tenant {shortened(endpoint.tenant_id)} has an endpoint {shortened(endpoint.name)}: choose another name"
        )
    return NewSecret(f"endpoint {endpoint.key.target} added", verifier_of(endpoint.secrets[0]))


async def change(session: Session, key: EndpointName, wanted: EndpointChange, *, rules: EndpointRules) -> Done:
    """Change an endpoint; one that is disabled is checked as well, because it may be enabled next.

    errors:  UnknownEndpoint   there is none
             Refusal           the URL, a header or the policy is wrong, or nothing is to change
             StoreUnavailable  the outcome is unknown: call again
    """
    if wanted == EndpointChange():
        raise InvalidEndpoint(f"endpoint {shortened(key.name)} is left as it is: say what is to change")
    found = await _found(session, key)
    _checked(wanted.of(found), rules)
    changed = await change_endpoint(session, key, url=wanted.url, headers=wanted.headers, policy=wanted.policy)
    still = "" if found.disabled_at is None else f"; it is disabled: {found.disabled_why}"
    return Done(f"endpoint {key.target} {wanted.sentence}{'' if changed else ' already'}{still}", changed)


async def rotate(session: Session, key: EndpointName, *, asymmetric: bool) -> NewSecret:
    """Add a secret; until the rotation ends, webhooks are signed with the old ones, too.

    errors:  UnknownEndpoint   there is none
             EndpointConflict  it has as many secrets as it may have, or somebody else has changed them just now
             StoreUnavailable  the outcome is unknown: look at the endpoint
    """
    found = await _found(session, key)
    if len(found.secrets) == SECRETS_MAX:
        raise TooManySecrets(f"endpoint {shortened(key.name)} has {SECRETS_MAX} secrets: end the last rotation")
    secret = drawn_secret(asymmetric=asymmetric)
    secrets = (secret, *found.secrets)
    await _set_secrets(session, found, secrets)
    return NewSecret(f"endpoint {key.target} signs with {len(secrets)} secrets", verifier_of(secret))


async def end_rotation(session: Session, key: EndpointName) -> Done:
    """Drop all secrets of an endpoint but the newest.

    errors:  UnknownEndpoint   there is none
             EndpointConflict  somebody else has changed its secrets just now
             StoreUnavailable  the outcome is unknown: call again
    """
    found = await _found(session, key)
    await _set_secrets(session, found, found.secrets[:1])
    return Done(f"endpoint {key.target} signs with its newest secret alone")


async def find_open(session: Session, key: EndpointName, *, rules: EndpointRules) -> Endpoint:
    """Find an endpoint that may be sent to.

    errors:  UnknownEndpoint   there is none
             Refusal           it is disabled, or may no longer be sent to
             StoreUnavailable  no answer in time
    """
    found = await _found(session, key)
    if found.why_closed is not None:
        raise InvalidEndpoint(found.why_closed)
    return _checked(found, rules)


async def try_out(endpoint: Endpoint, key: EndpointName, *, rules: EndpointRules) -> Tried:
    """Send one webhook from this machine now, and wait for the answer, which may take half a minute."""
    # Loaded by who sends: it takes a fifth of a second, and most commands send nothing.
    from shardclock_server.webhooks.answers import Delivered
    from shardclock_server.webhooks.envelope import write_body
    from shardclock_server.webhooks.sender import Message, Sender, SenderSettings

    fields = {"timer_key": None, "tenant_id": key.tenant_id, "target": key.target, "name": "a test"}
    message = Message(f"test_{time.time_ns()}", write_body(datetime.now(UTC), fields, None))
    async with Sender(SenderSettings(), networks=rules.networks) as sender:
        answer = await sender.send(endpoint, message)
    said = f"it answered {answer.status}" if isinstance(answer, Delivered) else answer.reason
    return Tried(isinstance(answer, Delivered), said, answer.duration_s)


async def enable(session: Session, key: EndpointName) -> Done:
    """Send to an endpoint again that was disabled, or answered 410.

    errors:  UnknownEndpoint   there is none
             StoreUnavailable  the outcome is unknown: call again
    """
    await _found(session, key)
    changed = await enable_endpoint(session, key)
    return Done(f"endpoint {key.target} {'is enabled' if changed else 'was enabled already'}", changed)


async def disable(session: Session, key: EndpointName, *, why: str, though_named: bool) -> Done | StillNamed:
    """Send nothing more to an endpoint: its deliveries become dead letters, and no new timer may name it.

    Unless `though_named`, one that pending timers name is left as it is.

    errors:  UnknownEndpoint   there is none
             StoreUnavailable  the outcome is unknown: call again
    """
    found = await _found(session, key)
    if not though_named and found.disabled_at is None and (named := await _still_named(session, key)):
        return named
    changed = await disable_endpoint(session, key, why=why)
    return Done(f"endpoint {key.target} {'is disabled' if changed else 'was disabled already'}", changed)


async def remove(session: Session, key: EndpointName, *, though_named: bool) -> Done | StillNamed:
    """Remove an endpoint: deliveries on their way to it become dead letters.

    Unless `though_named`, one that pending timers name is left as it is.

    errors:  UnknownEndpoint   there is none
             StoreUnavailable  the outcome is unknown: call again
    """
    await _found(session, key)
    if not though_named and (named := await _still_named(session, key)):
        return named
    await remove_endpoint(session, key)
    return Done(f"endpoint {key.target} is removed")


async def _found(session: Session, key: EndpointName) -> StoredEndpoint:
    found = (await find_endpoints(session, [key])).get(key)
    if found is None:
        raise UnknownEndpoint(f"tenant {shortened(key.tenant_id)} has no endpoint {shortened(key.name)}")
    return found


async def _still_named(session: Session, key: EndpointName) -> StillNamed | None:
    timers = await count_timers_of_endpoint(session, key)
    return StillNamed(key, timers) if timers else None


async def _set_secrets(session: Session, found: StoredEndpoint, secrets: tuple[str, ...]) -> None:
    if not await set_secrets(session, found.key, before=found.secrets, secrets=secrets):
        raise EndpointConflict(
            f"somebody else has changed endpoint {shortened(found.name)} just now: look at it, and try again"
        )


def _checked(stored: StoredEndpoint, rules: EndpointRules) -> Endpoint:
    timeout_s = policy_of(stored.policy).timeout_s
    return check_endpoint(stored.url, stored.headers, stored.secrets, timeout_s=timeout_s, rules=rules)
