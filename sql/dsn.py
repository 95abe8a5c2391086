"""Where the database is and how to log in: never shown, never sent to another process, read for each connection."""

from pathlib import Path
from typing import NoReturn, Self
from urllib.parse import parse_qs, urlsplit

RULE = "must be a URL such as postgresql://user:password@host:5432/database"
SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")  # libpq's
BYTES_MAX = 16_384  # read from the file; no DSN is longer


class InvalidDsn(ValueError):
    """Carries what is wrong with a DSN, and never the DSN: it may hold a password."""


class Dsn:
    """Keep a DSN, or the name of the file that holds it.

    The file may change while a process runs: the next connection uses its new content. The same holds for a `passfile`
    that a DSN names; asyncpg reads it as libpq does.
    """

    __slots__ = ("_file", "_text")

    def __init__(self, text: str = "", *, file: Path | None = None) -> None:
        self._file = file
        self._text = "" if file is not None else _checked(text, "the DSN")

    @classmethod
    def of(cls, dsn: Self | str) -> Self:
        """Return a Dsn as it is, or make one from a text.

        errors:  InvalidDsn  the text can never connect
        """
        return dsn if isinstance(dsn, cls) else cls(str(dsn))

    @property
    def file(self) -> Path | None:
        """Return the file that holds the DSN, if a file does."""
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
        """Return the text, to connect with it now and not to keep it.

        errors:  InvalidDsn  the file can't be read, or its text can never connect
        """
        if self._file is None:
            return self._text
        if ":/" in str(self._file):  # a URL: as a path it has lost its second slash
            raise InvalidDsn("a DSN stands where the name of a file that holds one must be; is SHARDCLOCK_DSN meant?")
        try:
            with self._file.open("rb") as file:
                text = file.read(BYTES_MAX).decode()
        except OSError as error:
            raise InvalidDsn(f"{self._file} can't be read: {error.strerror or type(error).__name__}") from None
        except UnicodeDecodeError:
            raise InvalidDsn(f"what {self._file} holds {RULE}, in UTF-8") from None
        return _checked(text.strip(), f"what {self._file} holds")

    def __repr__(self) -> str:
        """Show the file's name, and nothing of the DSN."""
        return f"Dsn(file={str(self._file)!r})" if self._file is not None else "Dsn(**********)"

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled: Ray stores what is sent to an actor where anybody may read it."""
        raise TypeError("a DSN is sent to no other process: each finds it on its own node")


def _checked(text: str, what: str) -> str:
    try:
        parts = urlsplit(text)
        sslmode = parse_qs(parts.query).get("sslmode", ["prefer"])[-1]
        good = parts.scheme in ("postgresql", "postgres") and parts.port != 0 and sslmode in SSL_MODES
    except ValueError:
        good = False
    if not good:
        raise InvalidDsn(f"{what} {RULE}")
    return text
