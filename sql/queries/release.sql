-- Makes a database that is on hold an installation's own, unless somebody fires on it or its log's order needs mending.
--
-- in:    $1 identity text: the installation, or '' for one without a name
-- out:   one row: name text or null, origin text; or none: it was not released
-- locks: the identity row
-- index: identity_pkey; holders once
update shardclock.identity i
set name = nullif($1, ''), origin = shardclock.origin(), adopted_at = now()
where i.singleton
    and shardclock.held_why($1) is not null
    and not shardclock.log_is_ahead()
    and not exists (
        select from shardclock.holders h
        where h.ended_at is null and h.seen_at > now() - interval '5 s' and shardclock.held_why(h.identity) is null
    )
returning i.name, i.origin
