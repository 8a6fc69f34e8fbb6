"""The answer as it crosses to the host: checked, and its objects as JSON text.

What has the wrong type would trap without a word further down, so it is found here, and the message says where.
The records are named as in the contract, so that they cross as they are.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, get_args

from hotshoe.answer import Condition, Decision, Event, FieldError, Reason, Requirement, Verdict
from hotshoe.kind import Kind


class ResourceKind:
    """A kind as it crosses."""

    __slots__ = ("group", "version", "kind")

    def __init__(self, kind: Kind) -> None:
        self.group = kind.group
        self.version = kind.version
        self.kind = kind.kind


class ObjectRef:
    """The name of an object as it crosses."""

    __slots__ = ("kind", "namespace", "name")

    def __init__(self, kind: ResourceKind, namespace: str | None, name: str) -> None:
        self.kind = kind
        self.namespace = namespace
        self.name = name


class Object:
    """An object as it crosses."""

    __slots__ = ("ref", "json")

    def __init__(self, ref: ObjectRef, json: str) -> None:
        self.ref = ref
        self.json = json


class Enumerator:
    """A member of an enum as it crosses: its position."""

    __slots__ = ("value",)

    def __init__(self, value: int) -> None:
        self.value = value


TRUE, FALSE, UNKNOWN = map(Enumerator, range(3))
SEVERITIES = {"Normal": Enumerator(0), "Warning": Enumerator(1)}


class WireCondition:
    """A condition as it crosses."""

    __slots__ = ("name", "status", "reason", "message")

    def __init__(self, condition: Condition) -> None:
        if not isinstance(condition, Condition):
            raise TypeError(f"conditions: {shown(condition)} is no Condition")
        if condition.status is not None and not isinstance(condition.status, bool):
            where = f"the status of the condition {condition.type}"
            raise TypeError(f"{where} is {shown(condition.status)} instead of True, False or None")
        self.name = _text(condition.type, "the type of a condition")
        self.status = UNKNOWN if condition.status is None else TRUE if condition.status else FALSE
        self.reason = _text(condition.reason, f"the reason of the condition {condition.type}")
        self.message = _text(condition.message, f"the message of the condition {condition.type}")


class WireEvent:
    """An Event as it crosses."""

    __slots__ = ("severity", "reason", "message")

    def __init__(self, event: Event) -> None:
        if not isinstance(event, Event):
            raise TypeError(f"events: {shown(event)} is no Event")
        severity = SEVERITIES.get(event.severity)
        if severity is None:
            raise ValueError(f"the severity of the Event {event.reason} is {event.severity!r} instead of Normal or Warning")
        self.severity = severity
        self.reason = _text(event.reason, "the reason of an Event")
        self.message = _text(event.message, f"the message of the Event {event.reason}")


class WireRequirement:
    """A requirement as it crosses."""

    __slots__ = ("key", "kind", "namespace", "name")

    def __init__(self, requirement: Requirement) -> None:
        if not isinstance(requirement, Requirement) or not isinstance(requirement.kind, Kind):
            raise TypeError(f"Needs: {shown(requirement)} is no Requirement of a Kind")
        self.key = _text(requirement.key, "the key of a Requirement")
        self.kind = ResourceKind(requirement.kind)
        namespace = requirement.namespace
        self.namespace = None if namespace is None else _text(namespace, "the namespace of a Requirement")
        self.name = _subject(requirement)


def _subject(requirement: Requirement) -> str:
    """Return the name, or the selector as it crosses: behind `?`, with which no name begins."""
    if requirement.selector is not None:
        return "?" + _text(requirement.selector, "the selector of a Requirement")
    return _text(requirement.name, "the name of a Requirement")


REASONS: tuple[Reason, ...] = get_args(Reason)
_REASONS: dict[Any, Enumerator] = {reason: Enumerator(at) for at, reason in enumerate(REASONS)}


class WireFieldError:
    """A field that is wrong, as it crosses."""

    __slots__ = ("field", "reason", "message")

    def __init__(self, error: FieldError) -> None:
        if not isinstance(error, FieldError):
            raise TypeError(f"errors: {shown(error)} is no FieldError")
        self.field = _text(error.field, "the field of a FieldError")
        reason = _REASONS.get(error.reason)
        if reason is None:
            raise ValueError(f"the reason of the error in {error.field} is {error.reason!r} instead of one of {', '.join(REASONS)}")
        self.reason = reason
        self.message = _text(error.message, f"the message of the error in {error.field}")


class WireVerdict:
    """A verdict as it crosses."""

    __slots__ = ("errors", "warnings")

    def __init__(self, verdict: Verdict) -> None:
        self.errors = [WireFieldError(it) for it in _list(verdict.errors, "errors")]
        self.warnings = [_text(it, "a warning") for it in _list(verdict.warnings, "warnings")]


class WireDecision:
    """A decision about the parent of this reference as it crosses. `children` is a list of objects or `None`."""

    __slots__ = ("children", "status", "conditions", "events", "requeue_after")

    def __init__(self, decision: Decision, parent: Any = None) -> None:
        children = decision.children
        self.children: Any = None if children is None else [_child(*at) for at in enumerate(_list(children, "children"))]
        metadata = _parent_metadata(decision)
        if metadata:
            if self.children is None:
                raise ValueError("a Decision without children cannot label or annotate the parent: name the children")
            self.children.append(_of_parent(parent, metadata))
        self.status = None if decision.status is None else _status(decision.status)
        self.conditions = [WireCondition(it) for it in _list(decision.conditions, "conditions")]
        self.events = [WireEvent(it) for it in _list(decision.events, "events")]
        self.requeue_after = milliseconds(decision.requeue_after, "requeue_after")


def milliseconds(time: timedelta | float | None, what: str) -> int | None:
    """Return a time in milliseconds. The host clamps it to its own bounds."""
    if time is None:
        return None
    if isinstance(time, timedelta):
        time = time.total_seconds()
    if isinstance(time, bool) or not isinstance(time, (int, float)):
        raise TypeError(f"{what} is {shown(time)} instead of a timedelta or seconds")
    if not 0 <= time < 1e15:
        raise ValueError(f"{what} is {time} seconds: it must not be negative, and not endless")
    return round(time * 1000)


def text(value: Any, where: str) -> str:
    """Return a value as JSON text.

    Raises `TypeError` or `ValueError` with the path to what is no JSON value.
    """
    try:
        return _encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        wrong = _first_wrong(value, where, 0)
        raise type(error)(wrong or f"{where}: {error}") from None


def unnamed(object: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object without what its reference has."""
    return {key: value for key, value in object.items() if key not in ("apiVersion", "kind")}


