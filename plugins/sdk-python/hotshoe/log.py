"""Lines for the host's log: what is printed, and what `logging` writes.

The host tags them with the plugin, its digest and the parent, and bounds their number and size.
"""

from __future__ import annotations

import io
import sys
import types
from collections.abc import Callable
from typing import Any

from hotshoe import trace

# The contract's levels.
TRACE, DEBUG, INFO, WARN, ERROR = range(5)

Write = Callable[[int, str], None]


def redirect(write: Write) -> None:
    """Send what is printed and logged from now on to `write`. Called once the author's modules are imported."""
    sys.stdout = Lines(write, INFO)
    sys.stderr = Lines(write, WARN)
    if "logging" in sys.modules:
        _redirect_logging(write)


class Lines(io.TextIOBase):
    """A stream whose lines are logged. A line that is not finished waits for its end, or for `finish`."""

    def __init__(self, write: Write, level: int) -> None:
        super().__init__()
        self._write = write
        self._level = level
        self._begun = ""

    def writable(self) -> bool:
        """Say yes."""
        return True

    def write(self, text: str) -> int:
        """Log each line that is finished with this text."""
        *lines, self._begun = (self._begun + text).split("\n")
        for line in lines:
            self._write(self._level, line)
        return len(text)

    def finish(self) -> None:
        """Log the line that is not finished."""
        if self._begun:
            self.write("\n")


def finish() -> None:
    """Log what was printed without an end of its line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, Lines):
            stream.finish()


def _redirect_logging(write: Write) -> None:
    import logging

    class Host(logging.Handler):
        """Hands records to the host."""

        def emit(self, record: logging.LogRecord) -> None:
            message = record.getMessage()
            if record.exc_info and record.exc_info[1] is not None:
                message = f"{message}: {trace.describe(record.exc_info[1])}"
            write(_level(record.levelno), message if record.name == "root" else f"{record.name}: {message}")

        def handleError(self, record: logging.LogRecord) -> None:
            """Let the author know: a message that does not fit its arguments is a mistake like any other."""
            raise

    # A record notes the time, and there is none.
    zero: Any = lambda: 0  # noqa: E731
    logging.time = types.SimpleNamespace(time=zero, time_ns=zero)  # type: ignore[attr-defined]
    root = logging.getLogger()
    root.handlers[:] = [Host()]
    if root.level == logging.WARNING:
        root.setLevel(logging.INFO)


def _level(number: int) -> int:
    if number >= 40:
        return ERROR
    if number >= 30:
        return WARN
    if number >= 20:
        return INFO
    return DEBUG if number >= 10 else TRACE
