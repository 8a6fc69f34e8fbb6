"""Run a plugin's logic natively, in `pytest`: no Wasm, no cluster.

    from hotshoe.testing import answer, cases

    def test_one_replica_by_default():
        decision = answer(plugin, {"metadata": {"name": "web"}, "spec": {}})
        assert decision.children[0]["spec"]["replicas"] == 1

    @pytest.mark.parametrize("case", cases("cases"), ids=str)
    def test_case(case):
        case.check(plugin)

As in a component, the plugin is shown only the fields that it asks for. That it has no clock, files or
randomness shows only there: run the component too, in the sandbox of a host. That needs the program `hotshoe`:

    from hotshoe.testing import closed_loop, component_cases

    @pytest.mark.parametrize("case", component_cases("."), ids=str)
    def test_component(case):
        case.check()

    def test_it_settles():
        end = closed_loop(".", {"apiVersion": "example.com/v1", "kind": "Web", "metadata": {"name": "web"}})
        assert end.parent["status"]["ready"] == 1
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from hotshoe import trace, wire
from hotshoe.answer import Decision, Done, FieldError, Needs, Reject, Retry, Verdict, Waiting
from hotshoe.kind import Kind
from hotshoe.plugin import Plugin
from hotshoe.request import Proposal, Request, User, path_keys
from hotshoe.testing_component import ComponentCase, End, closed_loop, component_cases

__all__ = [
    "Case",
    "ComponentCase",
    "End",
    "answer",
    "cases",
    "closed_loop",
    "component_cases",
    "converted",
    "defaulted",
    "proposal",
    "request",
    "verdict",
]

# Every plugin is shown these of every object.
_ALWAYS = ("metadata.name", "metadata.namespace", "metadata.uid", "metadata.generation", "metadata.deletionTimestamp")

Object = Mapping[str, Any]


def request(
    plugin: Plugin,
    parent: Object,
    *,
    children: Iterable[Object] = (),
    related: Mapping[str, Iterable[Object]] | None = None,
    refusals: Iterable[Mapping[str, Any]] = (),
    config: Mapping[str, Any] | None = None,
    now: datetime | int | None = None,
    attempt: int | None = None,
    finalize: bool = False,
) -> Request:
    """Return what a host shows this plugin of these objects, which are as `kubectl get -o yaml` shows them.

    The parent may leave out `apiVersion` and `kind`. `now` is a time or milliseconds since 1970.
    """
    shown = ["spec", *plugin.parent_fields, *(["status.conditions"] if finalize else [])]
    asked = {(owned.api_version, owned.kind): owned.fields for owned in plugin.owns}
    of = {"apiVersion": plugin.parent.api_version, "kind": plugin.parent.kind}
    return Request(
        SimpleNamespace(
            parent=_object({**of, **parent}, shown),
            children=[_object(child, asked.get((child["apiVersion"], child["kind"]), ())) for child in children],
            related=_related(plugin, related or {}),
            refusals=[_refusal(refusal) for refusal in refusals],
            config=json.dumps(config or {}),
            now=round(now.timestamp() * 1000) if isinstance(now, datetime) else now,
            attempt=attempt,
        )
    )


def answer(plugin: Plugin, parent: Object, **observed: Any) -> Decision | Needs:
    """Answer a request, built as `request` does, and check that the answer can be handed to a host.

    `Retry`, `Reject` and any other exception come through.
    """
    shown = request(plugin, parent, **observed)
    answered = plugin.answer("finalize" if observed.get("finalize") else "reconcile", shown)
    _expectation(answered, shown)
    return answered


def proposal(
    plugin: Plugin,
    object: Object,
    *,
    old: Object | None = None,
    config: Mapping[str, Any] | None = None,
    dry_run: bool = False,
    user: User | Mapping[str, Any] | None = None,
) -> Proposal:
    """Return what a host shows this plugin of a parent that is to be stored; with `old`, of an update."""
    kind = wire.ResourceKind(plugin.parent)

    def shown(whole: Object) -> Any:
        metadata = {key: value for key, value in (whole.get("metadata") or {}).items() if key != "managedFields"}
        ref = wire.ObjectRef(kind, metadata.get("namespace"), metadata.get("name", ""))
        return wire.Object(ref, json.dumps({**wire.unnamed(whole), "metadata": metadata}))

    context = SimpleNamespace(
        operation=SimpleNamespace(value=0 if old is None else 1),
        config=json.dumps(config or {}),
        dry_run=dry_run,
        user=User(**user) if isinstance(user, Mapping) else user,
    )
    return Proposal(shown(object), None if old is None else shown(old), context)


def verdict(plugin: Plugin, object: Object, **proposed: Any) -> Verdict:
    """Judge a parent, shown as `proposal` does, and check that the verdict can be handed to a host.

    `Retry`, `Reject` and any other exception come through.
    """
    crossed = wire.WireVerdict(plugin.verdict(proposal(plugin, object, **proposed)))
    errors = [FieldError(it.field, wire.REASONS[it.reason.value], it.message) for it in crossed.errors]
    return Verdict(errors, crossed.warnings)


def defaulted(plugin: Plugin, object: Object, **proposed: Any) -> dict[str, Any]:
    """Return a parent, shown as `proposal` does, with its defaults, without `apiVersion` and `kind`."""
    return json.loads(plugin.defaulted(proposal(plugin, object, **proposed)))


def converted(plugin: Plugin, object: Object, version: str) -> dict[str, Any]:
    """Return an object of any version as the plugin's conversions write it in another one."""
    kind = Kind(object["apiVersion"], object["kind"])
    text = plugin.conversions.convert(json.dumps(wire.unnamed(object)), kind.version, version)
    return {"apiVersion": f"{kind.group}/{version}", "kind": kind.kind, **json.loads(text)}