_KINDS: dict[tuple[str, str], ResourceKind] = {}


def _child(index: int, child: Any) -> Object:
    where = f"children[{index}]"
    if not isinstance(child, Mapping):
        raise TypeError(f"{where} is {shown(child)} instead of a manifest: a dict with apiVersion, kind and metadata.name")
    metadata = child.get("metadata")
    if not isinstance(metadata, Mapping):
        raise TypeError(f"{where}.metadata is {shown(metadata)} instead of a dict with a name")
    if metadata.get("name") is None and "generateName" in metadata:
        raise TypeError(f"{where}.metadata.generateName would make another object at each decision; set metadata.name")
    names = [child.get("apiVersion"), child.get("kind"), metadata.get("name")]
    for key, name in zip(("apiVersion", "kind", "metadata.name"), names, strict=True):
        if not isinstance(name, str) or not name:
            raise TypeError(f"{where}.{key} is {shown(name)} instead of a text")
    api_version, kind, name = names
    named = _KINDS.get((api_version, kind))
    if named is None:
        named = _KINDS[api_version, kind] = ResourceKind(Kind(api_version, kind))
    namespace = metadata.get("namespace")
    if namespace is not None:
        _text(namespace, f"{where}.metadata.namespace")
    return Object(ObjectRef(named, namespace, name), text(child, where))


def _parent_metadata(decision: Decision) -> dict[str, dict[str, str]]:
    """Return the labels and annotations that are stated of the parent."""
    stated = {"labels": decision.parent_labels, "annotations": decision.parent_annotations}
    for member, texts in stated.items():
        if not isinstance(texts, Mapping):
            raise TypeError(f"parent_{member} is {shown(texts)} instead of a dict")
        for key, value in texts.items():
            _text(key, f"a key of parent_{member}")
            _text(value, f"parent_{member}[{key!r}]")
    return {member: dict(texts) for member, texts in stated.items() if texts}


def _of_parent(parent: Any, metadata: Mapping[str, Any]) -> Object:
    """Return the parent as one of the desired objects, which is the form of the contract."""
    kind = parent.kind
    named = {"name": parent.name} if parent.namespace is None else {"name": parent.name, "namespace": parent.namespace}
    api_version = f"{kind.group}/{kind.version}" if kind.group else kind.version
    manifest = {"apiVersion": api_version, "kind": kind.kind, "metadata": {**named, **metadata}}
    ref = ObjectRef(ResourceKind(Kind(api_version, kind.kind)), parent.namespace, parent.name)
    return Object(ref, text(manifest, "the parent"))


def _status(status: Any) -> str:
    if not isinstance(status, Mapping) and not dataclasses.is_dataclass(status):
        raise TypeError(f"status is {shown(status)} instead of a dict or a dataclass")
    return text(status, "status")


def _list(values: Any, where: str) -> list[Any]:
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise TypeError(f"{where} is {shown(values)} instead of a list")
    return list(values)


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{where} is {shown(value)} instead of a text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{where} is no valid Unicode: {value!r}") from None
    return value


def shown(value: Any) -> str:
    """Return a value in a few words, for an error."""
    if value is None:
        return "None"
    shown = repr(value) if isinstance(value, (str, int, float, bool)) else type(value).__name__
    return f"{shown[:60]}…" if len(shown) > 60 else shown


def _plain(value: Any) -> Any:
    """Called by the encoder for what JSON does not know."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{shown(value)} is no JSON value")


# As `json.dumps` with these options, whose encoder is made anew at each call. Escapes keep any text valid.
_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False, default=_plain).encode


def _first_wrong(value: Any, path: str, depth: int) -> str | None:
    """Say where in a value the first thing is that is no JSON value. Costs a second look, which only an error pays for."""
    if depth > 100:
        return f"{path}: it is nested too deeply, or contains itself"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = _plain(value)
    if isinstance(value, Mapping):
        for key, member in value.items():
            if not isinstance(key, (str, int, float, bool, type(None))):
                return f"{path}: {shown(key)} is no key of a JSON object"
            if wrong := _first_wrong(member, f"{path}.{key}", depth + 1):
                return wrong
        return None
    if isinstance(value, (list, tuple)):
        wrongs = (_first_wrong(member, f"{path}[{at}]", depth + 1) for at, member in enumerate(value))
        return next(filter(None, wrongs), None)
    if isinstance(value, float) and not abs(value) < float("inf"):
        return f"{path} is {value}, which is no JSON value"
    if value is None or isinstance(value, (str, int, float)):
        return None
    return f"{path} is a {type(value).__name__}, which is no JSON value"
