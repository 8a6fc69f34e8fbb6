"""Prepares the interpreter to be copied for each call.

Python counts references in the object itself, so that to look at an object is to write to it, and a call copies each
page of memory that it writes to: that takes longer than the call. So all objects that are there when the plugin is
built are made immortal, which is what PEP 683 has immortal objects for: their references are not counted. No Python
code can do that, so their addresses are left to `hotshoe build`, which writes it into the component.
"""

from __future__ import annotations

import gc
from array import array
from pathlib import Path
from types import CodeType
from typing import Any

# Where `hotshoe build` looks for the addresses: beside the module that it has made a component of.
ADDRESSES = "objects"

# What a call leaves behind in cycles is not worth looking for before it has made so many objects.
OBJECTS = 100_000

# They must stay alive: the place of an object that is freed is another's.
_alive: list[Any] = []


def settle(folder: Path) -> None:
    """Write down the addresses of all objects, and have the collector look at none of them again."""
    global _alive
    gc.collect()
    _alive = _objects()
    (folder / ADDRESSES).write_bytes(array("I", map(id, _alive)).tobytes())
    gc.freeze()
    gc.set_threshold(OBJECTS)


def _objects() -> list[Any]:
    """Return all objects, each once.

    What this needs itself stays part of the component's memory, so it is little, and zero afterwards: a set would be
    half as large as all objects together, and past 16 MiB a host copies the whole memory for each call.
    """
    found = gc.get_objects()
    # By their addresses in units of 8 bytes, the size of the smallest object.
    seen = bytearray((max(map(id, found)) >> 3) + (1 << 17))
    for known in found:
        seen[id(known) >> 3] = 1
    for known in found:
        for one in _referents(known):
            at = id(one) >> 3
            if at < len(seen) and not seen[at]:
                seen[at] = 1
                found.append(one)
    for known in found:
        seen[id(known) >> 3] = 0
    return found


def _referents(known: Any) -> list[Any]:
    """Return what an object refers to. The collector knows no code."""
    if isinstance(known, CodeType):
        texts = [known.co_name, known.co_qualname, known.co_filename, *known.co_varnames, *known.co_freevars]
        return [known.co_consts, known.co_names, known.co_linetable, known.co_exceptiontable, *texts]
    return gc.get_referents(known)
