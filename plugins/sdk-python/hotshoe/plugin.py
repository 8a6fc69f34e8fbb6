"""What a plugin is, and the functions that it is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from hotshoe import trace, wire
from hotshoe.answer import Decision, Done, Needs, Verdict, Waiting
from hotshoe.conversion import Conversions, Convert
from hotshoe.kind import Kind, Owns, Reads
from hotshoe.request import Proposal, Request

Function = TypeVar("Function", bound=Callable[[Request], Any])
Admission = TypeVar("Admission", bound=Callable[[Proposal], Any])
Conversion = TypeVar("Conversion", bound=Convert)


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
        self._validate: Callable[[Proposal], Any] | None = None
        self._default: Callable[[Proposal], Any] | None = None
        self.conversions = Conversions()

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

    def validate(self, function: Admission) -> Admission:
        """Register the function that says what is wrong with a parent before it is stored, by a `Verdict` or `None`.

        For what neither the schema nor `reconcile` can say. `Reject` refuses the object too; any other exception admits
        it with a warning.
        """
        self._validate = function
        return function

    def default(self, function: Admission) -> Admission:
        """Register the function that fills in what the author of a parent left out and the schema cannot say.

        It changes `proposal.object`, or returns another object. Defaults of an object that has its defaults change
        nothing.
        """
        self._default = function
        return function

    def convert(self, old: str, new: str) -> Callable[[Conversion], Conversion]:
        """Register a function from one version of the parents' kind to another: `@plugin.convert("v1beta1", "v1")`.

        It is called with an object and its annotations, and returns the object as it is in the other version. What that
        has as `metadata` must be as it was, but for the annotations; without it, all of it stays, and the annotations
        that were given keep what the other version cannot say.
        """

        def register(function: Conversion) -> Conversion:
            self.conversions.add(old, new, function)
            return function

        return register

    @property
    def interfaces(self) -> list[str]:
        """The optional interfaces of the contract that the plugin has functions for."""
        named = {"validation": self._validate, "defaulting": self._default, "conversion": self.conversions}
        return [name for name, functions in named.items() if functions]

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

    def verdict(self, proposal: Proposal) -> Verdict:
        """Judge a parent as the host has it judged."""
        if self._validate is None:
            raise TypeError(f"the plugin {self.name} has no function to validate; register one with @plugin.validate")
        verdict = self._validate(proposal)
        if verdict is None:
            return Verdict()
        if isinstance(verdict, Verdict):
            return verdict
        raise TypeError(f"{self.place('validate')} returned {_named(verdict)} instead of a Verdict or None")

    def defaulted(self, proposal: Proposal) -> str:
        """Return the JSON text of a parent with its defaults, as the host has them filled in."""
        if self._default is None:
            raise TypeError(f"the plugin {self.name} has no function to fill in defaults; register one with @plugin.default")
        had_spec = proposal.object.get("spec") is not None
        object = self._default(proposal)
        if object is None:
            object = proposal.object
        if not isinstance(object, Mapping):
            raise TypeError(f"{self.place('default')} returned {_named(object)} instead of the object, a dict, or None")
        filled_in = wire.unnamed(object)
        # A look at `proposal.spec` made it, and nothing was filled in.
        if not had_spec and filled_in.get("spec") == {}:
            del filled_in["spec"]
        return wire.text(filled_in, "object")

    def place(self, call: str) -> str:
        """Name the function that answers a call, and where it stands."""
        functions = {"finalize": self._finalize, "validate": self._validate, "default": self._default}
        code = getattr(functions.get(call, self._reconcile), "__code__", None)
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
