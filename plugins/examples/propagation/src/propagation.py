"""A Propagation copies a ConfigMap or a Secret into every namespace that its selector selects."""

from collections.abc import Mapping
from typing import Any

from hotshoe import Condition, Decision, Kind, Owns, Plugin, Request

plugin = Plugin(
    "propagation",
    version="0.1.0",
    parent=Kind("platform.example.com/v1", "Propagation"),
    owns=[Owns("v1", "ConfigMap"), Owns("v1", "Secret")],
)


@plugin.reconcile
def reconcile(request: Request) -> Decision:
    """Decide what should be, given what is."""
    source = request.spec["source"]
    kind, home, name = source["kind"], source["namespace"], source["name"]
    original = request.need("source", Kind("v1", kind), name, home)
    if original is None:
        condition = Condition("Available", False, "SourceNotFound", f"there is no {kind} {home}/{name}")
        return Decision(children=[], status={"copies": len(request.children)}, conditions=[condition])
    selector = request.spec.get("namespaceSelector", {})
    selected = [one["metadata"] for one in request.need_selected("namespaces", Kind("v1", "Namespace"), selector)]
    # In a namespace that goes nothing can be created.
    targets = [one["name"] for one in selected if "deletionTimestamp" not in one and one["name"] != home]
    copied = {child["metadata"]["namespace"] for child in request.children.of(kind)}
    missing = [target for target in targets if target not in copied]
    message = f"not yet in {', '.join(missing)}" if missing else f"{len(targets)} namespaces have a copy"
    return Decision(
        children=[copy(original, kind, name, target) for target in targets],
        status={"copies": len(request.children)},
        conditions=[Condition("Available", not missing, "Missing" if missing else "Copied", message)],
    )


def copy(original: Mapping[str, Any], kind: str, name: str, namespace: str) -> dict[str, Any]:
    """Return the copy for a namespace: what the original holds, and none of its labels and annotations."""
    held = {key: original[key] for key in ("data", "binaryData", "type") if key in original}
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": namespace}, **held}
