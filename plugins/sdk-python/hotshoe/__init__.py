"""Write the logic of a Hotshoe operator as a plain Python function.

    from hotshoe import Decision, Kind, Owns, Plugin, Request

    plugin = Plugin(
        "greeter",
        version="0.1.0",
        parent=Kind("example.com/v1", "Greeting"),
        owns=[Owns("v1", "ConfigMap")],
    )

    @plugin.reconcile
    def reconcile(request: Request) -> Decision:
        return Decision(children=[{
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": request.name},
            "data": {"text": request.spec["text"]},
        }])

What holds for every call:

- It is a pure function. There is no clock, network, file, environment or randomness, and equal
  requests must be answered equally: the host skips a call that it has seen answered.
- It runs in a fresh copy of the interpreter as it was when the plugin was built. What stands at
  the top of a module ran once, then; nothing kept in memory is there at the next call.
- Observed objects are projections: they hold the fields that the plugin asked for.
- An exception costs that one decision. Its type, message and lines stand in the condition and the
  Event of the object.

Outside of a component all of this is ordinary Python: see `hotshoe.testing`.
"""

from hotshoe.answer import (
    Condition,
    Decision,
    Done,
    Event,
    FieldError,
    Needs,
    Reject,
    Requirement,
    Retry,
    Verdict,
    Waiting,
)
from hotshoe.harmless import harmless, require_harmless
from hotshoe.kind import Kind, Owns, Reads
from hotshoe.label import parent_label
from hotshoe.leave import leave
from hotshoe.plugin import Plugin
from hotshoe.recreate import recreate
from hotshoe.request import Proposal, Refusal, Request, User, field
from hotshoe.sandbox import SandboxError

__all__ = [
    "Condition",
    "Decision",
    "Done",
    "Event",
    "FieldError",
    "Kind",
    "Needs",
    "Owns",
    "Plugin",
    "Proposal",
    "Reads",
    "Refusal",
    "Reject",
    "Request",
    "Requirement",
    "Retry",
    "SandboxError",
    "User",
    "Verdict",
    "Waiting",
    "field",
    "harmless",
    "leave",
    "parent_label",
    "recreate",
    "require_harmless",
]
