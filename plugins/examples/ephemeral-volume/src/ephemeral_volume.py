"""An EphemeralVolumeClaim becomes a PersistentVolumeClaim of its name, size and labels, which goes with it."""

from hotshoe import Condition, Decision, Kind, Owns, Plugin, Request, field

plugin = Plugin(
    "ephemeral-volume",
    version="0.1.0",
    parent=Kind("storage.example.com/v1", "EphemeralVolumeClaim"),
    parent_fields=["metadata.labels"],
    owns=[Owns("v1", "PersistentVolumeClaim", verbs=["create", "update"], fields=["status.phase", "status.capacity"])],
)


@plugin.reconcile
def reconcile(request: Request) -> Decision:
    """Decide what should be, given what is."""
    volume = request.child("PersistentVolumeClaim")
    phase = field(volume, "status.phase", "Pending")
    # For example a size that shrinks, which Kubernetes refuses.
    refused = [refusal.message for refusal in request.refusals]
    message = refused[0] if refused else f"the volume is {phase}"
    return Decision(
        children=[claim(request.name, request.spec["size"], field(request.parent, "metadata.labels", {}))],
        status={"phase": phase, "capacity": field(volume, "status.capacity.storage", "")},
        conditions=[
            Condition("Available", phase == "Bound", phase, f"the volume is {phase}"),
            Condition("InSync", not refused, "Refused" if refused else "Applied", message),
        ],
    )


def claim(name: str, size: str, labels: dict[str, str]) -> dict:
    """Return the PersistentVolumeClaim."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "labels": labels},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}},
    }
