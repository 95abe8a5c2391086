-- Returns the moment from which a timer's lag is measured.
--
-- The moment is the due date. If a client scheduled, moved or resumed the timer after its due date, the moment is the
-- time of this request (docs/decisions/0034-late-since.md). For a later occurrence it is always the due date, because a
-- firing wrote the occurrence.
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
    'Internal: Returns the moment from which a timer''s lag is measured: its due date, or the time of a client''s later request.';
