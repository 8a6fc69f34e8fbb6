"""Pod templates of users, without what a host denies unless it is granted.

The rules name what may stay. A rule is "any"; "false", "zero" or "empty" for that value alone; ["in", …] for these
texts; a dictionary of rules for fields, of which `a*` are those that begin with `a`, and `^/` those without any of the
characters that follow; ["each", rule] for the elements of a list; ["whole", rule] for what obeys the rule altogether,
since its rest would mean something else; or the name of another rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hotshoe.answer import Reject
from hotshoe.harmless_rules import RULES

_VALUES = {"false": False, "zero": 0, "empty": ""}
_NOTHING = object()


def harmless(template: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return a Pod template of a user as a host admits it without any grant for Pods, and what was removed for that.

    The latter are paths such as `spec.volumes[0].hostPath`: say them in a condition. A variable, a volume or a probe of
    which a field is removed goes altogether, and with a volume its mounts. Each container then says
    `allowPrivilegeEscalation: false`, and the Pod `automountServiceAccountToken: false`, which a host requires.
    """
    removed: list[str] = []
    kept = _allowed("template", template, "", removed)
    if kept is _NOTHING:
        return {}, removed
    if "spec" in kept:
        _close(kept["spec"], template["spec"])
    return kept, removed


def require_harmless(template: Mapping[str, Any], field: str) -> dict[str, Any]:
    """Return a Pod template of a user as `harmless` does, if nothing has to be removed from it.

    Otherwise the parent is rejected, with what to remove from this field, such as `spec.template`.
    """
    kept, removed = harmless(template)
    if removed:
        raise Reject(f"remove {', '.join(removed)}", field)
    return kept


def _close(spec: dict[str, Any], before: Mapping[str, Any]) -> None:
    """Say what is open by default, and remove the mounts of volumes that are not there any more."""
    spec["automountServiceAccountToken"] = False
    left = _names(spec.get("volumes"))
    gone = [name for name in _names(before.get("volumes")) if name not in left]
    for container in [*spec.get("containers", []), *spec.get("initContainers", [])]:
        container["securityContext"] = {**container.get("securityContext", {}), "allowPrivilegeEscalation": False}
        for mounts in ("volumeMounts", "volumeDevices"):
            if isinstance(container.get(mounts), list):
                container[mounts] = [one for one in container[mounts] if _name(one) not in gone]


def _allowed(rule: Any, value: Any, path: str, removed: list[str]) -> Any:
    """Return what may stay of a value, or `_NOTHING`."""
    if isinstance(rule, str) and rule in RULES:
        return _allowed(RULES[rule], value, path, removed)
    word = rule[0] if isinstance(rule, list) else None
    if word == "whole":
        before = len(removed)
        kept = _allowed(rule[1], value, path, removed)
        return kept if len(removed) == before else _NOTHING
    if word == "each" and isinstance(value, list):
        elements = [_allowed(rule[1], one, f"{path}[{at}]", removed) for at, one in enumerate(value)]
        return [one for one in elements if one is not _NOTHING]
    if isinstance(rule, Mapping) and isinstance(value, Mapping):
        return _members(rule, value, path, removed)
    if rule == "any" or (word == "in" and value in rule[1:]) or _is(rule, value):
        return value
    removed.append(path)
    return _NOTHING


def _is(rule: Any, value: Any) -> bool:
    """Return whether a rule names this value; `False` is not 0."""
    if not isinstance(rule, str) or rule not in _VALUES:
        return False
    return type(value) is type(_VALUES[rule]) and bool(value == _VALUES[rule])


def _members(rules: Mapping[str, Any], values: Mapping[str, Any], path: str, removed: list[str]) -> dict[str, Any]:
    members = {}
    for key, value in values.items():
        if value is None:
            # The API server takes null for a field that is not there.
            continue
        at = f"{path}.{key}" if path else key
        rule = next((rule for pattern, rule in rules.items() if _matches(pattern, key)), None)
        if rule is None:
            removed.append(at)
            continue
        kept = _allowed(rule, value, at, removed)
        if kept is not _NOTHING:
            members[key] = kept
    return members


def _matches(pattern: str, key: str) -> bool:
    if pattern.startswith("^"):
        return not any(letter in key for letter in pattern[1:])
    return key.startswith(pattern[:-1]) if pattern.endswith("*") else key == pattern


def _names(volumes: Any) -> list[Any]:
    return [_name(one) for one in volumes if _name(one) is not None] if isinstance(volumes, list) else []


def _name(one: Any) -> Any:
    return one.get("name") if isinstance(one, Mapping) else None
