-- Checks an ISO 8601 duration, and returns its average length in days.
--
-- in:    given text
-- out:   refusal text, average_days numeric
-- locks: nothing
-- index: none
create or replace function shardclock.judged_duration(given text, out refusal text, out average_days numeric)
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    plain text := case when length(given) <= 100 then shardclock.plain_length(given) else '' end;
    form constant text := '^P(?:([0-9]+)Y)?(?:([0-9]+)M)?(?:([0-9]+)W)?(?:([0-9]+)D)?'
        '(?:T(?=[0-9])(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+)S)?)?$';
    fraction text[] := regexp_match(plain, 'T.*[0-9][.,]([0-9]+)([HMS])$');
    whole text := case when fraction is null then plain else regexp_replace(plain, '[.,][0-9]+([HMS])$', E'\\1') end;
    parts text[] := case when whole <> 'P' then regexp_match(whole, form) end;
    n numeric[];
begin
    if parts is null then
        refusal := shardclock.shown(given) || case
            when plain like '%-%' and replace(whole, '-', '') ~ form and replace(whole, '-', '') <> 'P'
                then ' has a minus sign, and nothing is due before now; write a duration without it'
            else ' is not an ISO 8601 duration; write one such as PT15M, P1DT12H or PT0.5S'
        end;
        return;
    end if;
    n := array(select coalesce(p.part, '0')::numeric from unnest(parts) with ordinality as p (part, number) order by number);
    average_days := (n[1] * 12 + n[2]) * 30.436875 + n[3] * 7 + n[4] + (
        n[5] * 3600 + n[6] * 60 + n[7] + coalesce(
            ('0.' || fraction[1])::numeric * case fraction[2] when 'H' then 3600 when 'M' then 60 else 1 end, 0
        )
    ) / 86400;
    if average_days >= 3652425 then
        refusal := shardclock.shown(given) || ' is too long; a duration must be shorter than 10,000 years';
    end if;
end
$$;

comment on function shardclock.judged_duration is
    'Internal: Returns the refusal of a duration; otherwise its average length in days.';
