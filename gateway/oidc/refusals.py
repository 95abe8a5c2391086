"""The two ways in which a sign-in at the identity provider fails."""


class SignInRefused(Exception):
    """The person may not sign in, or the answer of the browser or provider is not genuine; the message says why."""


class ProviderFailed(Exception):
    """The identity provider does not answer, or not as OpenID Connect demands; the message says why."""
