"""Check the server and the schema of an installation, and then its cluster."""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from shardclock_server.service.cluster_check import check_cluster
from shardclock_server.service.finding import Finding, Level
from shardclock_server.service.hold import read_hold
from shardclock_server.service.wording import counted, span_of
from shardclock_server.sql.cluster.rights import LacksRights, require_rights
from shardclock_server.sql.cluster.server import PostgresState, read_server
from shardclock_server.sql.keys.keys import EXPIRES_SOON, count_expiring
from shardclock_server.sql.migrate import WrongSchema, require_current, require_objects
from shardclock_server.sql.session import Session, StatementRefused, StoreUnavailable
from shardclock_server.sql.tenant_limits.tenant_limits import list_tenants, measure_pending
from shardclock_server.timers.refusal import shortened

MAJORS = range(15, 19)
CONNECTIONS_SHARE, QUOTA_SHARE = 0.9, 0.9
SKEW_S = 1.0
OLD_TRANSACTION_S = 900.0
TENANTS_MAX = 100


@dataclass(frozen=True, slots=True)
class Installation:
    """The settings that the checks of the database need; `identity` is the name of the installation, or ''."""

    identity: str
    silent_s: float


Check = Callable[[Session, Installation], Awaitable[Finding]]


async def check_database(session: Session, its: Installation) -> list[Finding]:
    """Check the server and the schema, one finding for each check.

    If the role lacks the rights for a check, the finding reports the missing rights.
    """
    sent = datetime.now(UTC)
    try:
        server = await read_server(session)
    except StoreUnavailable as error:
        return [Finding("postgres", Level.FAULT, f"Postgres does not answer: {error}; start it, or correct the DSN")]
    findings = [*_findings_of(server), _clock(server, sent=sent, received=datetime.now(UTC))]
    schema = await _schema(session)
    findings.append(schema)
    if schema.level is Level.FAULT:
        return findings
    for name, check in CHECKS.items():
        try:
            findings.append(await check(session, its))
        except StatementRefused as error:
            findings.append(Finding(name, Level.UNKNOWN, f"not checked: {error}"))
    try:
        findings += await check_cluster(session, silent_s=its.silent_s)
    except StatementRefused as error:
        findings.append(Finding("cluster", Level.UNKNOWN, f"not checked: {error}"))
    return findings


def _findings_of(server: PostgresState) -> Iterator[Finding]:
    yield _version(server)
    if server.is_standby:
        yield Finding("primary", Level.FAULT, "this Postgres is a standby, which accepts no writes: use the primary")
    if server.unsafe:
        settings = ", ".join(server.unsafe)
        yield Finding(
            "durability",
            Level.FAULT,
            f"{settings} {'is' if len(server.unsafe) == 1 else 'are'} off, so a crash may lose or damage committed"
            f" timers: `alter system set {server.unsafe[0]} = on`, then `select pg_reload_conf()`",
        )
    else:
        yield Finding("durability", Level.OK, "a commit survives a crash")
    yield _connections(server)
    yield _vacuum(server)


def _version(server: PostgresState) -> Finding:
    if server.major in MAJORS:
        return Finding("postgres", Level.OK, f"Postgres {server.major}, as role {server.role}")
    return Finding(
        "postgres",
        Level.WARNING,
        f"Postgres {server.major} is not tested: use a version from {MAJORS[0]} to {MAJORS[-1]}",
    )


def _connections(server: PostgresState) -> Finding:
    found = f"{server.connections:,} of {server.connections_max:,} connections are used"
    if server.connections < CONNECTIONS_SHARE * server.connections_max:
        return Finding("connections", Level.OK, found)
    return Finding(
        "connections", Level.WARNING, f"{found}: raise max_connections, or put a pooler before other clients"
    )


