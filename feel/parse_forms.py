"""Parse operands: literals, names, lists, contexts, ranges, calls, `if`, `for` and functions."""

from __future__ import annotations

from typing import Literal

from shardclock_server.feel.names import KEYWORDS
from shardclock_server.feel.parse_literals import parse_at_literal, parse_number
from shardclock_server.feel.parse_names import parse_argument_name, parse_key, parse_known_name, parse_new_name
from shardclock_server.feel.parse_types import parse_type
from shardclock_server.feel.source import Source
from shardclock_server.feel.syntax import (
    Condition,
    Constant,
    ContextOf,
    FeelType,
    FilterExpression,
    FunctionOf,
    Invocation,
    Iteration,
    ListOf,
    Name,
    Node,
    Path,
    RangeOf,
    UnaryTest,
)
from shardclock_server.timers.refusal import shortened

COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")
CONSTANTS = {"null": None, "true": True, "false": False}
# Signs that may begin an expression. If any other sign follows a [, the bracket ends a range.
STARTS = ("(", "[", "{", "-", "@")
DOMAINS_MAX = 10
ENTRIES_MAX = 1_000
PARAMETERS_MAX = 50
VALUE_WORDS = frozenset({"every", "false", "for", "function", "if", "null", "some", "true"})


def parse_operand(source: Source) -> Node:
    """Parse one operand with the paths, filters and calls that follow the operand."""
    node = _primary(source)
    while source.token.kind == "sign":
        if source.at("."):
            source.take()
            node = Path(node, parse_key(source))
        elif source.at("[") and not _ends_range(source):
            source.take()
            node = FilterExpression(node, source.expression())
            source.expect("]", "after a filter")
        elif source.at("("):
            node = _call(source, node)
        else:
            break
    return node


def parse_test(source: Source) -> Node:
    """Parse the right side of `in`: a comparison without its left side, or any operation."""
    if source.at(*COMPARISONS):
        operator = source.take().text
        return UnaryTest(operator, source.operation())
    if source.at("not") and source.ahead().text == "(":
        source.refuse("not(…) to the right of in is not supported; write not(x in …)")
    return source.operation()


def parse_tests(source: Source) -> tuple[Node, ...]:
    """Parse the tests within parentheses after `in`, or a range that begins with a parenthesis."""
    source.take()
    tests = [_listed_test(source)]
    if source.at(".."):
        return (_range(source, tests[0], has_start=False),)
    while source.taken(","):
        tests.append(_listed_test(source))
    source.expect(")", "after the tests of in")
    return tuple(tests)


def _listed_test(source: Source) -> Node:
    return parse_test(source) if source.at("not", *COMPARISONS) else source.expression()


def _primary(source: Source) -> Node:
    token = source.token
    match token.kind:
        case "number":
            return parse_number(source)
        case "text":
            source.take()
            return Constant(token.text)
        case "quoted":
            source.take()
            return Name(token.text, token.position)
        case "word":
            return _word(source)
        case "sign":
            return _bracketed(source)
        case "end":
            return source.refuse(
                "the text ends where a value is expected; write a value, or remove the operator before it"
            )


def _word(source: Source) -> Node:
    token = source.token
    if (name := parse_known_name(source)) is not None:
        return Name(name, token.position)
    source.take()
    match token.text:
        case "null" | "true" | "false":
            return Constant(CONSTANTS[token.text])
        case "if":
            return _condition(source)
        case "for" | "some" | "every":
            return _loop(source, token.text)
        case "function":
            return _function(source)
    if token.text in KEYWORDS:
        source.refuse(f"{shortened(token.text)} stands where a value is expected; write a value before it", token)
    return Name(token.text, token.position)


def _bracketed(source: Source) -> Node:
    token = source.take()
    match token.text:
        case "(":
            return _parenthesized(source)
        case "[":
            return _list(source)
        case "]":
            return _range(source, source.expression(), has_start=False)
        case "{":
            return _context(source)
        case "@":
            return parse_at_literal(source)
    source.index -= 1
    return source.refuse(f"{source.found()} where a value is expected; write a value before it, or leave it out")


def _parenthesized(source: Source) -> Node:
    if source.at(*COMPARISONS):
        node = parse_test(source)
    else:
        node = source.expression()
        if source.at(".."):
            return _range(source, node, has_start=False)
    source.expect(")", "after what ( begins")
    return node


