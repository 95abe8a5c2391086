"""Define the specific refusal codes and their texts, for SQL, the HTTP API, the command line and the clients.

    timers:       timers and their targets
    deliveries:   deliveries and dead letters
    jobs:         jobs and their runs
    processes:    processes, instances, tasks and incidents
    tenants:      the quotas, limits, endpoints and API keys of tenants
    log:          the log, its consumer groups, and a database on hold
    operations:   bulk operations

A function in `sql/functions` raises its refusal with the code as the error's constraint; a test compares the texts.
"""

from collections.abc import Mapping

from shardclock.api.codes import GENERAL, INVALID, NO_RESPONSE, QUOTA, WRONG_SCHEMA, RefusalCode, invalid, quota
from shardclock.api.refusals import deliveries, jobs, log, operations, processes, tenants, timers

SUBJECTS: Mapping[str, Mapping[str, RefusalCode]] = {
    module.__name__.rpartition(".")[2]: {
        it.name: it for it in vars(module).values() if isinstance(it, RefusalCode) and it.name != it.general
    }
    for module in (timers, deliveries, jobs, processes, tenants, log, operations)
}
CODES: Mapping[str, RefusalCode] = {
    **{code.name: code for code in (*GENERAL, NO_RESPONSE, WRONG_SCHEMA)},
    **{name: code for codes in SUBJECTS.values() for name, code in codes.items()},
}


def code_of(name: str) -> RefusalCode | None:
    """Find a code by its name; None: the code is unknown, for example a code of a newer gateway."""
    if name.startswith(INVALID):
        return invalid(name.removeprefix(INVALID))
    if name.startswith(QUOTA):
        return quota(name.removeprefix(QUOTA))
    return CODES.get(name)
