-- Appends a failed attempt to a delivery's list of failures; the list keeps the first three and the last seven.
--
-- in:    failures jsonb, attempt integer, reason text, worker bigint, at timestamptz
-- out:   jsonb
-- locks: nothing
-- index: none
create or replace function shardclock.with_failure(
    failures jsonb, attempt integer, reason text, worker bigint, at timestamptz
)
returns jsonb
language sql
stable
begin atomic
    select case when jsonb_array_length(failures) >= 10 then failures - 3 else coalesce(failures, '[]') end
        || jsonb_build_object('attempt', attempt, 'at', at, 'reason', reason, 'worker', lpad(to_hex(worker), 16, '0'));
end;

comment on function shardclock.with_failure is
    'Internal: Appends a failed attempt to the failures of a delivery; keeps the first three and the last seven failures.';
