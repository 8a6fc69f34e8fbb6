"""Kinds of objects, and what a plugin asks for about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

VERBS = ("create", "update", "delete")


@dataclass(frozen=True)
class Kind:
    """A kind of object, in the words of manifests: `Kind("apps/v1", "Deployment")`."""

    api_version: str
    kind: str

    def __post_init__(self) -> None:
        group, _, version = self.api_version.rpartition("/")
        if not version or not self.kind or "/" in group:
            raise ValueError(f"{self.api_version!r}, {self.kind!r} names no kind: as in Kind('apps/v1', 'Deployment')")

    @property
    def group(self) -> str:
        """The group; empty for the core group."""
        return self.api_version.rpartition("/")[0]

    @property
    def version(self) -> str:
        """The version."""
        return self.api_version.rpartition("/")[2]

    def __str__(self) -> str:
        return f"{self.kind} of {self.api_version}"


@dataclass(frozen=True)
class Owns(Kind):
    """A kind of children.

    `verbs` says what the plugin wants to do with them; `fields` which of their fields it is shown,
    as paths, for example `status.availableReplicas`. A key with other characters is quoted:
    `metadata.annotations['example.com/size']`.
    """

    verbs: Sequence[str] = VERBS
    fields: Sequence[str] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_fields(self.fields)
        wrong = [verb for verb in self.verbs if verb not in VERBS]
        if wrong:
            raise ValueError(f"{wrong[0]!r} is no verb: a plugin may {', '.join(VERBS)} children")


@dataclass(frozen=True)
class Reads(Kind):
    """A kind that is read and not owned.

    An object belongs to a parent in its namespace by `label`, the key of a label whose value is
    `parent_label(parent's name)`, by `name_from`, the path of the parent's field that names
    it, or, with `same_namespace`, whatever its labels: a change of it wakes every parent there.
    `selector` is a label selector that all of them fulfil.
    """

    label: str | None = None
    name_from: str | None = None
    same_namespace: bool = False
    selector: str = ""
    fields: Sequence[str] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_fields(self.fields)
        if [bool(self.label), bool(self.name_from), self.same_namespace].count(True) != 1:
            how = "by label=KEY, by name_from=FIELD of it, or by same_namespace=True"
            raise ValueError(f"say how a {self.kind} belongs to a parent: {how}")


def _check_fields(fields: Sequence[str]) -> None:
    if isinstance(fields, str):
        raise TypeError(f"fields is a list of paths: fields=[{fields!r}]")
