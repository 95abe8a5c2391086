"""Sign in people at an identity provider, by OpenID Connect: authorization code flow with PKCE.

    grants        the scopes and tenants of groups, read from the setting
    registration  the gateway's registration at the provider
    provider      requests to the provider: its metadata, its keys, tokens and claims
    id_tokens     check an ID token, without I/O
    attempts      one attempt to sign in: state, nonce, code verifier, and the answer of the provider
    people        read a person from claims
    single_sign_on   start and finish an attempt
    refusals      the two errors of a failed sign-in

source:  docs/decisions/0092-sign-in-by-oidc.md
"""
