-- The columns of the next occurrence of the schedule `f`: by the rule (`mine`), or as it was before a run on request.
mine.fires,
-- After a run on request, the next occurrence has the due date from before the run; its own firing handles missed
-- occurrences.
case when f.kept_due_date is null then mine.skipped when mine.fires then 0 else 1 end as skipped,
case when f.kept_due_date is null then mine.next_occurrence else f.occurrence + 1 end as next_occurrence,
coalesce(f.kept_due_date, mine.next_due_date) as next_due_date,
case when f.kept_due_date is null then mine.next_anchor else f.anchor end as next_anchor,
case when f.kept_due_date is null then mine.next_anchor_occurrence else f.anchor_occurrence end as next_anchor_occurrence
