-- True if the reason of the row `d`, a dead letter or a delivery, begins with the given line. Without a given line, it
-- is true for each row.
(
    :reason_line::text is null
    or (
        select
            -- include: included/reason_line.sql
        from (select :reason_line::text as reason) d
    ) =
    -- include: included/reason_line.sql
)
