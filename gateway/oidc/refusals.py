"""The two errors with which a sign-in at the identity provider can fail."""


class SignInRefused(Exception):
    """The person may not sign in, or the answer is forged or belongs to another attempt; the message has the reason."""


class ProviderFailed(Exception):
    """The identity provider does not answer, or its answer violates OpenID Connect; the message has the reason."""
