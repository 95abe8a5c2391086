-- Returns the slot of a request by its day. The three slots are partitions of idempotent_requests: for today, for
-- yesterday, and for the day before yesterday, which forget_requests empties
-- (docs/decisions/0044-idempotent-requests.md).
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
