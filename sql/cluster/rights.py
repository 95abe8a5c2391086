"""Check that the database role has the rights that a cluster or a gateway needs."""

from shardclock_server.sql.session import Session


class LacksRights(Exception):
    """A role lacks grants. The message is a sentence that names the missing grants."""


async def require_rights(session: Session) -> None:
    """Raise an error if the role lacks a right that a cluster needs; without the right, shards would fail and fire no
    timer.

    errors:  LacksRights       names the grant that is missing
             StoreUnavailable  no answer before the timeout
    source:  sql/cluster/missing_rights.sql, docs/operate/security.md
    """
    rows = await session.rows("missing_rights")
    if not rows:
        return
    role, group = rows[0]["role"], rows[0]["group_role"]
    grants = "; ".join(f"grant {row['missing']} to {role}" for row in rows)
    if group is not None:
        raise LacksRights(
            f"role {role} may not run shards: `grant {group} to {role}` lets it;"
            f" it lacks {'; '.join(row['missing'] for row in rows)}"
        )
    raise LacksRights(f"role {role} may not run shards: `{grants}` lets it")


async def require_gateway_rights(session: Session) -> None:
    """Raise an error if the role lacks a gateway's rights; without them the gateway would answer each request with 500.

    errors:  LacksRights       names the grant that is missing
             StoreUnavailable  no answer before the timeout
    source:  sql/cluster/may_serve.sql, docs/operate/security.md
    """
    row = await session.row("may_serve")
    assert row is not None
    if row["may"] is not False:
        return
    before = "" if row["has_group"] else "`shardclock migrate --roles`, and then "
    raise LacksRights(
        f"role {row['role']} may not serve the HTTP API: {before}`grant shardclock_gateway to {row['role']}` lets it"
    )
