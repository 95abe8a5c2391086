-- A timer that was overdue already when a client scheduled, moved or resumed it is late from that moment on, not from
-- its due date: docs/decisions/0034-late-since.md. Later occurrences are written by the firing before them, not by a
-- client: if they are late, the cluster is late.
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
    'Internal: From when on a timer is late: its due date, or the moment a client asked for it if that was later.';
