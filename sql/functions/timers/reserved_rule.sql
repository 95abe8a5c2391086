-- Returns the refusal if a row has a reserved name that does not fit its target; otherwise null.
--
-- in:    t shardclock.timers
-- out:   text[]: the code, and the sentence
-- locks: nothing
-- index: none
-- needs: is_reserved_name, reserved
create or replace function shardclock.reserved_rule(t shardclock.timers)
returns text[]
language sql
immutable
begin atomic
    select case
        when shardclock.is_reserved_name(t.name)
            and not case when t.name ^@ 'job:' then t.target = t.name else t.target = 'process:instance' end
            then shardclock.reserved('name', t.name)
    end;
end;

comment on function shardclock.reserved_rule is
    'Internal: Returns the refusal if a row has a reserved name that does not fit its target; null: the row is accepted.';
