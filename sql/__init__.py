"""The database layer: the schema, the SQL statements, and all code that connects to Postgres.

`schema/` has the migrations that create the tables, one file for each subject; `functions/` has one SQL function in
each file. Each other folder has the Python modules and the SQL statements of one subject, one statement in each file.
The header of a function or statement lists its input, output, locks and indexes. `included/` has text that several
statements contain. A module has a typed Python function for each statement. Only this package imports the library that
connects to Postgres:

    audit/    the record of operators' acts
    claims/   a shard's claims of `timers`
    clients/  clients' verbs: schedule, change, find
    clock/    a clock that a test moves
    cluster/  the holders, the leading coordinator, the database's identity, rights
    deliveries/  the workers' statements: claim and settle deliveries; handlers, dead letters
    endpoints/  the receivers of webhooks
    firing/   a shard fires leased timers, computes first due dates, and pauses faulty timers
    idempotency/  the stored answers of the HTTP API, for a request that is sent again
    jobs/     recurring jobs and their runs
    keys/     the API keys of the HTTP API's callers
    log/      the command log, and the consumer groups that read it
    metrics/  the metrics for the exporter and for `shardclock status`
    notify/  events for operators, and the endpoints that get them
    operations/  changes of many rows, with their progress
    processes/  deployed models, and the instances, messages and tasks of their processes
    tenant_limits/  the stored limits of tenants, and the tenants' usage

    session     one connection, opened again after a loss
    served      the tenants and the API key for which a session executes statements
    pool        a pool of sessions, with a limit for each tenant
    yielding    let other tasks run during long work
    session_settings  the settings that every session sets, because the server's defaults may have been changed
    statements  the statements by name, with named parameters
    notification_sender, notification_listener  send and receive notifications of new rows
    retry       repeat calls that are safe to repeat
    page_cursors  the cursors of lists, which a client sends back for the next page
    bisection   write many rows in one statement, and each refused row in a separate statement
    migrate     update the schema, or check that the schema has this program's version
    dropped     find tables and other objects that were dropped after a migration
    scripts     the files that create the schema, in the order of their execution
    copies      create a database as a copy of another database
    dsn         the address of the database, with the password hidden
"""
