"""An exception in one line: its type, its message and where it was raised.

The sandbox has no files, so no source lines are shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from types import CodeType
from typing import Any

# The calls that are named, the innermost ones.
CALLS = 6
# Of the exceptions that led to one.
CAUSES = 3
MESSAGE = 1500

# What componentize-py mounts the module path as.
_MOUNT = re.compile(r"^/(\d+|world|bundled|python)/")


def describe(error: BaseException) -> str:
    """Return `TYPE: MESSAGE (FILE:LINE in FUNCTION, called from …)`, and the same of what caused it."""
    said = _one(error)
    cause = _cause(error)
    for _ in range(CAUSES):
        if cause is None:
            break
        said = f"{said}; caused by {_one(cause)}"
        cause = _cause(cause)
    return said


def _cause(error: BaseException) -> BaseException | None:
    if error.__cause__ is not None:
        return error.__cause__
    return None if error.__suppress_context__ else error.__context__


def _one(error: BaseException) -> str:
    try:
        message = str(error)
    except Exception as broken:
        message = f"its message cannot be shown: {type(broken).__name__}"
    notes = [str(note) for note in getattr(error, "__notes__", ())]
    message = " ".join(" ".join([message, *notes]).split())
    if len(message) > MESSAGE:
        # What Kubernetes says of an object has the reason at its end.
        message = f"{message[: MESSAGE // 2]}…{message[-MESSAGE // 2 :]}"
    name = type(error).__name__
    places = _places(error)
    said = f"{name}: {message}" if message else name
    return f"{said} ({places})" if places else said


def _places(error: BaseException) -> str:
    """Name the calls, the innermost first, without those of the SDK around them and below them."""
    calls: list[tuple[str, bool, int]] = []
    step = error.__traceback__
    while step is not None:
        frame = step.tb_frame
        place = f"{at(frame.f_code, step.tb_lineno)} in {frame.f_code.co_name}"
        if calls and calls[-1][0] == place:
            calls[-1] = place, calls[-1][1], calls[-1][2] + 1
        else:
            calls.append((place, str(frame.f_globals.get("__name__")).startswith("hotshoe."), 1))
        step = step.tb_next
    while calls and calls[0][1]:
        del calls[0]
    while calls and calls[-1][1]:
        del calls[-1]
    named = (place if times == 1 else f"{place}, {times} times" for place, _, times in reversed(calls[-CALLS:]))
    left_out = sum(times for *_, times in calls[:-CALLS])
    inner = ", called from ".join(named)
    return f"{inner}, and {left_out} calls before it" if left_out > 0 else inner


def named(function: Callable[..., Any] | None) -> str:
    """Return the name of a function, and where it stands."""
    code = getattr(function, "__code__", None)
    name = getattr(function, "__name__", "a function")
    return name if code is None else f"{name} ({at(code, code.co_firstlineno)})"


def at(code: CodeType, line: int) -> str:
    """Return a place in a file, as a person would name it."""
    return f"{_MOUNT.sub('', code.co_filename)}:{line}"
