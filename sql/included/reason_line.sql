-- The first line of a dead letter's reason, without the number of the last attempt.
regexp_replace(split_part(d.reason, chr(10), 1), ' \(attempt [0-9]+ of [0-9]+\)$', '')
