-- Returns the refusal if a text has a time with a zone after an @, as in FEEL; otherwise null.
--
-- in:    given text
-- out:   text
-- locks: nothing
-- index: none
-- needs: shown
create or replace function shardclock.at_sign_refusal(given text)
returns text
language sql
immutable
begin atomic
    select format(
        '%s has a zone after an @; write it in brackets, as in %s[Europe/Berlin]', shardclock.shown(given), m.match[1]
    )
    from regexp_match(
        left(given, 300), '([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.,]{4,30})[^/@]{0,9}@'
    ) as m (match)
    where m.match is not null;
end;

comment on function shardclock.at_sign_refusal is
    'Internal: Refuses a time with a zone after an @, as in FEEL; null: the text has no zone after an @.';
