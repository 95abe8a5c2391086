-- Returns whether JSON is nested deeper than 100 levels.
--
-- Each interface has this limit, in Python too (timers/payload.py). A client that can't decode one row can't read the
-- whole response.
--
-- in:    document jsonb
-- out:   boolean
-- locks: nothing
-- index: none
create or replace function shardclock.is_too_deep(document jsonb)
returns boolean
language sql
immutable
begin atomic
    -- The root is at level 0, so a list or an object at level 100 is one level too deep.
    select coalesce(
        jsonb_path_exists(document, 'strict $.**{100} ? (@.type() == "array" || @.type() == "object")'), false
    );
end;

comment on function shardclock.is_too_deep is 'Internal: Returns whether JSON is nested deeper than 100 levels.';
