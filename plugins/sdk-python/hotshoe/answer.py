"""What a plugin answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal

from hotshoe.kind import Kind
from hotshoe.selector import selector_text


@dataclass
class Condition:
    """A status condition. The host owns its times and generations.

    `status` is `None` where it is not known; `reason` is one PascalCase word.
    """

    type: str
    status: bool | None
    reason: str
    message: str = ""


@dataclass
class Event:
    """A Kubernetes Event about the parent. The same reason and message raise a count instead of making a second one."""

    reason: str
    message: str
    severity: Literal["Normal", "Warning"] = "Normal"


@dataclass
class Decision:
    """The desired state.

    `children`: manifests of exactly these children. The host applies each and deletes every other child of this
    parent that it had made. `None` leaves them as they are.

    `status`: the parent's status without its conditions; what was observed, never what is desired. `None` leaves it
    alone.

    `conditions`: all conditions that the plugin states; one that it no longer states is removed.

    `requeue_after`: decide again after this long, a `timedelta` or seconds, even if nothing changes.

    `parent_labels`, `parent_annotations`: all that the plugin states of the parent's own labels and annotations; one that
    it no longer states is removed. `plugin.yaml` has to list their keys in `spec.parentMetadata`. One that another has
    set to another value stays, and is among the refusals.
    """

    children: Iterable[Mapping[str, Any]] | None = None
    status: Any = None
    conditions: Iterable[Condition] = ()
    events: Iterable[Event] = ()
    requeue_after: timedelta | float | None = None
    parent_labels: Mapping[str, str] = field(default_factory=dict)
    parent_annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Done(Decision):
    """The answer of a clean-up that is finished. Counts only when the observed children that must go are gone."""


@dataclass
class Waiting(Decision):
    """The answer of a clean-up that is not finished.

    It may change and delete children, and creates only those of kinds in `spec.finalize` of `plugin.yaml`.
    """


Reason = Literal[
    "Invalid", "Required", "Forbidden", "NotSupported", "Duplicate", "NotFound", "TooLong", "TooMany", "TypeInvalid"
]


@dataclass
class FieldError:
    """A field that is wrong: its path, such as `spec.ports[0].name`, why, and what to write instead.

    The reason is one of `metav1.CauseType`, without `FieldValue`.
    """

    field: str
    reason: Reason
    message: str


@dataclass
class Verdict:
    """What is wrong with a parent, and what its author should know.

    Any error refuses the object. The API server shows 120 characters of a warning.
    """

    errors: Iterable[FieldError] = ()
    warnings: Iterable[str] = ()


@dataclass(frozen=True)
class Requirement:
    """An object that a decision needs beyond those that the plugin reads, or all objects that a selector selects.

    `name` or `selector`, and not both. A selector is a text as kubectl writes it, such as `app=shop,tier in (a,b)`, or a
    `LabelSelector`, such as one of the parent's spec; an empty one selects all.

    Without `namespace`, in the parent's.
    """

    key: str
    kind: Kind
    name: str | None = None
    namespace: str | None = None
    selector: str | Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if (self.name is None) == (self.selector is None):
            raise TypeError(f"the Requirement {self.key!r} takes a name or a selector, and one of them")
        if self.selector is not None:
            object.__setattr__(self, "selector", _selector(self.selector))


def _selector(selector: str | Mapping[str, Any]) -> str:
    try:
        return selector_text(selector)
    except ValueError as why:
        # It is mostly a part of the parent's spec.
        raise Reject(f"this is no label selector: {why}") from None


class Needs(Exception):
    """Call again with these objects. Return it or raise it, as `Request.need` and `Request.need_selected` do."""

    def __init__(self, *requirements: Requirement) -> None:
        super().__init__(", ".join(f"{it.kind.kind} {it.name or it.selector}" for it in requirements))
        self.requirements = requirements


class Retry(Exception):
    """There is no decision now: try again, after a `timedelta` or seconds, or with back-off."""

    def __init__(self, message: str, after: timedelta | float | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.after = after


class Reject(Exception):
    """The parent cannot be served as it is: no retry until it, the configuration, the grant or the plugin changes.

    `field` is the field at fault, for example `spec.replicas`.
    """

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
