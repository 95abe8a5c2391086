-- Forgets messages whose time to live has passed.
--
-- in:    :batch integer
-- out:   message_key bigint, of each
-- locks: the rows that it forgets; leaves out rows that others have locked
-- index: messages_by_age
delete from shardclock.messages m
where m.message_key = any (
    array(
        select m.message_key
        from shardclock.messages m
        where m.expires_at <= now()
        order by m.expires_at
        limit :batch::integer
        for update skip locked
    )
)
returning m.message_key
