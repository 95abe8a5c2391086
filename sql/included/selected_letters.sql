-- Restricts the dead letters `d` to the letters that a bulk change selects.
where (:target::text is null or d.target = :target)
    and (:tenant_id::text is null or d.tenant_id = :tenant_id)
    and d.died_at < coalesce(:died_before::timestamptz, 'infinity')
    and
    -- include: included/has_reason_line.sql
