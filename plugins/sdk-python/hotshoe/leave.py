"""Fields that a plugin leaves to others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

LEAVE = "hotshoe.dev/leave"


def leave(child: Mapping[str, Any], *fields: str) -> dict[str, Any]:
    """Return a desired child that leaves these fields, such as `spec.paused`, to others.

    When the plugin no longer sets them, their values stay, instead of being removed. What the scale subresource sets,
    such as `spec.replicas` of a Deployment, needs no mention. A field that the child sets itself cannot be left, and
    the host says so.
    """
    metadata = dict(child.get("metadata") or {})
    metadata["annotations"] = {**(metadata.get("annotations") or {}), LEAVE: ",".join(fields)}
    return {**child, "metadata": metadata}
