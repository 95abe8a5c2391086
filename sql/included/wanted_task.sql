-- Restricts the tasks `t` to the tasks that match the filter.
and (not :unassigned::boolean or t.assignee is null)
and (:candidate_user::text is null or :candidate_user = any (t.candidate_users))
and (:process_id::text is null or t.process_id = :process_id)
and case
    when :for_user::text is null
        then :candidate_groups::text[] is null or t.candidate_groups && :candidate_groups
    when t.assignee is not null then t.assignee = :for_user
    else :for_user = any (t.candidate_users) or t.candidate_groups && :candidate_groups
end
