"""An expression's language is declared, or shown by its first characters (= or ${), or the language of the model."""

import pytest

from shardclock_server.bpmn.model import read_model
from tests.support.bpmn import job, model
from tests.support.bpmn_parts import START, choosing, refusal

LANGUAGES = [
    "http://www.w3.org/1999/XPath",
    "http://www.w3.org/TR/XPath",
    "http://www.mvel.org/2.0",
    "http://groovy.codehaus.org/",
    "http://java.sun.com/products/jsp/",
    "juel",
]


def in_language(text: bytes, language: str) -> bytes:
    """Set a model's default language at its root."""
    return text.replace(b"<definitions", f'<definitions expressionLanguage="{language}"'.encode(), 1)


def condition_of(text: bytes) -> str | None:
    """Return the condition of the gateway's first flow."""
    condition = read_model(text)[0].nodes["g"].outgoing[0].condition
    return None if condition is None else condition.text


@pytest.mark.parametrize("language", [*LANGUAGES, "", "https://www.omg.org/spec/FEEL"])
@pytest.mark.parametrize("text", ["=approved", "${approved}", " #{approved} "])
def test_the_models_language_does_not_apply_to_an_expression_with_a_sign_of_feel_or_juel(
    text: str, language: str
) -> None:
    condition = f"<conditionExpression>{text}</conditionExpression>"
    assert condition_of(in_language(choosing(condition), language)) == "approved"


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_models_language_applies_to_an_expression_without_a_sign(language: str) -> None:
    (sentence,) = refusal(in_language(choosing("<conditionExpression>approved</conditionExpression>"), language))
    assert sentence.startswith(
        f"f: the language of conditionExpression is {language!r}; write the text in FEEL, after an ="
    )
    loop = (
        "<multiInstanceLoopCharacteristics><loopCardinality>2</loopCardinality>"
        "<completionCondition{}>done</completionCondition></multiInstanceLoopCharacteristics>"
    )
    (told,) = refusal(in_language(model(START + job("a", loop.format("")), connected="s>a"), language))
    assert told.startswith("a: the language of completionCondition is")
    assert read_model(in_language(model(START + job("a", loop.format(' language="feel"')), connected="s>a"), language))


@pytest.mark.parametrize("language", ["", "feel", "http://www.omg.org/spec/FEEL/20140401"])
def test_an_expression_without_a_language_or_in_feel_is_feel(language: str) -> None:
    plain = choosing("<conditionExpression>approved</conditionExpression>")
    assert condition_of(in_language(plain, language)) == "approved"
    own = f'<conditionExpression language="{language}">approved</conditionExpression>'
    assert condition_of(choosing(own)) == "approved"
