"""Everything that is stored: the schema, the statements, and the only code that talks to Postgres.

`schema/` holds the tables, one step for each subject; `functions/` holds one function in each file. Each other folder
is a subject: its modules, and beside them its statements, one in each file. Functions and statements open with a header
that names their input, their output, their locks and their indexes; `included/` holds text that statements share. The
modules give each statement a typed function. Only this package imports the library that connects to Postgres:

    audit/    who did what
    claims/   what a shard does to rows of `timers`: claim, plan, fire
    clients/  what clients do: schedule, change, find
    clock/    a clock that a test moves
    cluster/  which holders there are and which coordinator leads; the database's identity; rights
    deliveries/  what workers do: claim, settle; handlers and dead letters
    endpoints/  where webhooks are sent
    jobs/     recurring work and its runs
    keys/     the keys by which the HTTP API knows its callers
    log/      the command log, and the groups that read it
    metrics/  what is measured
    processes/  deployed models, their instances, and what these wait for
    requests/  what the HTTP API answered, for whoever sends the same request again
    tenants/  what tenants may have, and what they have

    session     one connection, opened again after it was lost
    served      the tenants and the API key for which its statements are
    pool        some sessions, lent one by one, so that no tenant has them all
    turns       let others go on, in what takes long
    pinned      the settings that every session fixes for itself, whatever the server's defaults are
    statements  the statements by name, with named parameters
    hints, hint_sender  tell those who wait that there is something new, and hear it
    retry       repeat calls that are safe to repeat
    halves      write many rows at once, and those that can't be written alone
    backoff     how long to wait before another try
    migrate     bring the schema up to date, or check that this program can work with it
    scripts     the files that make the schema, in their order
    copies      whole databases, as copies of another
    dsn         where the database is, without showing its password
"""
