"""What a plugin is, and the functions that it is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from hotshoe import trace
from hotshoe.answer import Decision, Done, Needs, Waiting
from hotshoe.kind import Kind, Owns, Reads
from hotshoe.request import Request

Function = TypeVar("Function", bound=Callable[[Request], Any])


class Plugin:
    """A plugin. A module has one, and its functions are registered by decorators.

    `parent` is the kind that it serves, `owns` the kinds of its children, `reads` the kinds that it reads beside
    them, each under the key by which they come in `Request.related`. `parent_fields` are the fields of the parent to
    be shown beside `spec`. Asking grants nothing: `plugin.yaml` does.

    `config_schema` documents the configuration; nothing is checked against it.
    """

    def __init__(
        self,
        name: str,
        *,
        version: str,
        parent: Kind,
        owns: Sequence[Owns] = (),
        reads: Mapping[str, Reads] | None = None,
        parent_fields: Sequence[str] = (),
        finalizer: str | None = None,
        wants_now: bool = False,
        wants_attempt: bool = False,
        config_schema: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.version = version
        self.parent = parent
        self.owns = list(owns)
        self.reads = dict(reads or {})
        self.parent_fields = list(parent_fields)
        self.wants_now = wants_now
        self.wants_attempt = wants_attempt
        self.config_schema = config_schema
        self._finalizer = finalizer
        self._reconcile: Callable[[Request], Any] | None = None
        self._finalize: Callable[[Request], Any] | None = None

    def reconcile(self, function: Function) -> Function:
        """Register the function that decides what should be, given what is."""
        self._reconcile = function
        return function

    def finalize(self, function: Function) -> Function:
        """Register the function that cleans up before a parent goes, until it returns `Done`.

        The plugin then holds a finalizer on every parent: the one of `Plugin(finalizer=…)`, or else one of the plugin's
        name in the parent's group. Another has to stand in `spec.finalizers` of `plugin.yaml`.
        """
        self._finalize = function
        return function

    @property
    def finalizer(self) -> str | None:
        """The finalizer to hold; `None` where the plugin needs no clean-up."""
        if self._finalize is None or self._finalizer is not None:
            return self._finalizer
        return f"{self.parent.group or 'plugin.hotshoe.dev'}/{self.name}"

    def answer(self, call: str, request: Request) -> Decision | Needs:
        """Answer a request as the host has it answered: `call` is `reconcile` or `finalize`."""
        try:
            answer = self._call(call, request)
        except Needs as needs:
            answer = needs
        if call == "finalize" and answer is None:
            answer = Done()
        if _suits(call, answer):
            return answer
        wanted = "a Decision or Needs" if call == "reconcile" else "Done or Waiting"
        raise TypeError(f"{self.place(call)} returned {_named(answer)} instead of {wanted}")

    def place(self, call: str) -> str:
        """Name the function that answers a call, and where it stands."""
        function = self._finalize if call == "finalize" else self._reconcile
        code = getattr(function, "__code__", None)
        return call if code is None else f"{call} ({trace.at(code, code.co_firstlineno)})"

    def _call(self, call: str, request: Request) -> Any:
        function = self._finalize if call == "finalize" else self._reconcile
        if function is not None:
            return function(request)
        if call == "finalize":
            return Done()
        raise TypeError(f"the plugin {self.name} has no function to reconcile; register one with @plugin.reconcile")


def _suits(call: str, answer: Any) -> bool:
    if call == "finalize":
        return isinstance(answer, (Done, Waiting))
    return isinstance(answer, (Decision, Needs)) and not isinstance(answer, (Done, Waiting))


def _named(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
