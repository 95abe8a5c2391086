-- The first line of a failure's reason, without the number of the last attempt and with `#` for each identifier: reasons
-- that differ only in identifiers belong to one group. There are three kinds of identifiers: a number of
-- at least four digits; a word of at least eight characters with at least two digits; a word with a lower-case letter,
-- `_` or `-`, and digits at its end, such as customer_7. A status code such as HTTP-503 is no identifier. A second
-- replacement changes nothing, so a filter can have the line of a group.
--
-- The lookbehind lets the lookahead begin only once in each word. Without the lookbehind, the time grows with the
-- square of the length: 3 s for a reason of 40 kB.
regexp_replace(
    regexp_replace(split_part(d.reason, chr(10), 1), '( \(attempt [0-9]+ of [0-9]+\))+$', ''),
    '\m\d{4,}\M'
    '|(?<![\w-])(?!(?:HTTPS?|https?|[Ss]tatus|STATUS|[Cc]ode|CODE)[_-]?\d{3}(?![\w-]))(?=[\w-]*\d[\w-]*\d)[\w-]{8,}\M'
    '|(?<![\w-])(?!(?:HTTPS?|https?|[Ss]tatus|STATUS|[Cc]ode|CODE)[_-]?\d{3}(?![\w-]))'
    '(?=[\w-]*[a-z])[\w-]*[_-]\d+(?![\w-])',
    '#', 'g'
)
