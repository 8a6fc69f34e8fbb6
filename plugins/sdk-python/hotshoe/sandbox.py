"""Clear errors for what a plugin does not have.

In a component a clock, a file or an environment is a trap: the call ends without a line number. So what Python
code usually reaches them by raises `SandboxError` there. While a plugin is built, and outside of a component,
everything works as ever: what a module does as it is imported happens once, when the plugin is built.
"""

from __future__ import annotations

import builtins
import datetime
import functools
import io
import linecache
import os
import random
import sys
import time
import types
from collections.abc import Callable
from typing import Any

CLOCK = "a plugin has no clock: take request.now, with wants_now=True in its Plugin"
PAUSE = "a plugin cannot wait: return Decision(requeue_after=…) to be called again"
RANDOM = "a plugin has no randomness, for equal requests get equal answers: use random.Random(SEED) with a seed of your own, such as the parent's uid"
FILES = "a plugin has no files: read them as its module is imported, which happens when it is built"
NETWORK = "a plugin has no network: ask the host for objects, by reads or by request.need"
ENVIRONMENT = "a plugin has no environment: take request.config, which plugin.yaml fills with fromEnv"

_TIME = ["time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time"]
_TIME += ["process_time_ns", "thread_time", "thread_time_ns", "clock_gettime", "clock_gettime_ns", "clock_getres"]
# What these say without an argument is about now.
_TIME_OF_NOW = {"localtime": 1, "gmtime": 1, "ctime": 1, "asctime": 1, "strftime": 2}
_RANDOM = ["betavariate", "binomialvariate", "choice", "choices", "expovariate", "gammavariate", "gauss", "getrandbits"]
_RANDOM += ["lognormvariate", "normalvariate", "paretovariate", "randbytes", "randint", "random", "randrange", "sample"]
_RANDOM += ["shuffle", "triangular", "uniform", "vonmisesvariate", "weibullvariate", "SystemRandom"]
_FILES = ["access", "chdir", "getcwd", "link", "listdir", "lstat", "mkdir", "open", "readlink", "remove", "rename"]
_FILES += ["replace", "rmdir", "scandir", "stat", "symlink", "truncate", "unlink", "utime", "walk"]

_built = False


class SandboxError(RuntimeError):
    """The plugin asked for something that it does not have."""


def enter() -> None:
    """Have what a plugin does not have say so, from `close` on. Called before the author's modules are imported."""
    for name in _TIME:
        _refuse(time, name, CLOCK)
    for name, arguments in _TIME_OF_NOW.items():
        _refuse(time, name, CLOCK, unless_given=arguments)
    _refuse(time, "sleep", PAUSE)
    datetime.datetime = _timeless(datetime.datetime, ("now", "utcnow", "today"))  # type: ignore[misc]
    datetime.date = _timeless(datetime.date, ("today",))  # type: ignore[misc]
    for name in _RANDOM:
        _refuse(random, name, RANDOM)
    _refuse(random.Random, "seed", RANDOM, unless_given=2)
    # `uuid`, `secrets` and `tempfile` take bytes from the system.
    _refuse(os, "urandom", RANDOM)
    _refuse(random, "_urandom", RANDOM)
    for name in _FILES:
        _refuse(os, name, FILES)
    _refuse(builtins, "open", FILES)
    _refuse(io, "open", FILES)
    os.environ.__class__ = _Environment


def close() -> None:
    """End the build: the interpreter as it is now is what each call begins with."""
    global _built
    sys.meta_path.append(_NotBuiltIn)  # type: ignore[arg-type]
    # Of what was imported nothing is looked for again, and what was not is nowhere to be found.
    sys.meta_path[:] = [finder for finder in sys.meta_path if getattr(finder, "__name__", "") != "PathFinder"]
    # They look for source lines.
    linecache.updatecache = lambda *_, **__: []  # type: ignore[assignment]
    linecache.checkcache = lambda *_: None  # type: ignore[assignment]
    for name, word in (("socket", "socket"), ("socket", "create_connection"), ("socket", "getaddrinfo")):
        if name in sys.modules:
            _refuse(sys.modules[name], word, NETWORK)
    _built = True


def is_built() -> bool:
    """Whether this is a call, and not the build."""
    return _built


def _refuse(module: Any, name: str, why: str, unless_given: int | None = None) -> None:
    function = getattr(module, name, None)
    if function is None:
        return
    said = f"{getattr(module, '__name__', module)}.{name.lstrip('_')}: {why}".removeprefix("builtins.")

    @functools.wraps(function, updated=())
    def refused(*arguments: Any, **named: Any) -> Any:
        given = sum(argument is not None for argument in arguments)
        if _built and (unless_given is None or given < unless_given):
            raise SandboxError(said)
        return function(*arguments, **named)

    setattr(module, name, refused)


def _timeless(base: type, names: tuple[str, ...]) -> type:
    """Derive a class that says that there is no clock. Instances of the one are instances of the other."""

    class Either(type):
        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, base)

    def refused(name: str) -> Callable[..., Any]:
        def method(cls: type, *arguments: Any, **named: Any) -> Any:
            if _built:
                raise SandboxError(f"{base.__name__}.{name}: {CLOCK}")
            return getattr(super(timeless, cls), name)(*arguments, **named)

        return method

    members: dict[str, Any] = {name: classmethod(refused(name)) for name in names}
    timeless = types.new_class(base.__name__, (base,), {"metaclass": Either}, lambda body: body.update(members))
    timeless.__module__ = base.__module__
    return timeless


class _Environment(os._Environ):  # type: ignore[type-arg]
    """An empty environment that says why it is empty, where a variable must be there."""

    def __getitem__(self, key: str) -> str:
        if _built:
            raise SandboxError(f"os.environ[{key!r}]: {ENVIRONMENT}")
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        """Libraries look for their settings here, so that without any they go on as ever."""
        return default if _built else super().get(key, default)


class _NotBuiltIn:
    """Finds no module, in words: the last finder."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> None:
        raise ModuleNotFoundError(
            f"the module {name} is not in the component: import it at the top of a module, so that it is there when the "
            f"plugin is built",
            name=name,
        )
