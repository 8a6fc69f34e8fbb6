"""Requests that are answered as a component is made.

The interpreter adapts its code to what it is used for, and each call begins with the code as it was at the end of the
build. So the SDK's own is used before. The author's is not: what a module keeps would not be as it was imported.
"""

from __future__ import annotations

import json
from typing import Any

from wit_world.imports import types as wit

from hotshoe import Condition, Decision, Event, Kind, Owns, Plugin, Reads, Request, field

# The interpreter has adapted after some tens of calls.
CALLS = 100

_KINDS = [("apps", "v1", "Deployment"), ("", "v1", "Pod"), ("example.com", "v1", "Example")]


def plugin() -> Plugin:
    """Return a plugin that uses what most do."""
    example = Plugin(
        "example",
        version="0.1.0",
        parent=Kind("example.com/v1", "Example"),
        owns=[Owns("apps/v1", "Deployment", fields=["status"])],
        reads={"pods": Reads("v1", "Pod", label="app")},
    )

    @example.reconcile
    def reconcile(request: Request) -> Decision:
        ready = field(request.child("Deployment"), "status.readyReplicas", 0)
        pods = [pod["metadata"]["name"] for pod in request.related["pods"]]
        child = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": request.name, "labels": {"app": request.name}},
            "spec": {"replicas": request.spec["replicas"], "paused": False, "containers": [{"name": "a", "x": None}]},
        }
        return Decision(
            children=[child],
            status={"ready": ready, "pods": pods},
            conditions=[Condition("Available", ready > 0, "Observed", f"{ready} are ready")],
            events=[Event("Observed", request.config["text"])],
            requeue_after=60,
        )

    return example


def request() -> Any:
    """Return a request as the host's is lifted."""
    deployment, pod, parent = (wit.ResourceKind(*kind) for kind in _KINDS)
    return wit.Request(
        _object(parent, {"spec": {"replicas": 2}}),
        [_object(deployment, {"status": {"readyReplicas": 1}})],
        [wit.Related("pods", [_object(pod, {}), _object(pod, {})])],
        [],
        '{"text":"a"}',
        None,
        None,
    )


def _object(kind: Any, fields: dict[str, Any]) -> Any:
    text = json.dumps({"metadata": {"name": "example", "namespace": "default", "uid": "1"}, **fields})
    return wit.Object(wit.ObjectRef(kind, "default", "example"), text)
