"""Read a person from the claims of the identity provider."""

from collections.abc import Iterator, Mapping
from typing import Any

from shardclock_server.gateway.oidc.refusals import SignInRefused
from shardclock_server.gateway.oidc.registration import ClientRegistration
from shardclock_server.sql.keys.sessions import Person
from shardclock_server.timers.refusal import shortened

NAME_CHARS_MAX = 100
SUBJECT_CHARS_MAX = 255
GROUPS_MAX = 10_000


def subject_of(claims: Mapping[str, Any]) -> str:
    """Return the person's unique identifier at the provider.

    errors:  SignInRefused  the identifier is missing, or can't be stored
    """
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 1 <= len(subject) <= SUBJECT_CHARS_MAX or not subject.isprintable():
        raise SignInRefused("the identity provider gives no subject of 1 to 255 printable characters")
    return subject


def person_of(claims: Mapping[str, Any], registration: ClientRegistration) -> Person:
    """Return the person, with only the groups that have a grant.

    errors:  SignInRefused  none of the person's groups has a grant
    """
    subject = subject_of(claims)
    name = next(_names_in(claims), subject[:NAME_CHARS_MAX])
    groups = registration.grants.known(_groups_in(claims, registration.groups_claim))
    if not groups:
        raise SignInRefused(
            f"{shortened(name)} is in no group that may sign in here: ask an operator of Shardclock to add one"
            " of your groups to SHARDCLOCK_GATEWAY_OIDC_GROUPS, or to add you to one of its groups"
        )
    return Person(registration.issuer, subject, name, groups)


def lacks_claims(claims: Mapping[str, Any], registration: ClientRegistration) -> bool:
    """Return whether the ID token lacks the groups or a name, so that the gateway must ask the provider for them."""
    return registration.groups_claim not in claims or next(_names_in(claims), None) is None


def _names_in(claims: Mapping[str, Any]) -> Iterator[str]:
    """List the names that can be displayed: without control characters, and without invisible or bidi characters."""
    names = [claims.get("preferred_username")]
    if claims.get("email_verified") is not False:
        names.append(claims.get("email"))
    for name in names:
        if isinstance(name, str) and 1 <= len(name.strip()) <= NAME_CHARS_MAX and name.isprintable():
            yield name.strip()


def _groups_in(claims: Mapping[str, Any], claim: str) -> frozenset[str]:
    """Return the groups; the claim is a list, or a text with one group."""
    given = claims.get(claim)
    groups = [given] if isinstance(given, str) else given if isinstance(given, list) else []
    return frozenset(it for it in groups[:GROUPS_MAX] if isinstance(it, str))
