"""Check jobs' configurations against the arguments of the jobs' functions before the jobs are stored."""

from collections.abc import Iterable

from shardclock.outline import misfit_of
from shardclock_server.sql.jobs.jobs import find_config_outlines
from shardclock_server.sql.session import Session
from shardclock_server.timers.refusal import InvalidTimer, shortened


async def misfits_of(session: Session, configs: Iterable[tuple[str, str]]) -> list[str | None]:
    """Check pairs of a function and its configuration; return for each pair the fault, or None if the pair is valid.

    errors:  StoreUnavailable  Postgres did not answer within the timeout
    """
    asked = list(configs)
    outlines = await find_config_outlines(session, {function for function, _ in asked})
    misfits = [misfit_of(config, outlines[function]) if function in outlines else None for function, config in asked]
    return [
        None if why is None else f"config does not fit the argument of {shortened(function)}: {why}"
        for why, (function, _) in zip(misfits, asked, strict=True)
    ]


async def require_fit(session: Session, function: str, config: str) -> None:
    """Refuse a configuration that does not fit the function's argument.

    errors:  InvalidTimer      the configuration does not fit
             StoreUnavailable  Postgres did not answer within the timeout
    """
    (why,) = await misfits_of(session, [(function, config)])
    if why is not None:
        raise InvalidTimer(why)
