-- Moves a consumer group to another position, with the same or another number of partitions.
--
-- Without `new_position` the position does not change. In this case the call is refused until all partitions have read
-- their records up to the position, so that the group processes each record once.
--
-- in:    group_name text, new_position bigint, partitions integer
-- out:   bigint: the group's position; null: the group does not exist
-- locks: the group's rows: waits for members that are working in a transaction; a member with a lease loses the lease
-- index: consumers_pkey
create or replace function shardclock.reset_group(group_name text, new_position bigint, partitions integer)
returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    last_position bigint;
    last_drawn bigint;
    wanted integer;
    behind record;
begin
    perform pg_advisory_xact_lock(hashtextextended('shardclock.consumers ' || group_name, 0));
    perform from shardclock.consumers c where c.group_name = reset_group.group_name order by c.partition for update;
    select max(c.position), coalesce(partitions, max(c.partitions)) into last_position, wanted
    from shardclock.consumers c
    where c.group_name = reset_group.group_name;
    if last_position is null then
        return null;
    end if;
    -- Accept positions up to the last drawn position, because `new_position` may come from an earlier horizon, and the
    -- horizon may be lower now.
    last_drawn := greatest(shardclock.log_horizon(), pg_sequence_last_value('shardclock.position_seq'));
    if new_position > last_drawn then
        raise exception 'position % is beyond the end of the log, %: the group would skip all records until then',
            new_position, last_drawn
            using errcode = 'invalid_parameter_value', constraint = 'invalid_position';
    end if;
    if new_position is null then
        select c.partition, l.position into behind
        from shardclock.consumers c
        cross join lateral (
            select l.position
            from shardclock.command_log l
            where l.position > c.position
                and l.position <= last_position
                and l.timer_key % 840 % c.partitions = c.partition
            order by l.position
            limit 1
        ) l
        where c.group_name = reset_group.group_name
        order by l.position
        limit 1;
        if found then
            raise exception 'partition % of group % has not read record %, and others are at %: stop the members when the '
                'group has read to the end, and try again',
                behind.partition, quote_literal(left(group_name, 60)), behind.position, last_position
                using errcode = 'object_not_in_prerequisite_state', constraint = 'group_not_at_end';
        end if;
    end if;
    delete from shardclock.consumers c where c.group_name = reset_group.group_name;
    insert into shardclock.consumers (group_name, partition, partitions, position)
    select group_name, p, wanted, coalesce(new_position, last_position)
    from generate_series(0, wanted - 1) p;
    return coalesce(new_position, last_position);
end
$$;
