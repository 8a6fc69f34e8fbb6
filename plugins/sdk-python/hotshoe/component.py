"""The component around a plugin: imported where `hotshoe build` makes one, and nowhere else.

What stands at the top of modules runs once, as the component is made; each call begins with the interpreter as it
was at the end of `export`.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from componentize_py_types import Err
from wit_world.imports import log as host
from wit_world.imports import types as wit

from hotshoe import log, sandbox, snapshot, trace, warm_up, wire
from hotshoe.answer import Decision, Done, Needs, Reject, Retry
from hotshoe.plugin import Plugin
from hotshoe.request import Proposal, Request

# Deeper recursion would end at the sandbox's stack, which knows no lines.
CALL_DEPTH = 250

_LEVELS = [wire.Enumerator(level) for level in range(5)]


def export(module: str, entry: Path, interfaces: list[str]) -> dict[str, type]:
    """Import the plugin's module, and return the classes that the component exports, by their names.

    `entry` is the folder of the module that calls this, and `interfaces` are the optional ones of the component. Where
    the plugin has functions for others, an error names them for `hotshoe build`.
    """
    sandbox.enter()
    plugin = _plugin_of(importlib.import_module(module))
    if plugin.interfaces != interfaces:
        raise ImportError(f"hotshoe:interfaces={','.join(plugin.interfaces)}.")
    plugin.conversions.check(plugin.parent.version)
    for interface in interfaces:
        # componentize-py looks for its types when nothing is imported any more.
        importlib.import_module(f"wit_world.exports.{interface}")
    exported = _exported(plugin)
    log.redirect(_write)
    sys.setrecursionlimit(CALL_DEPTH)
    example = warm_up.plugin()
    for _ in range(warm_up.CALLS):
        _answer(example, "reconcile", warm_up.request())
    snapshot.settle(entry)
    sandbox.close()
    return exported


def _plugin_of(module: Any) -> Plugin:
    plugins = {id(value): value for value in vars(module).values() if isinstance(value, Plugin)}
    if len(plugins) != 1:
        count = "no" if not plugins else f"{len(plugins)}"
        raise TypeError(f"the module {module.__name__} has {count} hotshoe.Plugin at its top; a plugin is one: plugin = Plugin(…)")
    return next(iter(plugins.values()))


def _exported(plugin: Plugin) -> dict[str, type]:
    descriptor = _descriptor(plugin)

    class Reconciler:
        """The interface `reconciler` of the contract."""

        def describe(self) -> Any:
            return descriptor

        def reconcile(self, raw: Any) -> Any:
            return _answer(plugin, "reconcile", raw)

        def finalize(self, raw: Any) -> Any:
            return _answer(plugin, "finalize", raw)

    class Validation:
        """The interface `validation`."""

        def validate(self, new: Any, old: Any, context: Any) -> Any:
            return _called(lambda: _judged(plugin, Proposal(new, old, context)))

    class Defaulting:
        """The interface `defaulting`."""

        def default(self, object: Any, context: Any) -> Any:
            return _called(lambda: wire.Object(object.ref, plugin.defaulted(Proposal(object, None, context))))

    class Conversion:
        """The interface `conversion`."""

        def convert(self, objects: Any, to_version: str) -> Any:
            return _called(lambda: [_converted(plugin, it, to_version) for it in objects])

    return {exported.__name__: exported for exported in (Reconciler, Validation, Defaulting, Conversion)}


def _converted(plugin: Plugin, raw: Any, to_version: str) -> wire.Object:
    kind, namespace, name = raw.ref.kind, raw.ref.namespace, raw.ref.name
    converted = plugin.conversions.convert(raw.json, kind.version, to_version)
    ref = wire.ObjectRef(wit.ResourceKind(kind.group, to_version, kind.kind), namespace, name)
    return wire.Object(ref, converted)


def _answer(plugin: Plugin, call: str, raw: Any) -> Any:
    return _called(lambda: _decided(plugin, call, raw))


def _decided(plugin: Plugin, call: str, raw: Any) -> Any:
    return _crossing(lambda it: _lowered(it, raw.parent.ref), plugin.answer(call, Request(raw)), plugin.place(call))


def _judged(plugin: Plugin, proposal: Proposal) -> wire.WireVerdict:
    return _crossing(wire.WireVerdict, plugin.verdict(proposal), plugin.place("validate"))


def _crossing(lower: Callable[[Any], Any], answer: Any, place: str) -> Any:
    try:
        return lower(answer)
    except Exception as error:
        error.add_note(f"({place} returned it)")
        raise


def _called(answer: Callable[[], Any]) -> Any:
    try:
        return answer()
    except BaseException as error:  # whatever it is, a trap would say less
        raise Err(_failure(error)) from None
    finally:
        log.finish()


def _lowered(answer: Decision | Needs, parent: Any) -> Any:
    if isinstance(answer, Needs):
        return wit.Answer_Needs([wire.WireRequirement(it) for it in answer.requirements])
    decision: Any = wire.WireDecision(answer, parent)
    children = decision.children
    decision.children = wit.Children_Keep() if children is None else wit.Children_Exactly(children)
    if type(answer) is Decision:
        return wit.Answer_Decided(decision)
    return wit.Cleanup_Done(decision) if isinstance(answer, Done) else wit.Cleanup_Waiting(decision)


def _failure(error: BaseException) -> Any:
    try:
        if isinstance(error, Retry):
            return wit.Failure_Retry(wit.Retry(_text(str(error)), wire.milliseconds(error.after, "the time of a Retry")))
        if isinstance(error, Reject):
            return wit.Failure_Reject(wit.Rejection(_text(str(error)), error.field and _text(str(error.field))))
    except Exception as wrong:
        error = wrong
    return wit.Failure_Other(_text(trace.describe(error)))


def _text(text: str) -> str:
    """Return what can cross of a text: half a character cannot."""
    return text.encode(errors="replace").decode()


def _write(level: int, line: str) -> None:
    if sandbox.is_built():
        host.log(_LEVELS[level], _text(line))


def _descriptor(plugin: Plugin) -> Any:
    schema = plugin.config_schema
    return wit.Descriptor(
        name=plugin.name,
        version=plugin.version,
        parent=wire.ResourceKind(plugin.parent),
        parent_fields=list(plugin.parent_fields),
        owns=[wit.OwnedKind(wire.ResourceKind(owned), _verbs(owned), list(owned.fields)) for owned in plugin.owns],
        reads=[_read(key, read) for key, read in plugin.reads.items()],
        finalizer=plugin.finalizer,
        wants_now=plugin.wants_now,
        wants_attempt=plugin.wants_attempt,
        config_schema=None if schema is None else json.dumps(schema),
    )


def _verbs(owned: Any) -> list[Any]:
    return [wit.Verb[verb.upper()] for verb in owned.verbs]


def _read(key: str, read: Any) -> Any:
    # An empty label stands for every object in the parent's namespace.
    rule = wit.MatchRule_ParentField(read.name_from) if read.name_from else wit.MatchRule_ParentLabel(read.label or "")
    return wit.ReadKind(key, wire.ResourceKind(read), read.selector, rule, list(read.fields))