def _list(source: Source) -> Node:
    if source.taken("]"):
        return ListOf(())
    items = [source.expression()]
    if source.at(".."):
        return _range(source, items[0], has_start=True)
    while source.taken(","):
        items.append(source.expression())
    source.expect("]", "after the items of a list")
    return ListOf(tuple(items))


def _range(source: Source, start: Node, *, has_start: bool) -> RangeOf:
    source.expect("..", "between the ends of a range; write [1..10]")
    end = source.expression()
    if not source.at("]", ")", "["):
        source.refuse("this range is not closed; write [1..10], or [1..10) to exclude 10")
    return RangeOf(start, end, has_start, has_end=source.take().text == "]")


def _ends_range(source: Source) -> bool:
    """Return whether a [ ends a range, as in [1..10[. If a [ ends a range, the next token can't begin an expression."""
    after = source.ahead()
    if after.kind == "sign":
        return after.text not in STARTS
    return after.kind == "end" or (after.kind == "word" and after.text in KEYWORDS - VALUE_WORDS)


def _context(source: Source) -> ContextOf:
    entries: dict[str, Node] = {}
    while not source.at("}"):
        token = source.token
        key = source.take().text if token.kind in {"text", "quoted"} else parse_new_name(source, ":")
        if key in entries:
            source.refuse(f"the key {shortened(key)} is there twice; leave one out", token)
        source.expect(":", "between a key and its value; write {key: value}")
        entries[key] = source.expression()
        source.add_name(key)
        if len(entries) > ENTRIES_MAX:
            source.refuse(f"a context has more than {ENTRIES_MAX:,} entries here; join several with context merge")
        if not source.taken(","):
            break
    source.expect("}", "after the entries of a context")
    return ContextOf(tuple(entries.items()))


def _condition(source: Source) -> Condition:
    test = source.expression()
    source.expect("then", "after the condition of if; write if a then b else c")
    yes = source.expression()
    source.expect("else", "since each if has one; write else null for nothing")
    return Condition(test, yes, source.expression())


def _loop(source: Source, kind: str) -> Iteration:
    domains: list[tuple[str, Node]] = []
    while not domains or source.taken(","):
        name = source.take().text if source.token.kind == "quoted" else parse_new_name(source, "in")
        source.expect("in", f"after the variable of {kind}; write {kind} x in list")
        source.add_name(name)
        domain = source.expression()
        if source.taken(".."):
            domain = RangeOf(domain, source.expression(), has_start=True, has_end=True, is_bare=True)
        domains.append((name, domain))
        if len(domains) > DOMAINS_MAX:
            source.refuse(f"more than {DOMAINS_MAX} lists stand in one {kind}; write one within another")
    source.expect("return" if kind == "for" else "satisfies", f"after the lists of {kind}")
    loops: dict[str, Literal["for", "some", "every"]] = {"for": "for", "some": "some", "every": "every"}
    return Iteration(loops[kind], tuple(domains), source.expression())


def _function(source: Source) -> FunctionOf:
    source.expect("(", "after function; write function(x) x + 1")
    parameters: list[tuple[str, FeelType | None]] = []
    while not source.at(")"):
        name = source.take().text if source.token.kind == "quoted" else parse_new_name(source, ":", ",", ")")
        source.add_name(name)
        parameters.append((name, parse_type(source) if source.taken(":") else None))
        if len(parameters) > PARAMETERS_MAX:
            source.refuse(f"a function has more than {PARAMETERS_MAX} parameters; pass a context")
        if not source.taken(","):
            break
    source.expect(")", "after the parameters of a function")
    if source.at("external"):
        source.refuse("functions in other languages are not supported; write the function in FEEL")
    return FunctionOf(tuple(parameters), source.expression())


def _call(source: Source, function: Node) -> Invocation:
    position = source.take().position
    arguments: list[Node] = []
    names: list[str] = []
    while not source.at(")"):
        token = source.token
        if name := parse_argument_name(source):
            names.append(name)
        arguments.append(source.expression())
        if names and len(names) != len(arguments):
            source.refuse("some arguments have names and some have none; name all of them or none", token)
        if not source.taken(","):
            break
    source.expect(")", "after the arguments of a call")
    return Invocation(function, tuple(arguments), tuple(names) if names else None, position)
