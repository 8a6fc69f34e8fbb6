"""The logic of an nginx operator: an NginxServer becomes a Deployment, and its status shows what became of that."""

import re
from typing import Any

from hotshoe import (
    Condition,
    Decision,
    FieldError,
    Kind,
    Owns,
    Plugin,
    Proposal,
    Reads,
    Request,
    Verdict,
    field,
    parent_label,
)

INSTANCE = "app.kubernetes.io/instance"
NO_IMAGE = "it is no image; write one such as nginx:1.27"
NO_VERSION = "spec.image: it names no version, so servers that start later may run another; write a tag"

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


@plugin.validate
def validate(proposal: Proposal) -> Verdict:
    """Check an image that is new: one that is stored already keeps no other field from being changed."""
    image = proposal.spec.get("image", "")
    if not proposal.config.get("validation") or image == field(proposal.old, "spec.image", None):
        return Verdict()
    repository, tag, digest = parsed(image)
    if not re.fullmatch(r"[a-z0-9._/:-]+", repository):
        return Verdict(errors=[FieldError("spec.image", "Invalid", NO_IMAGE)])
    return Verdict(warnings=[] if digest or tag not in (None, "latest") else [NO_VERSION])


@plugin.default
def default(proposal: Proposal) -> None:
    """Fill in the tag of an image that has none."""
    image, default_tag = proposal.spec.get("image"), proposal.config.get("defaultTag")
    if image and default_tag and parsed(image)[1:] == (None, ""):
        proposal.spec["image"] = f"{image}:{default_tag}"


def parsed(image: str) -> tuple[str, str | None, str]:
    """Return repository, tag and digest of an image; a colon before the last slash is that of a port."""
    tagged, _, digest = image.partition("@")
    repository, tag = re.fullmatch(r"(.*?)(?::([^/:]*))?", tagged, re.DOTALL).groups()
    return repository, tag, digest


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
