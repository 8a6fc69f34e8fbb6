"""Children that are deleted and made anew where they cannot change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

UPDATE_STRATEGY = "hotshoe.dev/update-strategy"


def recreate(child: Mapping[str, Any]) -> dict[str, Any]:
    """Return a desired child that is deleted and made anew where the API server does not let a field change.

    Such a field is the template of a Job or the selector of a Deployment. The child is gone meanwhile, with all that it
    owns. Needs `recreate: true` on the rule of its kind in `plugin.yaml`, and the verb `delete`.
    """
    metadata = dict(child.get("metadata") or {})
    metadata["annotations"] = {**(metadata.get("annotations") or {}), UPDATE_STRATEGY: "Recreate"}
    return {**child, "metadata": metadata}
