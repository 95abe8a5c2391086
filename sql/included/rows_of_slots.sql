-- Reads the slots of `scan`: for each slot the number of rows to read, and the due date at which the scan begins. After
-- that, reads the rows, without locks.
slots as materialized (
    select
        s.slot,
        greatest(1, scan.timers * scan.step / 840) as share,
        -- The start of the slot's scan: docs/decisions/0023-fired-rows-that-stay.md.
        greatest(
            scan.since,
            case
                when (s.slot - :full_from::integer + 840) % 840 >= :full_count::integer
                then coalesce(:now::timestamptz, now())
                    - case when exists (select from freed) then greatest(:recent, 2 * :lease) else :recent end
            end,
            '-infinity'
        ) as since
    from scan
    cross join lateral generate_series(scan.first_slot, scan.last_slot, scan.step) as s (slot)
    -- The order is random: otherwise a batch that is smaller than the number of slots would always come from the same
    -- slots.
    order by case when scan.timers < 840 then random() end
),
seen as materialized (
    -- This query takes no locks: docs/decisions/0021-no-lock-before-a-delete.md.
    select d.timer_key, d.due_date, d.touched, s.slot, s.share
    from slots s
    cross join lateral (
        -- A row's xmax is the number of the last transaction that locked the row, even after the end of this
        -- transaction.
        select t.timer_key, t.due_date, t.xmax <> '0' as touched
        from shardclock.timers t
        -- include: included/free_and_due.sql
        order by t.due_date
        limit s.share
    ) d
    where not (select scan.is_sweep from scan)
    limit (select scan.timers from scan)
),
