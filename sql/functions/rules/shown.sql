-- Formats a refused text for a message, as timers/refusal.py does.
--
-- Each function in this folder has a counterpart in timers/ with the same refusals in the same words;
-- tests/sql/test_parsing.py compares them.
--
-- in:    given text
-- out:   text
-- locks: nothing
-- index: none
create or replace function shardclock.shown(given text)
returns text
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    quote constant text := case when given like '%''%' and given not like '%"%' then '"' else '''' end;
    back constant text := chr(92);
    written text := replace(left(given, 60), back, back || back);
    code integer;
begin
    if quote = '''' then
        written := replace(written, '''', back || '''');
    end if;
    if written collate "C" ~ '[^ -~]' then
        for code in select c from generate_series(1, 173) c where c < 32 or c between 127 and 160 or c = 173 loop
            written := replace(
                written, chr(code),
                case code
                    when 9 then back || 't' when 10 then back || 'n' when 13 then back || 'r'
                    else back || 'x' || lpad(to_hex(code), 2, '0')
                end
            );
        end loop;
    end if;
    written := quote || written || quote;
    return case when length(given) > 60 or length(written) > 60 then left(written, 59) || chr(8230) else written end;
end
$$;

comment on function shardclock.shown is 'Internal: Formats a refused text for a message: on one line, truncated.';
