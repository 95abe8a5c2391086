-- The rule of a row, beside broken_rule: a reserved name and the target belong together.
--
-- in:    t shardclock.timers
-- out:   text[]: the rule, and the sentence
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
            then array['name_is_not_reserved', shardclock.reserved('name', t.name)]
    end;
end;

comment on function shardclock.reserved_rule is
    'Internal: Says whether a row has a reserved name, and why it may not.';
