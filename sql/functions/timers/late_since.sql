-- A timer that was overdue already when a client scheduled, moved or resumed it is late from that moment on, not from
-- its due date: docs/decisions/0034-late-since.md. A later occurrence is written by the firing before it, not by a
-- client: if it is late, the cluster is late.
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
