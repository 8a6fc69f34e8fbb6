"""Versions of a kind: functions from the form of one version to that of another."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from hotshoe import trace, wire

Convert = Callable[[dict[str, Any], dict[str, str]], Mapping[str, Any]]


class Conversions:
    """Functions between versions of a kind. Others may lead from one version to another."""

    def __init__(self) -> None:
        self._functions: dict[str, dict[str, Convert]] = {}

    def __bool__(self) -> bool:
        return bool(self._functions)

    def add(self, old: str, new: str, function: Convert) -> None:
        """Add a function from one version to another."""
        self._functions.setdefault(old, {})[new] = function

    def check(self, watched: str) -> None:
        """Raise `TypeError` unless a way leads from each version, the watched one among them, to each other one."""
        versions = {watched, *self._functions, *(new for others in self._functions.values() for new in others)}
        for old in sorted(versions):
            for new in sorted(versions):
                self._way(old, new)

    def convert(self, text: str, old: str, new: str) -> str:
        """Return the JSON text of an object as it is in another version."""
        for function in self._way(old, new):
            text = _converted(function, json.loads(text))
        return text

    def _way(self, old: str, new: str) -> list[Convert]:
        """Return the fewest functions that lead from one version to another."""
        seen = {old}
        ways: list[tuple[str, list[Convert]]] = [(old, [])]
        # It grows while it is walked.
        for at, way in ways:
            if at == new:
                return way
            for version, function in self._functions.get(at, {}).items():
                if version not in seen:
                    seen.add(version)
                    ways.append((version, [*way, function]))
        raise TypeError(
            f"no conversion leads from {old} to {new}: define one with @plugin.convert({old!r}, {new!r}), or others that "
            f"lead there"
        )


def _converted(function: Convert, object: dict[str, Any]) -> str:
    metadata = object["metadata"]
    annotations = metadata["annotations"] = metadata.get("annotations") or {}
    answer = function(object, annotations)
    where = f"the answer of {trace.named(function)}"
    if not isinstance(answer, Mapping):
        raise TypeError(f"{where} is {wire.shown(answer)} instead of a dict, the object in the other version")
    converted = wire.unnamed(answer)
    converted["metadata"] = _metadata(answer.get("metadata", metadata), where)
    return wire.text(converted, where)


def _metadata(metadata: Any, where: str) -> dict[str, Any]:
    """Return the metadata without annotations if there are none."""
    if not isinstance(metadata, Mapping):
        raise TypeError(f"{where}: metadata is {wire.shown(metadata)} instead of a dict")
    others = {key: value for key, value in metadata.items() if key != "annotations"}
    annotations = metadata.get("annotations") or {}
    for key, value in annotations.items():
        if not isinstance(value, str):
            raise TypeError(f"{where}: the annotation {key} is {wire.shown(value)} instead of a text")
    return {**others, "annotations": annotations} if annotations else others