@dataclass
class Case:
    """A case file: a request and the answer to it."""

    path: Path
    content: Mapping[str, Any]

    def __str__(self) -> str:
        return self.path.stem

    def request(self, plugin: Plugin) -> Request:
        """Return the request of this case as the plugin is shown it."""
        observed = {key: self.content.get(key) for key in ("related", "config", "now", "attempt")}
        lists = {key: self.content.get(key) or () for key in ("children", "refusals")}
        return request(plugin, self.content["parent"], **observed, **lists, finalize=self._call() == "finalize")

    def answer(self, plugin: Plugin) -> dict[str, Any]:
        """Return the plugin's answer in the words of `expect`."""
        try:
            return self._answered(plugin)
        except Retry as retry:
            after = wire.milliseconds(retry.after, "after")
            return {"retry": {"message": str(retry), **({} if after is None else {"afterMs": after})}}
        except Reject as reject:
            return {"reject": {"message": str(reject), **({} if reject.field is None else {"field": reject.field})}}
        except Exception as error:
            return {"other": trace.describe(error)}

    def _answered(self, plugin: Plugin) -> dict[str, Any]:
        call, parent = self._call(), self.content["parent"]
        proposed = {key: self.content.get(key) for key in ("old", "config", "user")}
        if call == "validate":
            return {"verdict": _said(verdict(plugin, parent, **proposed))}
        if call == "default":
            named = {key: parent[key] for key in ("apiVersion", "kind")}
            return {"defaulted": _without_nulls({**named, **defaulted(plugin, parent, **proposed)})}
        shown = self.request(plugin)
        return _expectation(plugin.answer(call, shown), shown)

    def check(self, plugin: Plugin) -> None:
        """Fail where the plugin does not answer as expected."""
        if "refused" in self.content["expect"]:
            # The API server refuses the object, and asks no plugin: `hotshoe test` checks that.
            return
        answered, expected = self.answer(plugin), _normal(self.content["expect"])
        assert answered == expected, f"{self.content['name']}: the answer is {json.dumps(answered, indent=2)}"

    def _call(self) -> str:
        return str(self.content.get("call", "reconcile"))


def cases(folder: str | Path) -> list[Case]:
    """Read the case files in a folder, in the order of their names. Needs PyYAML."""
    import yaml

    paths = sorted(path for path in Path(folder).iterdir() if path.suffix in (".yaml", ".yml"))
    if not paths:
        raise FileNotFoundError(f"{folder} has no cases, which are files *.yaml")
    return [Case(path, yaml.safe_load(path.read_text(encoding="utf-8"))) for path in paths]


def _object(whole: Object, fields: Iterable[str]) -> Any:
    kind = Kind(whole["apiVersion"], whole["kind"])
    metadata = whole["metadata"]
    ref = wire.ObjectRef(wire.ResourceKind(kind), metadata.get("namespace"), metadata["name"])
    shown: dict[str, Any] = {}
    for path in (*_ALWAYS, *fields):
        _show(whole, path_keys(path), shown)
    return wire.Object(ref, json.dumps(shown))