def _vacuum(server: PostgresState) -> Finding:
    if not server.vacuums:
        return Finding(
            "vacuum", Level.FAULT, "autovacuum or track_counts is off, so firings get slower: set both to on"
        )
    if server.prepared:
        return Finding(
            "vacuum",
            Level.WARNING,
            f"{counted(server.prepared, 'prepared transaction')} may hold vacuum back: commit or roll back each one in"
            " pg_prepared_xacts",
        )
    if (age_s := server.oldest_transaction_s or 0.0) > OLD_TRANSACTION_S:
        return Finding(
            "vacuum",
            Level.WARNING,
            f"a transaction has been open for {span_of(age_s)} and holds vacuum back: find its session in"
            " pg_stat_activity by the oldest xact_start, and end it",
        )
    return Finding("vacuum", Level.OK, "autovacuum runs, and no old transaction holds it back")


def _clock(server: PostgresState, *, sent: datetime, received: datetime) -> Finding:
    """Compare the clocks; the server read its clock between `sent` and `received`."""
    ahead_s = (sent - server.server_time).total_seconds()
    behind_s = (server.server_time - received).total_seconds()
    skew_s = max(0.0, ahead_s, behind_s)
    if skew_s <= SKEW_S:
        return Finding("clock", Level.OK, "this machine's clock agrees with the clock of Postgres")
    where = "ahead of" if ahead_s > behind_s else "behind"
    return Finding(
        "clock",
        Level.WARNING,
        f"this machine's clock is {skew_s:.1f} s {where} the clock of Postgres, which decides when a timer is due: let"
        " both follow one time server",
    )


async def _schema(session: Session) -> Finding:
    try:
        await require_objects(session)
        await require_current(session)
    except WrongSchema as error:
        return Finding("schema", Level.FAULT, str(error))
    except StatementRefused as error:
        return Finding("schema", Level.FAULT, f"this role can't read the schema: {error}; `shardclock migrate --roles`")
    return Finding("schema", Level.OK, "the schema has the version of this program")


async def _rights(session: Session, its: Installation) -> Finding:  # noqa: ARG001 - the shape of a check
    try:
        await require_rights(session)
    except LacksRights as error:
        return Finding("rights", Level.WARNING, str(error))
    return Finding("rights", Level.OK, "this role may run a cluster")


async def _hold(session: Session, its: Installation) -> Finding:
    hold = await read_hold(session, its.identity, silent_s=its.silent_s)
    if hold is None:
        return Finding("hold", Level.OK, "the database is not on hold")
    return Finding("hold", Level.WARNING, hold.line)


async def _keys(session: Session, its: Installation) -> Finding:  # noqa: ARG001 - the shape of a check
    if expiring := await count_expiring(session, EXPIRES_SOON):
        return Finding(
            "keys",
            Level.WARNING,
            f"{counted(expiring, 'API key')} will expire within two weeks: `shardclock keys rotate`",
        )
    return Finding("keys", Level.OK, "no API key in use will expire within two weeks")


async def _quotas(session: Session, its: Installation) -> Finding:  # noqa: ARG001 - the shape of a check
    full = []
    tenants = await list_tenants(session, limit=TENANTS_MAX)
    for tenant in tenants:
        most = tenant.limits.timers_max
        if most and (await measure_pending(session, tenant.tenant_id, timers_max=most)).timers >= QUOTA_SHARE * most:
            full.append(tenant.tenant_id)
    first = "first tenant by name was" if len(tenants) == 1 else f"first {len(tenants)} tenants by name were"
    others = f"; only the {first} checked; `shardclock tenants show TENANT` checks one"
    seen = others if len(tenants) == TENANTS_MAX else ""
    if not full:
        return Finding("quotas", Level.OK, f"no tenant has used {QUOTA_SHARE:.0%} of its own limit of timers{seen}")
    more = f" and {len(full) - 1} more" if len(full) > 1 else ""
    return Finding(
        "quotas",
        Level.WARNING,
        f"tenant {shortened(full[0])}{more} used {QUOTA_SHARE:.0%} of its limit of timers: raise it by"
        f" `shardclock tenants set TENANT --timers N`{seen}",
    )


CHECKS: dict[str, Check] = {
    "rights": _rights,
    "hold": _hold,
    "keys": _keys,
    "quotas": _quotas,
}
