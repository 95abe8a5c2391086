"""The two ways in which a sign-in at the identity provider fails."""


class SignInRefused(Exception):
    """The person may not sign in, or an answer of the browser or provider is not genuine, for the stated reason."""


class ProviderFailed(Exception):
    """The identity provider does not answer, or its answer violates OpenID Connect; the message has the reason."""
