-- in:    field text, given text
-- out:   text: the sentence
-- locks: nothing
-- index: none
-- needs: is_reserved_name
create or replace function shardclock.reserved(field text, given text)
returns text
language sql
immutable
begin atomic
    select case
        when field = 'name' and shardclock.is_reserved_name(given)
            then format(
                'name "%s" is reserved: names that begin with job:, process: or start: are for the timers of jobs and '
                'processes; choose another name',
                left(given, 60)
            )
        when field = 'target' and given ^@ 'job:'
            then format(
                'target "%s" is reserved for the timers of jobs: start the job (shardclock jobs run %s), or choose '
                'another target',
                left(given, 60), left(substr(given, 5), 60)
            )
        when field = 'target' and given ^@ 'process:'
            then format(
                'target "%s" is reserved for the timers of processes: start an instance (shardclock processes start), '
                'or choose another target',
                left(given, 60)
            )
    end;
end;

comment on function shardclock.reserved is 'Internal: Says why a client may not give a name or a target; null: it may.';
