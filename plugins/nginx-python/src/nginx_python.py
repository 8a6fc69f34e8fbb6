"""The logic of an nginx operator: an NginxServer becomes a Deployment, and its status shows what became of that."""

from typing import Any

from hotshoe import Condition, Decision, Kind, Owns, Plugin, Reads, Request, field, parent_label

INSTANCE = "app.kubernetes.io/instance"

plugin = Plugin(
    "nginx-python",
    version="0.1.0",
    parent=Kind("web.example.com/v1", "NginxServer"),
    owns=[Owns("apps/v1", "Deployment", verbs=["create", "update"], fields=["status.availableReplicas"])],
    reads={"pods": Reads("v1", "Pod", label=INSTANCE, selector="app=nginx")},
)


@plugin.reconcile
def reconcile(request: Request) -> Decision:
    """Decide what should be, given what is."""
    replicas = request.spec.get("replicas", 1)
    available = field(request.child("Deployment"), "status.availableReplicas", 0)
    reason = "PodsAvailable" if available >= replicas else "PodsUnavailable"
    message = f"{available} of {replicas} Pods are available"
    pods = [pod["metadata"] for pod in request.related["pods"]]
    return Decision(
        children=[deployment(request.name, replicas, request.spec.get("image", "nginx:latest"))],
        status={
            "availableReplicas": available,
            "podNames": [pod["name"] for pod in pods if "deletionTimestamp" not in pod],
        },
        # Tools that wait for objects read Ready.
        conditions=[Condition(name, available >= replicas, reason, message) for name in ("Available", "Ready")],
    )


def deployment(name: str, replicas: int, image: str) -> dict[str, Any]:
    """Return the Deployment of an NginxServer."""
    labels = {"app": "nginx", INSTANCE: parent_label(name)}
    container = {
        "name": "nginx",
        "image": image,
        # The protocol is part of the key of a port, so it stands here although it is the default.
        "ports": [{"containerPort": 80, "protocol": "TCP"}],
        "securityContext": {"allowPrivilegeEscalation": False},
    }
    # No runAsNonRoot: the stock image starts as root, and its workers run as another user.
    pod = {"automountServiceAccountToken": False, "containers": [container]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
