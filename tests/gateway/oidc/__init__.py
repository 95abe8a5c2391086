"""Test the sign-in at an identity provider, without a gateway."""
