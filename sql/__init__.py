"""Everything that is remembered: the schema, the statements, and the only code that speaks to Postgres.

`migrations/` holds the schema, forward only. `queries/` holds one statement a file; each opens with a header that
says what goes in, what comes out, what it locks and which index it walks. The modules beside them give each
statement a typed function, and nothing above this package ever sees a connection's library:

    session      one connection that comes back after it was lost
    migrate      the schema brought up to date, or held against what this program needs
    pending      scheduling: what a client does first
    verbs        cancelling, moving, pausing, running now: what a client does later
    history      finding timers, past and present, and what was recorded of them
    claims       taking, planning and firing: what a shard does
    holders      who is there: the incarnations of shard actors
    identity     whose database this is, and whether it is a copy
    leadership   which coordinator leads, how many shards are wanted, how fast an outage is caught up with
    measures     what metrics read: load, who serves, what holds Postgres up
    forecast     the load of the next quarter of an hour
    log          the command log, read so that no record is skipped and none read twice
"""
