-- Returns the refusal of a reserved name or target; null: the text is not reserved.
--
-- in:    field text, given text
-- out:   text[]: the code, and the sentence
-- locks: nothing
-- index: none
-- needs: is_reserved_name
create or replace function shardclock.reserved(field text, given text)
returns text[]
language sql
immutable
begin atomic
    select case
        when field = 'name' and shardclock.is_reserved_name(given)
            then array[
                'reserved_name',
                format(
                    'name %L is reserved: names that begin with job:, process: or start: are for the timers of jobs and '
                    'processes; choose another name',
                    left(given, 60)
                )
            ]
        when field = 'target' and given ^@ 'job:'
            then array[
                'reserved_target',
                format(
                    'target %L is reserved for the timers of %s: %s, or choose another target',
                    left(given, 60), 'jobs', 'start the job (shardclock jobs run)'
                )
            ]
        when field = 'target' and given ^@ 'process:'
            then array[
                'reserved_target',
                format(
                    'target %L is reserved for the timers of %s: %s, or choose another target',
                    left(given, 60), 'processes', 'start an instance (shardclock processes start)'
                )
            ]
    end;
end;

comment on function shardclock.reserved is 'Internal: Returns the refusal of a reserved name or target; null: the text is not reserved.';
