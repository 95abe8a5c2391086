"""Start and finish attempts to sign in at the identity provider."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import structlog

from shardclock_server.gateway.oidc.attempts import SignInAttempt
from shardclock_server.gateway.oidc.id_tokens import UnknownKey, checked_claims
from shardclock_server.gateway.oidc.people import lacks_claims, person_of, subject_of
from shardclock_server.gateway.oidc.provider import Provider
from shardclock_server.gateway.oidc.refusals import ProviderFailed, SignInRefused
from shardclock_server.gateway.oidc.registration import ClientRegistration
from shardclock_server.sql.keys.sessions import Person


class SingleSignOn:
    """Sign people in at one identity provider."""

    def __init__(self, registration: ClientRegistration) -> None:
        self.registration = registration
        self._provider = Provider(registration)

    async def begin(self, to: str) -> tuple[SignInAttempt, str]:
        """Start an attempt to sign in; return the attempt, and the provider's URL for the browser.

        errors:  ProviderFailed
        """
        metadata = await self._provider.metadata()
        attempt = SignInAttempt.begin(to)
        return attempt, attempt.url(metadata.authorization_endpoint, self.registration)

    async def finish(self, attempt: SignInAttempt, answer: Mapping[str, str]) -> Person:
        """Return the person that the provider has identified.

        errors:  SignInRefused   the answer is not genuine, or the person has no group that may sign in
                 ProviderFailed
        """
        metadata = await self._provider.metadata()
        code = attempt.code_of(answer, self.registration.issuer, names_itself=metadata.names_itself)
        tokens = await self._provider.redeem(code, attempt.verifier)
        claims = await self._checked(tokens.get("id_token"), attempt.nonce)
        if lacks_claims(claims, self.registration):
            more = await self._provider.claims(tokens.get("access_token"))
            if more and more.get("sub") != subject_of(claims):
                raise SignInRefused("the identity provider answers with the claims of another person (sub)")
            claims = {**more, **claims}
        return person_of(claims, self.registration)

    async def sign_out_url(self) -> str | None:
        """Return the URL that ends the person's session at the provider.

        None: the provider has no such URL, or did not answer.
        """
        try:
            endpoint = (await self._provider.metadata()).end_session_endpoint
        except ProviderFailed as failure:
            structlog.get_logger().warning("the identity provider offers no sign-out now", why=str(failure))
            return None
        if endpoint is None:
            return None
        query = urlencode({"client_id": self.registration.client_id})
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{query}"

    async def _checked(self, token: object, nonce: str) -> dict[str, Any]:
        """Check an ID token; if its key is unknown, fetch the provider's current keys and check the token again."""
        try:
            return checked_claims(token, await self._provider.keys(), self.registration, nonce)
        except UnknownKey:
            pass
        try:
            return checked_claims(token, await self._provider.keys(newer=True), self.registration, nonce)
        except UnknownKey:
            raise SignInRefused("the ID token is signed by a key that the identity provider does not publish") from None
