-- Restricts the dead letters `d` to the letters that a bulk change selects.
where (:target::text is null or d.target = :target)
    and (:tenant_id::text is null or d.tenant_id = :tenant_id)
    and d.died_at < coalesce(:died_before::timestamptz, 'infinity')
    and (
        :reason_line::text is null
        or regexp_replace(:reason_line, ' \(attempt [0-9]+ of [0-9]+\)$', '') =
        -- include: reason_line.sql
    )
