"""The command that checks an installation: doctor."""

import asyncio
import os
import shutil
import socket
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from rich.filesize import decimal

from shardclock.api.codes import NOT_DONE
from shardclock_server.cli.output import DONE, Json, print_json, print_table
from shardclock_server.cli.run import NO_RAY
from shardclock_server.cluster.database import has_data, open_database
from shardclock_server.cluster.settings import Settings, load_settings
from shardclock_server.embedded.postmaster import EmbeddedPostgresError
from shardclock_server.service.doctor import Installation, check_database
from shardclock_server.service.finding import Finding, Level
from shardclock_server.service.wording import counted
from shardclock_server.sql.dsn import Dsn
from shardclock_server.sql.session import Session, StatementRefused

ANSWER_S = 10.0
FREE_SHARE, FREE_BYTES = 0.1, 1 << 30
CERTIFICATE_DAYS = 30
# The request for TLS in Postgres's protocol: 8 bytes, with the code 80877103.
SSL_REQUEST = b"\x00\x00\x00\x08\x04\xd2\x16\x2f"
POSTGRES_PORT = 5432
# The mode "require" verifies the certificate only if sslrootcert names an authority.
VERIFIED_MODES = ("require", "verify-ca", "verify-full")
STYLES = {Level.OK: "ok", Level.UNKNOWN: "?", Level.WARNING: "WARNING", Level.FAULT: "FAULT"}


def doctor(as_json: Json = False) -> int:
    """Check the installation: Postgres, schema, rights, clock, disk, Ray, quotas and certificates."""
    settings = load_settings()
    findings = [_packages(), *_machine(settings), *_database(settings)]
    faults = sum(it.level is Level.FAULT for it in findings)
    warnings = sum(it.level is Level.WARNING for it in findings)
    if as_json:
        print_json({"faults": faults, "warnings": warnings, "findings": findings})
    else:
        rows = [(it.check, STYLES[it.level], it.text) for it in findings]
        print_table("", ["check", "", "finding"], rows)
        print_table("", ["result"], [[f"{counted(faults, 'fault')}, {counted(warnings, 'warning')}"]])
    return NOT_DONE if faults else DONE


def _packages() -> Finding:
    server, client = version("shardclock"), version("shardclock-client")
    if server == client:
        return Finding("packages", Level.OK, f"shardclock and shardclock-client have version {server}")
    return Finding(
        "packages",
        Level.FAULT,
        f"shardclock has version {server}, and shardclock-client {client}: install one version of both",
    )


def _machine(settings: Settings) -> Iterator[Finding]:
    yield _ray(settings)
    dsn = settings.find_dsn()
    if dsn is None:
        yield _disk(settings.data_dir)
    else:
        yield Finding("disk", Level.UNKNOWN, f"not checked: run `df` on the machine of Postgres at {dsn.place}")
        yield _certificate(dsn)


def _ray(settings: Settings) -> Finding:
    if settings.local:
        return Finding("ray", Level.OK, "keepers are local processes (SHARDCLOCK_LOCAL)")
    address = settings.ray_address
    if find_spec("ray") is None:
        none = Finding("ray", Level.OK, "Ray is not installed, so `shardclock up` runs local processes")
        return none if address is None else Finding("ray", Level.FAULT, NO_RAY)
    if address is None:
        return Finding("ray", Level.OK, f"Ray {version('ray')}; `shardclock up` starts Ray")
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not port.isdigit():
        return Finding("ray", Level.OK, f"Ray {version('ray')}; SHARDCLOCK_RAY_ADDRESS is {address}")
    try:
        socket.create_connection((host, int(port)), timeout=ANSWER_S).close()
    except OSError as error:
        return Finding(
            "ray",
            Level.FAULT,
            f"Ray at {address} does not answer ({error}): start it, or correct SHARDCLOCK_RAY_ADDRESS",
        )
    return Finding("ray", Level.OK, f"Ray {version('ray')}; {address} answers")


