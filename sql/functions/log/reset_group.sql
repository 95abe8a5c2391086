-- Moves a group to another place, with as many partitions as before or with another number. Without a place the group
-- keeps its own, if all its partitions have read equally far: only then is each record still done once.
--
-- in:    group_name text, place bigint, partitions integer
-- out:   bigint: the group's place; null: there is no such group
-- locks: the group's rows: waits for members that are working in a transaction; a member with a lease loses it
-- index: consumers_pkey
create or replace function shardclock.reset_group(group_name text, place bigint, partitions integer)
returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    last_place bigint;
    last_drawn bigint;
    wanted integer;
    behind record;
begin
    perform pg_advisory_xact_lock(hashtextextended('shardclock.consumers ' || group_name, 0));
    perform from shardclock.consumers c where c.group_name = reset_group.group_name order by c.partition for update;
    select max(c.position), coalesce(partitions, max(c.partitions)) into last_place, wanted
    from shardclock.consumers c
    where c.group_name = reset_group.group_name;
    if last_place is null then
        return null;
    end if;
    -- The last drawn position too, not only the horizon: the place may be an earlier horizon, and a writer that has
    -- taken its mark since may have lowered it.
    last_drawn := greatest(shardclock.log_horizon(), pg_sequence_last_value('shardclock.position_seq'));
    if place > last_drawn then
        raise exception 'position % is beyond the end of the log, %: '
            'the group would pass over all that comes until then', place, last_drawn
            using errcode = 'invalid_parameter_value';
    end if;
    if place is null then
        select c.partition, l.position into behind
        from shardclock.consumers c
        cross join lateral (
            select l.position
            from shardclock.command_log l
            where l.position > c.position
                and l.position <= last_place
                and l.timer_key % 840 % c.partitions = c.partition
            order by l.position
            limit 1
        ) l
        where c.group_name = reset_group.group_name
        order by l.position
        limit 1;
        if found then
            raise exception 'partition % of group "%" has yet to do record %, and others are at %: '
                'stop the members when the group has read to the end, and try again',
                behind.partition, left(group_name, 60), behind.position, last_place
                using errcode = 'object_not_in_prerequisite_state';
        end if;
    end if;
    delete from shardclock.consumers c where c.group_name = reset_group.group_name;
    insert into shardclock.consumers (group_name, partition, partitions, position)
    select group_name, p, wanted, coalesce(place, last_place)
    from generate_series(0, wanted - 1) p;
    return coalesce(place, last_place);
end
$$;
