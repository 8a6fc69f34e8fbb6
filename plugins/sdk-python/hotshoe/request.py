"""What a plugin is shown."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from hotshoe.answer import Condition, Needs, Requirement
from hotshoe.kind import Kind


class Refusal:
    """A child whose last write the API server refused.

    It stays until a write goes through or the desired child changes.
    """

    __slots__ = ("kind", "namespace", "name", "code", "reason", "message")

    def __init__(self, raw: Any) -> None:
        self.kind: str = raw.ref.kind.kind
        self.namespace: str | None = raw.ref.namespace
        self.name: str = raw.ref.name
        self.code: int = raw.code
        self.reason: str = raw.reason
        self.message: str = raw.message

    def __repr__(self) -> str:
        return f"Refusal({self.kind} {self.name}: {self.code} {self.reason}: {self.message})"


class Objects(Sequence[dict[str, Any]]):
    """Observed objects as dictionaries, each decoded when it is looked at."""

    __slots__ = ("_raw", "_read")

    def __init__(self, raw: Sequence[Any]) -> None:
        self._raw = raw
        self._read: list[dict[str, Any] | None] = [None] * len(raw)

    def __len__(self) -> int:
        return len(self._raw)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self._raw)))]
        read = self._read[index]
        if read is None:
            read = self._read[index] = json.loads(self._raw[index].json)
        return read

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self[at] for at in range(len(self._raw)))

    def of(self, kind: str | Kind) -> list[dict[str, Any]]:
        """Return those of a kind, sorted by namespace and name."""
        return [self[at] for at, raw in enumerate(self._raw) if _is(raw.ref.kind, kind)]

    def named(self, kind: str | Kind, name: str) -> dict[str, Any] | None:
        """Return the one of a kind with this name, if it is there."""
        for at, raw in enumerate(self._raw):
            if raw.ref.name == name and _is(raw.ref.kind, kind):
                return self[at]
        return None

    def __repr__(self) -> str:
        return repr(list(self))


class Related(Mapping[str, Objects]):
    """The objects found for each declared read and each requirement, sorted by namespace and name."""

    __slots__ = ("_found",)

    def __init__(self, raw: Sequence[Any]) -> None:
        self._found = {related.key: Objects(related.objects) for related in raw}

    def __getitem__(self, key: str) -> Objects:
        return self._found[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


class Request:
    """What a plugin is shown: `parent`, `children`, `related`, `refusals`, `config`, `now` and `attempt`.

    Objects are dictionaries of the fields that the plugin asked for. What is not looked at is not decoded.
    """

    __slots__ = ("_raw", "_parent", "_config", "_children", "_related")

    def __init__(self, raw: Any) -> None:
        self._raw = raw
        self._parent: dict[str, Any] | None = None
        self._config: dict[str, Any] | None = None
        self._children: Objects | None = None
        self._related: Related | None = None

    @property
    def parent(self) -> dict[str, Any]:
        """The object to decide about."""
        if self._parent is None:
            self._parent = json.loads(self._raw.parent.json)
        return self._parent

    @property
    def name(self) -> str:
        """The parent's name."""
        return self._raw.parent.ref.name

    @property
    def namespace(self) -> str | None:
        """The parent's namespace; `None` where it is cluster-scoped."""
        return self._raw.parent.ref.namespace

    @property
    def reference(self) -> Any:
        """The parent's kind, namespace and name, as they cross."""
        return self._raw.parent.ref

    @property
    def spec(self) -> dict[str, Any]:
        """The parent's spec; empty where it has none."""
        return self.parent.get("spec") or {}

    @property
    def status(self) -> dict[str, Any]:
        """The parent's status, as far as the plugin asked for it in `parent_fields`; empty where there is none."""
        return self.parent.get("status") or {}

    def condition(self, type: str) -> Condition | None:
        """Return the parent's condition of this type, as it was written last, if it is there.

        To know what was decided before, and to state it again. It is shown where `parent_fields` asks for
        `status.conditions`, and to the clean-up in any case.
        """
        for stated in self.status.get("conditions") or ():
            if stated["type"] == type:
                status = {"True": True, "False": False}.get(stated["status"])
                return Condition(type, status, stated.get("reason", ""), stated.get("message", ""))
        return None

    @property
    def children(self) -> Objects:
        """The parent's children, sorted by kind, namespace and name."""
        if self._children is None:
            self._children = Objects(self._raw.children)
        return self._children

    def child(self, kind: str | Kind, name: str | None = None) -> dict[str, Any] | None:
        """Return the child of this kind with this name, or else with the parent's, if it is there."""
        return self.children.named(kind, self.name if name is None else name)

    @property
    def related(self) -> Related:
        """The objects found for each declared read and each requirement, by its key."""
        if self._related is None:
            self._related = Related(self._raw.related)
        return self._related

    def need(self, key: str, kind: Kind, name: str, namespace: str | None = None) -> dict[str, Any] | None:
        """Return an object that the plugin does not read otherwise, or `None` where it does not exist.

        Where the host has not fetched it yet, this ends the call, and the host calls again with it.
        """
        if key not in self.related:
            raise Needs(Requirement(key, kind, name, namespace))
        found = self.related[key]
        return found[0] if found else None

    def need_selected(
        self, key: str, kind: Kind, selector: str | Mapping[str, Any], namespace: str | None = None
    ) -> Objects:
        """Return all objects of a kind that a label selector selects, sorted by name.

        The selector is a text as kubectl writes it, or a `LabelSelector`, such as one of the parent's spec. Where the
        host has not fetched the objects yet, this ends the call, and the host calls again with them.
        """
        if key not in self.related:
            raise Needs(Requirement(key, kind, namespace=namespace, selector=selector))
        return self.related[key]

    @property
    def refusals(self) -> list[Refusal]:
        """Children whose last write the API server refused."""
        return [Refusal(raw) for raw in self._raw.refusals]

    @property
    def config(self) -> dict[str, Any]:
        """The plugin's configuration."""
        if self._config is None:
            self._config = json.loads(self._raw.config) if self._raw.config else {}
        return self._config

    @property
    def now(self) -> datetime.datetime | None:
        """The time, in UTC; only where the plugin says `wants_now=True`."""
        if self._raw.now is None:
            return None
        epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
        return epoch + datetime.timedelta(milliseconds=self._raw.now)

    @property
    def attempt(self) -> int | None:
        """How often the parent was tried since its last success; only where the plugin says `wants_attempt=True`."""
        return self._raw.attempt

    def __repr__(self) -> str:
        return f"Request({self._raw.parent.ref.kind.kind} {self.name})"


