-- Records the begin and the end of each hold. A trigger calls it, so that holds from every interface are recorded.
--
-- If the reason changes during a hold, the function records the end of one hold and the begin of another hold.
--
-- in:    nothing
-- out:   trigger
-- locks: nothing
-- index: none
create or replace function shardclock.keep_hold()
returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    place integer := jsonb_array_length(new.holds) - 1;
begin
    if old.held_why is not null and place >= 0 then
        new.holds := jsonb_set(new.holds, array[place::text, 'ended_at'], to_jsonb(clock_timestamp()));
    end if;
    if new.held_why is not null then
        new.holds := new.holds || jsonb_build_object('why', new.held_why, 'began_at', clock_timestamp());
    end if;
    if jsonb_array_length(new.holds) > 50 then
        new.holds := new.holds - 0;
    end if;
    return new;
end
$$;
