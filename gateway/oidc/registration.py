"""The gateway's registration at the identity provider."""

from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from shardclock.loopback import is_loopback
from shardclock_server.gateway.oidc.grants import GroupGrants
from shardclock_server.gateway.oidc.refusals import ProviderFailed

SECRET_BYTES_MAX = 4_096


@dataclass(frozen=True, slots=True)
class ClientRegistration:
    """The OAuth client that the provider knows, and the groups that may sign in.

    shape:   `secret` and `secret_file` are None for a public client; the file is read for each sign-in, so a changed
             secret needs no restart
    """

    issuer: str
    client_id: str
    redirect_uri: str
    grants: GroupGrants
    scopes: str = "openid profile email"
    groups_claim: str = "groups"
    secret: str | None = field(default=None, repr=False)
    secret_file: Path | None = None

    @property
    def host(self) -> str:
        """Return the provider's host, for display."""
        return urlsplit(self.issuer).netloc

    def client_secret(self) -> str | None:
        """Return the secret; None for a public client.

        errors:  ProviderFailed  the file can't be read
        """
        if self.secret_file is None:
            return self.secret
        try:
            with self.secret_file.open("rb") as file:
                return file.read(SECRET_BYTES_MAX).decode().strip()
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "it is not UTF-8"
            raise ProviderFailed(f"the client's secret in {self.secret_file} can't be read ({why})") from None


def is_safe_url(url: str) -> bool:
    """Return whether a URL uses HTTPS, or plain HTTP on this machine, and has no credentials or fragment."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        has_port = parts.port is None or parts.port > 0
    except ValueError:
        return False
    if not host or not has_port or parts.username is not None or parts.fragment or not url.isprintable() or " " in url:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host))