@dataclass(frozen=True)
class User:
    """Who writes an object, as the API server has authenticated it."""

    username: str
    uid: str | None = None
    groups: tuple[str, ...] = ()


class Proposal:
    """A parent that is to be stored, whole.

    `operation` is `create` or `update`, and `dry_run` whether nothing will be stored in any case; the answer must not
    depend on that. `user` is who writes it, where `plugin.yaml` says `showUser`; `None` too where stored objects are
    asked about again.
    """

    __slots__ = ("operation", "object", "old", "config", "dry_run", "user")

    def __init__(self, new: Any, old: Any, context: Any) -> None:
        self.operation: Literal["create", "update"] = _OPERATIONS[context.operation.value]
        self.object: dict[str, Any] = json.loads(new.json)
        self.old: dict[str, Any] | None = None if old is None else json.loads(old.json)
        self.config: dict[str, Any] = json.loads(context.config) if context.config else {}
        self.dry_run: bool = context.dry_run
        user = context.user
        self.user: User | None = None if user is None else User(user.username, user.uid, tuple(user.groups))

    @property
    def name(self) -> str | None:
        """The name; `None` where the API server will make one of `metadata.generateName`."""
        return field(self.object, "metadata.name")

    @property
    def namespace(self) -> str | None:
        """The namespace; `None` where the object is cluster-scoped."""
        return field(self.object, "metadata.namespace")

    @property
    def spec(self) -> dict[str, Any]:
        """The spec, made if there is none: what is set in it is set in the object."""
        if self.object.get("spec") is None:
            self.object["spec"] = {}
        return self.object["spec"]

    def __repr__(self) -> str:
        return f"Proposal({self.operation} {self.name})"


_OPERATIONS: tuple[Literal["create"], Literal["update"]] = ("create", "update")


def field(of: Any, path: str, default: Any = None) -> Any:
    """Return the field of an object at a path, or `default` where it, or anything above it, is missing.

    `field(deployment, "status.availableReplicas", 0)`; the object itself may be missing too. A key with other
    characters is quoted: `field(pod, "metadata.annotations['example.com/size']")`.
    """
    for name in path_keys(path):
        if not isinstance(of, Mapping):
            return default
        of = of.get(name)
    return default if of is None else of


def path_keys(path: str) -> list[str]:
    """Return the keys of a path: those between dots, and those in brackets and quotes."""
    return [quoted or plain for quoted, plain in re.findall(r"\['([^']+)'\]|([^.\[]+)", path)]


def _is(raw: Any, kind: str | Kind) -> bool:
    if isinstance(kind, str):
        return raw.kind == kind
    return raw.kind == kind.kind and raw.group == kind.group and raw.version == kind.version
