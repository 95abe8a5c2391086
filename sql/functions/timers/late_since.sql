-- The lag of a timer counts from its due date. If a client scheduled, moved or resumed an overdue timer, the lag counts
-- from this action: docs/decisions/0034-late-since.md. The lag of a later occurrence always counts from its due date,
-- because a firing wrote the occurrence.
--
-- in:    due_date timestamptz, created_at timestamptz, changed_at timestamptz, occurrence bigint
-- out:   timestamptz
-- locks: nothing
-- index: none
create or replace function shardclock.late_since(
    due_date timestamptz, created_at timestamptz, changed_at timestamptz, occurrence bigint
)
returns timestamptz
language sql
immutable
begin atomic
    select greatest(due_date, changed_at, case when occurrence = 1 then created_at end);
end;

comment on function shardclock.late_since is
    'Internal: Returns the moment from which a timer is late: its due date, or a client''s later request.';
