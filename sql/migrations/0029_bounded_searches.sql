-- A tenant may have few ended timers in a large log. A search for them reads the log in steps, from its end back to its
-- beginning, and must know where these are.

-- With its owner's rights, so that it is read from the ends of the index: a tenant's own records may be anywhere. Only
-- numbers are seen here.
create view shardclock.log_ends as
select min(l.position) as first, max(l.position) as last from shardclock.command_log l;

comment on view shardclock.log_ends is
    'One row: the lowest and the highest position in the log, of all tenants'' records; nulls: it is empty.';
