"""Run a plugin's component in the real sandbox, by the program `hotshoe`. `hotshoe.testing` has what is in here."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

Object = Mapping[str, Any]

PROGRAM = "HOTSHOE"
"""The variable that names the program. Without it, it is the `hotshoe` on `PATH`."""


@dataclass(frozen=True)
class ComponentCase:
    """A case file, answered by the component; without a path, what must hold besides."""

    folder: Path
    path: Path | None

    def __str__(self) -> str:
        return self.path.stem if self.path else "what must hold besides"

    def check(self) -> None:
        """Fail where `hotshoe test` fails, with the difference."""
        records, problem = _tested(self.folder)
        assert problem is None, problem
        of_files = [Path(record["file"]).resolve() if _is_case(record) else None for record in records]
        mine = [record for record, path in zip(records, of_files, strict=True) if path == self.path]
        assert mine, f"{self.path} was not run"
        failures = "\n".join(f"{record['name']}:\n{_said(record)}" for record in mine if not record["passed"])
        assert not failures, failures


def component_cases(plugin: str | Path) -> list[ComponentCase]:
    """Return the cases of the plugin in a folder, and what must hold besides, each to be checked on its component.

    The first check builds the component, if its source is newer, and runs them all.
    """
    folder = Path(plugin).resolve()
    paths = sorted(path.resolve() for path in (folder / "cases").iterdir() if path.suffix in (".yaml", ".yml"))
    if not paths:
        raise FileNotFoundError(f"{folder}/cases has no cases, which are files *.yaml")
    return [ComponentCase(folder, path) for path in (*paths, None)]


@dataclass(frozen=True)
class End:
    """Where a closed loop ends."""

    decisions: list[dict[str, Any]]
    """Those that changed something: `children`, each with `action`, `kind`, `name` and `fields`, and lines of `status`."""
    parent: dict[str, Any]
    children: list[dict[str, Any]]

    def child(self, kind: str, name: str) -> dict[str, Any]:
        """Return a child; fail where there is none."""
        there = {(it["kind"], it["metadata"]["name"]): it for it in self.children}
        assert (kind, name) in there, f"there is no {kind} {name} in the end, but {list(there)}"
        return there[kind, name]


def closed_loop(
    plugin: str | Path,
    parent: Object,
    *,
    children: Iterable[Object] = (),
    related: Mapping[str, Iterable[Object]] | None = None,
    config: Mapping[str, Any] | None = None,
    now: datetime | int | None = None,
    finalize: bool = False,
    within: int | None = None,
) -> End:
    """Carry out the decisions of a component in a model of the API server, until one changes nothing.

    `plugin` is the folder of the plugin; its component is built first, if its source is newer. Objects are as
    `kubectl get -o yaml` shows them. Without `config`, it is that of `plugin.yaml`. Fail where more than `within`
    decisions, or 10, change something, or one of them is no decision or would be denied.
    """
    case = {
        "name": "closed loop",
        "call": "finalize" if finalize else "reconcile",
        "parent": parent,
        "children": list(children),
        "related": {key: list(found) for key, found in (related or {}).items()},
        "config": config,
        "now": round(now.timestamp() * 1000) if isinstance(now, datetime) else now,
        "steady": None if within is None else {"within": within},
    }
    given = {key: value for key, value in case.items() if value is not None}
    end = _call("simulate", Path(plugin), "--filename", "-", case=json.dumps(given))
    assert end["settled"], f"the closed loop does not settle: {end['why']}"
    return End(end["decisions"], end["parent"], end["children"])


@lru_cache
def _tested(folder: Path) -> tuple[list[dict[str, Any]], str | None]:
    """Run `hotshoe test` once, also if it cannot be run."""
    try:
        return _call("test", folder), None
    except AssertionError as error:
        return [], str(error)


def _call(verb: str, folder: Path, *options: str, case: str | None = None) -> Any:
    program = os.environ.get(PROGRAM) or "hotshoe"
    command = [program, verb, str(folder), "--build", "--output", "json", *options]
    try:
        done = subprocess.run(command, input=case or "", capture_output=True, text=True, check=False)
    except OSError as cause:
        raise AssertionError(
            f"the program hotshoe cannot be run: {cause}; put it on PATH, or name it by the variable {PROGRAM}. "
            "`./justw build` in the repository of Hotshoe makes it"
        ) from None
    try:
        return json.loads(done.stdout)
    except ValueError:
        raise AssertionError(f"hotshoe {verb} {folder}: {done.stderr}") from None


def _is_case(record: Mapping[str, Any]) -> bool:
    """What must hold besides is no call, so that it has no time."""
    return "microseconds" in record


def _said(record: Mapping[str, Any]) -> str:
    logs = (f"     log: {line['message']}" for line in record.get("logs") or ())
    return "\n".join(filter(None, (record.get("error"), record.get("difference"), *logs)))
