-- True if the reason of the dead letter or delivery `d` has the given first line, or if no line is given.
(
    :reason_line::text is null
    or (
        select
            -- include: included/reason_line.sql
        from (select :reason_line::text as reason) d
    ) =
    -- include: included/reason_line.sql
)