def _show(whole: Any, path: list[str], shown: dict[str, Any]) -> None:
    """Copy one field. A path through a list means every element of it."""
    key, *below = path
    if not isinstance(whole, Mapping) or key not in whole:
        return
    value = whole[key]
    if not below:
        shown[key] = value
    elif isinstance(value, Mapping):
        _show(value, below, shown.setdefault(key, {}))
    elif isinstance(value, list):
        elements = shown.setdefault(key, [{} for _ in value])
        for element, into in zip(value, elements, strict=True):
            _show(element, below, into)


def _related(plugin: Plugin, related: Mapping[str, Iterable[Object]]) -> list[Any]:
    """Every declared read is there, and what was required by name beside it, whole."""
    keys = [*plugin.reads, *(key for key in related if key not in plugin.reads)]
    fields = {key: read.fields for key, read in plugin.reads.items()}
    found = {key: [_object(it, fields.get(key, tuple(it))) for it in related.get(key) or ()] for key in keys}
    return [SimpleNamespace(key=key, objects=objects) for key, objects in found.items()]


def _refusal(refusal: Mapping[str, Any]) -> Any:
    group, version = refusal.get("group", ""), refusal["version"]
    kind = Kind(f"{group}/{version}" if group else version, refusal["kind"])
    ref = wire.ObjectRef(wire.ResourceKind(kind), refusal.get("namespace"), refusal["name"])
    fields = {key: refusal[key] for key in ("code", "reason", "message")}
    return SimpleNamespace(ref=ref, **fields)


def _expectation(answered: Decision | Needs, shown: Request) -> dict[str, Any]:
    """Say an answer in the words of a case's `expect`, as it crosses to a host."""
    if isinstance(answered, Needs):
        for requirement in answered.requirements:
            wire.WireRequirement(requirement)
        return {"needs": [_requirement(it) for it in answered.requirements]}
    word = "done" if isinstance(answered, Done) else "waiting" if isinstance(answered, Waiting) else "decided"
    decision = wire.WireDecision(answered, shown.reference)
    children = decision.children
    said: dict[str, Any] = {
        "children": "keep" if children is None else {"exactly": _sorted(json.loads(it.json) for it in children)},
        "conditions": [
            {"type": it.name, "status": _STATUS[it.status.value], "reason": it.reason, "message": it.message}
            for it in decision.conditions
        ],
        "events": [
            {"severity": _SEVERITY[it.severity.value], "reason": it.reason, "message": it.message}
            for it in decision.events
        ],
    }
    if decision.status is not None:
        said["status"] = json.loads(decision.status)
    if decision.requeue_after is not None:
        said["requeueAfterMs"] = decision.requeue_after
    return {word: said}


def _said(judged: Verdict) -> dict[str, Any]:
    errors = [{"field": it.field, "reason": f"FieldValue{it.reason}", "message": it.message} for it in judged.errors]
    return {"errors": errors, "warnings": list(judged.warnings)}


def _without_nulls(value: Any) -> Any:
    """Leave out what is null, as a host does."""
    if isinstance(value, Mapping):
        return {key: _without_nulls(member) for key, member in value.items() if member is not None}
    return [_without_nulls(member) for member in value] if isinstance(value, list) else value


_STATUS = ("True", "False", "Unknown")
_SEVERITY = ("Normal", "Warning")


def _requirement(requirement: Any) -> dict[str, Any]:
    kind = requirement.kind
    said = {"key": requirement.key, "apiVersion": kind.api_version, "kind": kind.kind}
    if requirement.selector is None:
        said["name"] = requirement.name
    else:
        said["selector"] = requirement.selector
    return said if requirement.namespace is None else {**said, "namespace": requirement.namespace}


def _normal(expect: Mapping[str, Any]) -> dict[str, Any]:
    """Fill in what an expectation may leave out."""
    normal = dict(expect)
    if "verdict" in normal:
        normal["verdict"] = {"errors": [], "warnings": [], **normal["verdict"]}
    for word in ("decided", "waiting", "done"):
        if word in normal:
            decision = {"conditions": [], "events": [], **normal[word]}
            children = decision["children"]
            if isinstance(children, Mapping):
                decision["children"] = {"exactly": _sorted(children["exactly"])}
            normal[word] = decision
    return normal


def _sorted(children: Iterable[Object]) -> list[Object]:
    """The order of children means nothing."""
    return sorted(children, key=lambda it: (it["apiVersion"], it["kind"], it["metadata"]["name"]))
