-- Says in which of three tables a request is stored: today's, yesterday's, or the one that is emptied next. Why three:
-- docs/decisions/0044-idempotent-requests.md.
--
-- in:    moment timestamptz
-- out:   smallint
-- locks: nothing
-- index: none
create or replace function shardclock.request_slot(moment timestamptz)
returns smallint
language sql
immutable
begin atomic
    select (((moment at time zone 'UTC')::date - date '1970-01-01') % 3)::smallint;
end;
