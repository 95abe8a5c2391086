-- Returns the position up to which the log is complete: no new record can appear at this position or below it.
--
-- in:    nothing
-- out:   bigint
-- locks: nothing
-- index: none
create or replace function shardclock.log_horizon()
returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    -- Read the sequence before the locks. All later positions are above `drawn`. A transaction with a lower position
    -- either still has its lock when the locks are read, or has ended before the caller's next statement takes its
    -- snapshot.
    drawn bigint := pg_sequence_last_value('shardclock.position_seq');
begin
    if pg_is_in_recovery() then
        raise exception 'the log can''t be read on a replica, which does not know the writers: read it on the primary'
            using errcode = 'object_not_in_prerequisite_state', constraint = 'log_on_replica';
    end if;
    if drawn is null and not has_sequence_privilege('shardclock.position_seq', 'select, usage') then
        raise exception '% may not read the log: grant select on sequence shardclock.position_seq to it', current_user
            using errcode = 'insufficient_privilege', constraint = 'log_not_granted';
    end if;
    return greatest(0, least(
        coalesce(drawn, 0),
        (
            with ours as materialized (
                select l.pid, l.locktype, l.objid
                from pg_locks l
                where l.database = (select d.oid from pg_database d where d.datname = current_database())
                    and (
                        l.locktype = 'advisory' and l.classid = 1936221036 and l.objsubid = 2 and l.mode = 'ShareLock'
                        or l.locktype = 'relation' and l.relation = 'shardclock.command_log'::regclass
                        and l.mode = 'RowExclusiveLock'
                    )
                    and l.granted
            )
            -- A lock's key has the last 31 bits of a mark. The mark is the number with these bits that is nearest to
            -- `drawn`.
            select min(drawn + ((m.objid::bigint - drawn + 1073741824) & 2147483647) - 1073741824)
            from ours m
            where m.locktype = 'advisory'
                -- Any session may take these advisory locks. So check that the session has also locked the table, as
                -- each writer of the log does before its mark. A prepared transaction has no pid. During the
                -- preparation, one of its two locks may still have a pid.
                and (
                    m.pid is null
                    or exists (select from ours t where t.locktype = 'relation' and (t.pid = m.pid or t.pid is null))
                )
        )
    ));
end
$$;

comment on function shardclock.log_horizon is $$Returns the horizon: the position up to which the log is complete. A
statement that begins after this call sees all records up to the horizon, and no new record can appear there. read_log
calls this function first. A later call may return a lower position, if a writer began before the first call and took its mark afterwards; both results are correct.

returns: a position; 0 before the first record
errors: 55000 on a replica; 42501 without a right on the sequence shardclock.position_seq
example: select shardclock.log_horizon();
$$;