def _disk(data_dir: Path) -> Finding:
    """Check the disk of the embedded Postgres.

    If the data directory is missing, check the disk of the nearest parent.
    """
    there = next(it for it in (data_dir, *data_dir.resolve().parents) if it.exists())
    usage = shutil.disk_usage(there)
    found = f"{decimal(usage.free)} of {decimal(usage.total)} are free at {data_dir}"
    if usage.free < FREE_BYTES:
        return Finding("disk", Level.FAULT, f"{found}, and Postgres stops on a full disk: free some space")
    if usage.free < FREE_SHARE * usage.total:
        return Finding(
            "disk", Level.WARNING, f"{found}: free some space, or set SHARDCLOCK_DATA_DIR to another directory"
        )
    return Finding("disk", Level.OK, found)


def _certificate(dsn: Dsn) -> Finding:
    """Verify Postgres's certificate with the authority that the DSN or an environment variable names."""
    parts = urlsplit(dsn.reveal())
    options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    authority = options.get("sslrootcert") or os.environ.get("PGSSLROOTCERT")
    mode = options.get("sslmode") or os.environ.get("PGSSLMODE", "prefer")
    if parts.hostname is None:
        return Finding(
            "certificate",
            Level.UNKNOWN,
            "not checked: the DSN's URL names no host, for example because of a Unix socket",
        )
    if mode not in VERIFIED_MODES or not authority:
        return Finding(
            "certificate",
            Level.UNKNOWN,
            f"not checked: the sslmode is {mode}, so any server can pose as Postgres: set sslmode=verify-full and"
            " sslrootcert in the DSN, or PGSSLMODE and PGSSLROOTCERT",
        )
    try:
        # Create the context as asyncpg does. Since Python 3.13, a default context refuses some certificates that
        # asyncpg accepts.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = mode == "verify-full"
        context.load_verify_locations(cafile=authority)
        ends = _end_of_certificate(parts.hostname, parts.port or POSTGRES_PORT, context)
    except (OSError, ssl.SSLError) as error:
        return Finding(
            "certificate",
            Level.FAULT,
            f"the certificate of {dsn.place} is refused: {error}; renew it, or correct sslrootcert ({authority})",
        )
    if (days := (ends - datetime.now(UTC)).days) < CERTIFICATE_DAYS:
        return Finding(
            "certificate",
            Level.WARNING,
            f"the certificate of {dsn.place} will expire in {counted(days, 'day')}: renew it",
        )
    return Finding("certificate", Level.OK, f"the certificate of {dsn.place} is valid until {ends:%Y-%m-%d}")


def _end_of_certificate(host: str, port: int, context: ssl.SSLContext) -> datetime:
    with socket.create_connection((host, port), timeout=ANSWER_S) as plain:
        plain.sendall(SSL_REQUEST)
        if plain.recv(1) != b"S":
            raise ssl.SSLError("the server offers no TLS")
        with context.wrap_socket(plain, server_hostname=host) as secured:
            certificate = secured.getpeercert() or {}
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(str(certificate["notAfter"])), UTC)


def _database(settings: Settings) -> list[Finding]:
    """Check the database; start an embedded database for the checks if it is stopped."""
    if not has_data(settings):
        return [
            Finding(
                "postgres",
                Level.WARNING,
                f"{settings.data_dir} contains no database yet: `shardclock up` creates a database",
            )
        ]
    its = Installation(settings.identity or "", settings.coordinator.silent_s)

    async def check(dsn: Dsn) -> list[Finding]:
        async with Session(dsn, application="shardclock doctor", timeout_s=ANSWER_S) as session:
            return await check_database(session, its)

    try:
        with open_database(settings, migrates=False) as database:
            return asyncio.run(check(database.dsn))
    except (EmbeddedPostgresError, StatementRefused) as error:
        return [Finding("postgres", Level.FAULT, str(error))]
