"""Sign webhooks by Standard Webhooks 1.0, so that receivers verify them with the public libraries.

The signed text is `id.timestamp.body`. Both sides know a symmetric secret (`whsec_`, HMAC-SHA256). With a key pair
(`whsk_`, ed25519) the receiver knows only the public key (`whpk_`), so a leak at the receiver reveals no signing key.
During a rotation an endpoint has several secrets, and each webhook has a signature of each secret.

`cryptography` is imported at the first use of a key pair, because most programs with endpoints have no key pair.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shardclock_server.timers.refusal import Refusal

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

SYMMETRIC, PRIVATE, PUBLIC = "whsec_", "whsk_", "whpk_"
KEY_BYTES_MIN, KEY_BYTES_MAX = 24, 64
NEW_KEY_BYTES = 32  # the length of SHA-256's result; a longer key is not safer
SEED_BYTES = 32
SECRETS_MAX = 4  # a rotation needs two secrets; each secret costs a signature in every attempt
ID = re.compile(r"[A-Za-z0-9_-]{1,200}")


class InvalidSecret(Refusal):
    """A secret is refused; the message does not contain the secret."""


@dataclass(frozen=True, slots=True)
class SharedKey:
    """Sign with HMAC-SHA256 (v1)."""

    key: bytes = field(repr=False)

    def sign(self, content: bytes) -> str:
        """Return the signature in the form of the header."""
        return f"v1,{base64.b64encode(hmac.digest(self.key, content, 'sha256')).decode()}"


@dataclass(frozen=True, slots=True)
class PrivateKey:
    """Sign with ed25519 (v1a)."""

    key: Ed25519PrivateKey = field(repr=False)

    def sign(self, content: bytes) -> str:
        """Return the signature in the form of the header."""
        return f"v1a,{base64.b64encode(self.key.sign(content)).decode()}"

    @property
    def public(self) -> str:
        """Return the public key in the receiver's form (`whpk_…`)."""
        raw = self.key.public_key().public_bytes_raw()
        return PUBLIC + base64.b64encode(raw).decode()


SigningKey = SharedKey | PrivateKey


def new_secret() -> str:
    """Generate a symmetric secret."""
    return SYMMETRIC + base64.b64encode(secrets.token_bytes(NEW_KEY_BYTES)).decode()


def new_key_pair() -> str:
    """Generate the private key of a key pair; the receiver gets only the public key (`verifier_of`)."""
    return PRIVATE + base64.b64encode(secrets.token_bytes(SEED_BYTES)).decode()


def verifier_of(secret: str) -> str:
    """Return the receiver's key for verification: the public key of a key pair, else the secret itself.

    errors:  InvalidSecret  as in `check_secret`
    """
    key = check_secret(secret)
    return key.public if isinstance(key, PrivateKey) else secret


def check_secret(text: str) -> SigningKey:
    """Read a secret.

    errors:  InvalidSecret  the message names the fault, and contains no part of the secret
    """
    _check_text(text)
    for prefix in (SYMMETRIC, PRIVATE):
        if text.startswith(prefix):
            key = _decoded(text.removeprefix(prefix), prefix)
            return _shared(key) if prefix == SYMMETRIC else _private(key)
    if text.startswith(PUBLIC):
        raise InvalidSecret(f"the secret is a public key ({PUBLIC}…): give the private key ({PRIVATE}…), which signs")
    raise InvalidSecret(
        f"a secret of {len(text)} characters is refused: it must begin with {SYMMETRIC} or {PRIVATE}; "
        "leave it out to get a new one"
    )


def check_secrets(texts: Sequence[str]) -> tuple[SigningKey, ...]:
    """Read an endpoint's secrets.

    shape:   1 to 4, in the given order
    errors:  InvalidSecret  there are too few or too many secrets, or a secret is invalid
    """
    if not 1 <= len(texts) <= SECRETS_MAX:
        raise InvalidSecret(
            f"{len(texts)} secrets are refused: an endpoint has 1 secret, or up to {SECRETS_MAX} during a rotation"
        )
    return tuple(map(check_secret, texts))


def signed_headers(keys: Sequence[SigningKey], webhook_id: str, timestamp_s: float, body: bytes) -> dict[str, str]:
    """Return the three headers of one attempt."""
    # A full stop in the id would make the signed text ambiguous: two triples of id, timestamp and body could have one
    # text.
    assert ID.fullmatch(webhook_id), "a webhook's id has letters, digits, _ and -"
    timestamp = str(int(timestamp_s))
    content = b"%s.%s.%s" % (webhook_id.encode(), timestamp.encode(), body)
    signatures = " ".join([key.sign(content) for key in keys])
    return {"webhook-id": webhook_id, "webhook-timestamp": timestamp, "webhook-signature": signatures}


def _check_text(secret: object) -> None:
    # An array of texts in Postgres may hold nulls or other arrays.
    if not isinstance(secret, str):
        raise InvalidSecret("a secret is refused: it must be a text")


def _decoded(text: str, prefix: str) -> bytes:
    try:
        # Some tools write base64 without padding, and the public verifiers accept this form.
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise InvalidSecret(
            f"the secret is refused: after {prefix} it must be base64; leave it out to get a new one"
        ) from None


def _shared(key: bytes) -> SharedKey:
    if not KEY_BYTES_MIN <= len(key) <= KEY_BYTES_MAX:
        raise InvalidSecret(
            f"a secret of {len(key)} bytes is refused: it must have {KEY_BYTES_MIN} to {KEY_BYTES_MAX}; "
            "leave it out to get a new one"
        )
    return SharedKey(key)


def _private(seed: bytes) -> PrivateKey:
    if len(seed) != SEED_BYTES:
        raise InvalidSecret(
            f"a private key of {len(seed)} bytes is refused: ed25519 has {SEED_BYTES}; leave it out to get a new one"
        )
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return PrivateKey(Ed25519PrivateKey.from_private_bytes(seed))
