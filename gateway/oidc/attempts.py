"""One attempt to sign in. The browser keeps the secret of the attempt in a cookie; gateways store nothing.

State, nonce and code verifier are derived from the secret. Only the browser that started the attempt has the cookie
with this secret. A request of another browser has a wrong state, and is refused.
"""

import hmac
import re
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from urllib.parse import quote, unquote, urlencode

from shardclock_server.gateway.oidc.refusals import SignInRefused
from shardclock_server.gateway.oidc.registration import ClientRegistration
from shardclock_server.timers.refusal import shortened

SECRET_BYTES = 32
LASTS_S = 600  # the lifetime of an attempt, long enough for a sign-in with a second factor
SECRET = re.compile(r"[A-Za-z0-9_-]{43}")
CODE_CHARS_MAX = 4_096
SAME_BROWSER = "sign in again within ten minutes, in the same browser and at the same address"


def _encoded(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")


@dataclass(frozen=True, slots=True)
class SignInAttempt:
    """One attempt to sign in, and the page to show after the sign-in."""

    secret: str = field(repr=False)
    to: str

    @classmethod
    def begin(cls, to: str) -> "SignInAttempt":
        """Create an attempt with a random secret."""
        return cls(_encoded(secrets.token_bytes(SECRET_BYTES)), to)

    @classmethod
    def read(cls, cookie: str | None) -> "SignInAttempt":
        """Read the attempt from its cookie.

        errors:  SignInRefused  the browser has no cookie of an attempt
        """
        secret, _, to = (cookie or "").partition(".")
        if SECRET.fullmatch(secret) is None:
            raise SignInRefused(f"this browser has not begun this sign-in, or the sign-in has ended: {SAME_BROWSER}")
        return cls(secret, unquote(to))

    @property
    def cookie(self) -> str:
        """Return the secret and the page to open after the sign-in, as the text that `read` accepts."""
        return f"{self.secret}.{quote(self.to)}"

    @property
    def state(self) -> str:
        """Return the `state` parameter, which the provider sends back through the browser."""
        return self._derived("state")

    @property
    def nonce(self) -> str:
        """Return the `nonce` that the ID token must contain."""
        return self._derived("nonce")

    @property
    def verifier(self) -> str:
        """Return the code verifier of PKCE: only its hash travels through the browser."""
        return self._derived("verifier")

    def _derived(self, purpose: str) -> str:
        return _encoded(hmac.digest(self.secret.encode(), purpose.encode(), sha256))

    def url(self, endpoint: str, registration: ClientRegistration) -> str:
        """Return the provider's URL to which the gateway redirects the browser."""
        query = urlencode(
            {
                "response_type": "code",
                "client_id": registration.client_id,
                "redirect_uri": registration.redirect_uri,
                "scope": registration.scopes,
                "state": self.state,
                "nonce": self.nonce,
                "code_challenge": _encoded(sha256(self.verifier.encode()).digest()),
                "code_challenge_method": "S256",
            }
        )
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{query}"

    def code_of(self, answer: Mapping[str, str], issuer: str, *, names_itself: bool) -> str:
        """Return the authorization code in the provider's answer, which the browser has delivered.

        `names_itself`: the provider adds the name of the issuer (the provider itself) to each answer.

        errors:  SignInRefused  the answer belongs to another attempt or to another provider, or the answer is a refusal
        """
        if not hmac.compare_digest(answer.get("state", "").encode("utf-8", "replace"), self.state.encode()):
            raise SignInRefused(f"the answer belongs to another sign-in of this browser: {SAME_BROWSER}")
        # RFC 9207: the answer of another provider must not reach the token endpoint of this provider.
        named = answer.get("iss", None if names_itself else issuer)
        if named != issuer:
            raise SignInRefused(f"the answer comes from {shortened(named)}, and not from {shortened(issuer)}")
        if (error := answer.get("error")) is not None:
            said = ": ".join(it for it in (error, answer.get("error_description")) if it)
            raise SignInRefused(f"the identity provider has refused the sign-in ({shortened(said)})")
        code = answer.get("code", "")
        if not 1 <= len(code) <= CODE_CHARS_MAX:
            raise SignInRefused(f"the answer of the identity provider has no code: {SAME_BROWSER}")
        return code
