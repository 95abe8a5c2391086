"""Check configurations of jobs by what their functions take, before they are written."""

from collections.abc import Iterable

from sql.jobs.jobs import find_config_schemas
from sql.session import Session
from timers.refusal import InvalidTimer, shortened


async def misfits_of(session: Session, configs: Iterable[tuple[str, str]]) -> list[str | None]:
    """Say of configurations, each after the function that gets it, why they don't fit; None: nothing is against it.

    errors:  StoreUnavailable  no answer in time
    """
    from jobs.config import misfit_of  # its library takes half as long to import as all of the command line

    asked = list(configs)
    taken = await find_config_schemas(session, {function for function, _ in asked})
    misfits: list[str | None] = []
    for function, config in asked:
        known = taken.get(function)
        why = None if known is None else misfit_of(config, known.schema, declared=known.declared)
        misfits.append(None if why is None else f"config does not fit what {shortened(function)} takes: {why}")
    return misfits


async def require_fit(session: Session, function: str, config: str) -> None:
    """Refuse a configuration that a function can't take.

    errors:  InvalidTimer      in one sentence
             StoreUnavailable  no answer in time
    """
    (why,) = await misfits_of(session, [(function, config)])
    if why is not None:
        raise InvalidTimer(why)
