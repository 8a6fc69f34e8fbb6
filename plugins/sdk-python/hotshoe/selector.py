"""Label selectors, as a requirement carries them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_WORD = re.compile(r"[-A-Za-z0-9_./]*")
_WITH_VALUES = {"In": "in", "NotIn": "notin"}
_WITHOUT_VALUES = {"Exists": "", "DoesNotExist": "!"}


def selector_text(selector: str | Mapping[str, Any]) -> str:
    """Return a selector as kubectl writes it: a text as it is, or what a `LabelSelector` of Kubernetes says.

    A `ValueError` says what is wrong with it.
    """
    if isinstance(selector, str):
        return selector
    if not isinstance(selector, Mapping) or not selector.keys() <= {"matchLabels", "matchExpressions"}:
        raise ValueError("it has matchLabels and matchExpressions, and nothing else")
    labels, expressions = selector.get("matchLabels") or {}, selector.get("matchExpressions") or []
    if not isinstance(labels, Mapping) or not isinstance(expressions, list):
        raise ValueError("matchLabels is an object, and matchExpressions a list")
    equal = [f"{_word(key)}={_word(value)}" for key, value in sorted(labels.items())]
    return ",".join([*equal, *map(_expression, expressions)])


def _expression(expression: Any) -> str:
    if not isinstance(expression, Mapping) or not expression.keys() <= {"key", "operator", "values"}:
        raise ValueError("an expression has key, operator and values, and nothing else")
    key, operator, values = _word(expression.get("key")), expression.get("operator"), expression.get("values") or []
    if operator in _WITH_VALUES and isinstance(values, list) and values:
        return f"{key} {_WITH_VALUES[operator]} ({','.join(map(_word, values))})"
    if operator in _WITHOUT_VALUES and not values:
        return _WITHOUT_VALUES[operator] + key
    raise ValueError(f"In and NotIn of {key} take a list of values, Exists and DoesNotExist none; it has {operator!r}")


def _word(text: Any) -> str:
    """Return a key or a value that cannot be mistaken for more than one. Whether it is valid, the host says."""
    if isinstance(text, str) and _WORD.fullmatch(text):
        return text
    raise ValueError(f"{text!r} is no key and no value of a label")
