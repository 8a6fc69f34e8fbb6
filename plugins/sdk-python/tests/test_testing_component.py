"""What is asked of the program, and what its answers become; a script stands in for it."""

import json
import sys

import pytest

from hotshoe.testing import closed_loop, component_cases
from hotshoe.testing_component import PROGRAM

SCRIPT = """#!{python}
import json, pathlib, sys
here = pathlib.Path({folder!r})
with (here / "calls").open("a") as calls:
    print(json.dumps([sys.argv[1:], sys.stdin.read()]), file=calls)
answer = (here / sys.argv[1]).read_text()
print(answer if answer.startswith(("[", "{{")) else "")
print(answer, file=sys.stderr)
"""


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """The folder of a plugin with two cases, and of the answers of the program to each verb."""
    script = tmp_path / "hotshoe"
    script.write_text(SCRIPT.format(python=sys.executable, folder=str(tmp_path)))
    script.chmod(0o755)
    monkeypatch.setenv(PROGRAM, str(script))
    (tmp_path / "cases").mkdir()
    for name in ("resize.yaml", "created.yml"):
        (tmp_path / "cases" / name).write_text("")
    return tmp_path


def calls(plugin):
    return [json.loads(line) for line in (plugin / "calls").read_text().splitlines()]


def test_each_case_fails_by_itself_and_what_must_hold_besides_is_one_more(plugin):
    def record(name, passed, **more):
        return {"name": name, "file": str(plugin / f"cases/{name}"), "passed": passed, "microseconds": 1, **more}

    logs = [{"message": "seen"}]
    records = [
        record("created.yml", True),
        record("resize.yaml", False, difference="- 1\n+ 2", logs=logs),
        {"name": "a sample", "file": "crds/samples/a.yaml", "passed": False, "error": "no size"},
        {"name": "the loop", "file": str(plugin / "cases/created.yml"), "passed": True, "error": None},
    ]
    (plugin / "test").write_text(json.dumps(records))
    created, resize, besides = component_cases(plugin)
    assert [str(it) for it in (created, resize, besides)] == ["created", "resize", "what must hold besides"]
    created.check()
    with pytest.raises(AssertionError, match=r"(?s)resize.yaml:\n- 1\n\+ 2\n +log: seen"):
        resize.check()
    with pytest.raises(AssertionError, match="a sample:\nno size"):
        besides.check()
    assert [call for call, _ in calls(plugin)] == [["test", str(plugin), "--build", "--output", "json"]]


def test_a_program_that_fails_or_is_missing_is_each_cases_failure_and_asked_once(plugin, monkeypatch):
    (plugin / "test").write_text("error: it does not compile")
    for case in component_cases(plugin):
        with pytest.raises(AssertionError, match="hotshoe test .*error: it does not compile"):
            case.check()
    assert len(calls(plugin)) == 1
    monkeypatch.setenv(PROGRAM, "/nowhere/hotshoe")
    with pytest.raises(AssertionError, match="put it on PATH, or name it by the variable HOTSHOE"):
        closed_loop(plugin, {})


def test_a_closed_loop_begins_with_what_is_given_and_ends_or_fails(plugin):
    child = {"kind": "ConfigMap", "metadata": {"name": "a"}}
    end = {"settled": True, "why": None, "decisions": [], "parent": {"status": {"ready": 1}}, "children": [child]}
    (plugin / "simulate").write_text(json.dumps(end))
    settled = closed_loop(plugin, {"kind": "Web"}, children=[child], now=5, within=3)
    assert settled.parent["status"] == {"ready": 1}
    assert settled.child("ConfigMap", "a") == child
    with pytest.raises(AssertionError, match="there is no Secret b in the end"):
        settled.child("Secret", "b")
    ((arguments, case),) = calls(plugin)
    assert arguments == ["simulate", str(plugin), "--build", "--output", "json", "--filename", "-"]
    assert json.loads(case) == {
        "name": "closed loop",
        "call": "reconcile",
        "parent": {"kind": "Web"},
        "children": [child],
        "related": {},
        "now": 5,
        "steady": {"within": 3},
    }
    (plugin / "simulate").write_text(json.dumps({**end, "settled": False, "why": "after 4 decisions"}))
    with pytest.raises(AssertionError, match="does not settle: after 4 decisions"):
        closed_loop(plugin, {"kind": "Web"})
