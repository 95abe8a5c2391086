"""The address and login of the database (DSN).

A process reads the DSN for each connection, never shows the DSN, and never sends it to another process.
"""

from pathlib import Path
from typing import NoReturn, Self
from urllib.parse import parse_qs, urlsplit

RULE = "must be a URL such as postgresql://user:password@host:5432/database"
# The values that libpq accepts for sslmode.
SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
BYTES_MAX = 16_384  # The limit of bytes that are read from the file.


class InvalidDsn(ValueError):
    """A DSN is invalid. The message never contains the DSN, because a DSN may contain a password."""


class Dsn:
    """A DSN, or the name of the file with the DSN.

    The file may change while a process runs: the next connection uses the new content. A `passfile` in the DSN may
    change too: asyncpg reads the passfile for each connection, as libpq does.
    """

    __slots__ = ("_file", "_text")

    def __init__(self, text: str = "", *, file: Path | None = None) -> None:
        self._file = file
        self._text = "" if file is not None else _checked(text, "the DSN")

    @classmethod
    def of(cls, dsn: Self | str) -> Self:
        """Return a Dsn unchanged, or make a Dsn from a text.

        errors:  InvalidDsn  the text is not a DSN
        """
        return dsn if isinstance(dsn, cls) else cls(str(dsn))

    @property
    def file(self) -> Path | None:
        """Return the file with the DSN; None if the DSN was given as text."""
        return self._file

    @property
    def place(self) -> str:
        """Describe the server for people: its host and port, without user or password."""
        try:
            parts = urlsplit(self.reveal())
        except InvalidDsn:
            return "an unknown place"
        return f"{parts.hostname or 'a local socket'}{f':{parts.port}' if parts.port else ''}"

    def reveal(self) -> str:
        """Return the DSN's text. Callers connect immediately and don't store the text.

        errors:  InvalidDsn  the file can't be read, or its text is not a DSN
        """
        if self._file is None:
            return self._text
        if ":/" in str(self._file):  # a URL: Path has removed its second slash
            raise InvalidDsn("expected the name of a file with a DSN, but got a DSN; did you mean SHARDCLOCK_DSN?")
        try:
            with self._file.open("rb") as file:
                text = file.read(BYTES_MAX).decode()
        except OSError as error:
            raise InvalidDsn(f"{self._file} can't be read: {error.strerror or type(error).__name__}") from None
        except UnicodeDecodeError:
            raise InvalidDsn(f"the text of {self._file} {RULE}, in UTF-8") from None
        return _checked(text.strip(), f"the text of {self._file}")

    def __repr__(self) -> str:
        """Show the file's name, but no part of the DSN."""
        return f"Dsn(file={str(self._file)!r})" if self._file is not None else "Dsn(**********)"

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled: every process of a Ray cluster can read the arguments of an actor."""
        raise TypeError("a DSN is never sent to another process: each process reads it on its own node")


def _checked(text: str, source: str) -> str:
    try:
        parts = urlsplit(text)
        sslmode = parse_qs(parts.query).get("sslmode", ["prefer"])[-1]
        good = parts.scheme in ("postgresql", "postgres") and parts.port != 0 and sslmode in SSL_MODES
    except ValueError:
        good = False
    if not good:
        raise InvalidDsn(f"{source} {RULE}")
    return text
