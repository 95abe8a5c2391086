"""Test that the public library verifies our signatures, and that a refused secret is never shown."""

from __future__ import annotations

import base64
import time

import pytest

from shardclock_server.webhooks.signing import (
    InvalidSecret,
    PrivateKey,
    check_secret,
    check_secrets,
    new_key_pair,
    new_secret,
    signed_headers,
)

BODY = '{"name":"café ☕"}'.encode()


def _secret(size: int, prefix: str = "whsec_") -> str:
    return prefix + base64.b64encode(b"k" * size).decode()


def test_the_public_library_verifies_a_signature() -> None:
    library = pytest.importorskip("standardwebhooks", reason="the package standardwebhooks is not installed")
    secret = new_secret()
    headers = signed_headers(check_secrets([secret]), "timer_7", time.time(), BODY)
    assert library.Webhook(secret).verify(BODY, headers) == {"name": "café ☕"}
    for wrong in ({**headers, "webhook-id": "timer_8"}, {**headers, "webhook-signature": "v1,AAAA"}):
        with pytest.raises(library.webhooks.WebhookVerificationError):
            library.Webhook(secret).verify(BODY, wrong)
    with pytest.raises(library.webhooks.WebhookVerificationError):
        library.Webhook(new_secret()).verify(BODY, headers)


def test_during_a_rotation_each_secret_verifies() -> None:
    library = pytest.importorskip("standardwebhooks", reason="the package standardwebhooks is not installed")
    old, new = new_secret(), new_secret()
    headers = signed_headers(check_secrets([new, new_key_pair(), old]), "timer_7", time.time(), BODY)
    assert [one.split(",")[0] for one in headers["webhook-signature"].split(" ")] == ["v1", "v1a", "v1"]
    for secret in (old, new):
        assert library.Webhook(secret).verify(BODY, headers)


def test_signatures_equal_the_published_examples() -> None:
    # The test vectors of Standard Webhooks' own libraries, for HMAC-SHA256 and for ed25519.
    body = b'{"test": 2432232314}'
    private = check_secret("whsk_VEVTVFNJR05JTkdLRVlET05PVFVTRVRISVNGT1JBTlk=")
    headers = signed_headers(
        [check_secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), private],
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        1614265330.9,
        body,
    )
    assert headers == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": (
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE= "
            "v1a,tQ9V2XOqn7jL/DQenEFpqIugdBVtiMmER5mhSkXBNwM0mkATuDe6KYYUuxqtaiHeYGb7KaaBRdM5WqyeFiL8Ag=="
        ),
    }


def test_a_receiver_can_verify_with_only_the_public_key() -> None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    key = check_secret(new_key_pair())
    assert isinstance(key, PrivateKey)
    public = Ed25519PublicKey.from_public_bytes(base64.b64decode(key.public.removeprefix("whpk_")))
    signature = signed_headers([key], "timer_7", 1.0, BODY)["webhook-signature"].removeprefix("v1a,")
    public.verify(base64.b64decode(signature), b"timer_7.1." + BODY)


@pytest.mark.parametrize("size", [24, 32, 64])
def test_a_secret_of_24_to_64_bytes_is_accepted_with_padding_or_without(size: int) -> None:
    assert check_secret(_secret(size)) == check_secret(_secret(size).rstrip("="))


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("", "must begin with whsec_ or whsk_"),
        ("kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk", "must begin with whsec_ or whsk_"),
        (_secret(32).upper(), "must begin with whsec_ or whsk_"),
        (_secret(23), "a secret of 23 bytes is refused: it must have 24 to 64"),
        (_secret(65), "a secret of 65 bytes is refused: it must have 24 to 64"),
        ("whsec_kkkk kkkkkkkkkkkkkkkkkkkkkkkkkkkk", "must be base64"),
        ("whsec_kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk\n", "must be base64"),
        ("whsec_äääääääääääääääääääääääääääääääää", "must be base64"),
        (_secret(31, "whsk_"), "a private key of 31 bytes is refused: ed25519 has 32"),
        (_secret(32, "whpk_"), "is a public key"),
    ],
)
def test_the_refusal_of_a_wrong_secret_does_not_show_the_secret(text: str, rule: str) -> None:
    with pytest.raises(InvalidSecret, match=rule) as refused:
        check_secret(text)
    assert "kkkk" not in str(refused.value).lower()
    assert "a2tr" not in str(refused.value).lower()  # "kkk" in base64


@pytest.mark.parametrize("count", [0, 5])
def test_an_endpoint_has_one_to_four_secrets(count: int) -> None:
    with pytest.raises(InvalidSecret, match=f"{count} secrets are refused"):
        check_secrets([new_secret()] * count)


@pytest.mark.parametrize("webhook_id", ["", "timer.7", "timer\n7", "timer 7", "ä"])
def test_an_id_that_would_make_the_signed_text_ambiguous_is_refused(webhook_id: str) -> None:
    with pytest.raises(AssertionError):
        signed_headers(check_secrets([new_secret()]), webhook_id, 1.0, BODY)


def test_no_secret_is_shown_when_a_key_is_printed() -> None:
    for text in (_secret(32), _secret(32, "whsk_")):
        shown = repr(check_secret(text))
        assert "kkk" not in shown
        assert "a2tr" not in shown
