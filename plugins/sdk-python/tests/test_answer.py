"""An answer crosses as it is meant, or an error says where it does not."""

import dataclasses
import json
from datetime import timedelta

import pytest

from hotshoe import (
    Condition,
    Decision,
    Done,
    Event,
    Kind,
    Needs,
    Owns,
    Plugin,
    Reads,
    Reject,
    Requirement,
    Waiting,
    leave,
    recreate,
)
from hotshoe.testing import answer, request
from hotshoe.wire import WireDecision, WireRequirement, milliseconds

SHOP = request(
    Plugin("demo", version="1", parent=Kind("example.com/v1", "Shop")), {"metadata": {"name": "shop", "namespace": "n"}}
)
CHILD = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}


def test_children_cross_as_they_are_written():
    child = {**CHILD, "data": {"text": "ä\ud800", "port": 80, "none": None}}
    [crossed] = WireDecision(Decision(children=[child])).children
    assert (crossed.ref.kind.group, crossed.ref.kind.version, crossed.ref.kind.kind) == ("", "v1", "ConfigMap")
    assert (crossed.ref.namespace, crossed.ref.name) == (None, "a")
    assert json.loads(crossed.json) == child
    crossed.json.encode()


def test_fields_that_are_left_are_named_in_an_annotation_and_the_child_stays_as_it_was():
    child = {**CHILD, "metadata": {"name": "a", "annotations": {"note": "x"}}}
    left = leave(child, "data.theirs", "metadata.labels['example.com/size']")
    fields = "data.theirs,metadata.labels['example.com/size']"
    assert left["metadata"] == {"name": "a", "annotations": {"note": "x", "hotshoe.dev/leave": fields}}
    assert child["metadata"]["annotations"] == {"note": "x"}
    assert leave(CHILD, "data.b")["metadata"]["annotations"] == {"hotshoe.dev/leave": "data.b"}


def test_a_child_that_is_made_anew_where_it_cannot_change_says_so_in_an_annotation_and_stays_as_it_was():
    child = {**CHILD, "metadata": {"name": "a", "annotations": {"note": "x"}}}
    stated = {"note": "x", "hotshoe.dev/update-strategy": "Recreate"}
    assert recreate(child) == {**CHILD, "metadata": {"name": "a", "annotations": stated}}
    assert child["metadata"]["annotations"] == {"note": "x"}
    assert recreate(CHILD)["metadata"]["annotations"] == {"hotshoe.dev/update-strategy": "Recreate"}


def test_what_is_stated_of_the_parent_crosses_as_one_of_the_desired_objects():
    parent = SHOP.reference
    decision = Decision(children=[], parent_labels={"e.com/tier": "gold"}, parent_annotations={"e.com/note": "a b"})
    [crossed] = WireDecision(decision, parent).children
    assert (crossed.ref.kind.group, crossed.ref.kind.kind, crossed.ref.namespace) == ("example.com", "Shop", "n")
    metadata = {"name": "shop", "namespace": "n", "labels": {"e.com/tier": "gold"}, "annotations": {"e.com/note": "a b"}}
    assert json.loads(crossed.json) == {"apiVersion": "example.com/v1", "kind": "Shop", "metadata": metadata}
    assert WireDecision(Decision(children=[]), parent).children == []
    for wrong, words in (
        (Decision(parent_labels={"a": "b"}), "without children"),
        (Decision(children=[], parent_labels={"a": 1}), "parent_labels"),
        (Decision(children=[], parent_annotations=["a"]), "instead of a dict"),
    ):
        with pytest.raises((TypeError, ValueError), match=words):
            WireDecision(wrong, parent)


def test_no_children_and_children_that_are_left_alone_are_two_things():
    assert WireDecision(Decision(children=[])).children == []
    assert WireDecision(Decision()).children is None


def test_a_status_may_be_a_dataclass():
    @dataclasses.dataclass
    class Status:
        names: list[str]

    assert WireDecision(Decision(status=Status(["a"]))).status == '{"names":["a"]}'


def test_a_condition_may_be_unknown():
    conditions = [Condition("A", None, "R"), Condition("B", True, "R"), Condition("C", False, "R")]
    assert [it.status.value for it in WireDecision(Decision(conditions=conditions)).conditions] == [2, 0, 1]


@pytest.mark.parametrize(
    ("decision", "said"),
    [
        (Decision(children={"a": 1}), "children is dict instead of a list"),
        (Decision(children="abc"), "children is 'abc' instead of a list"),
        (Decision(children=["abc"]), "children[0] is 'abc' instead of a manifest"),
        (Decision(children=[{**CHILD, "kind": None}]), "children[0].kind is None instead of a text"),
        (Decision(children=[{**CHILD, "metadata": {}}]), "children[0].metadata.name is None"),
        (
            Decision(children=[{**CHILD, "metadata": {"generateName": "a-"}}]),
            "children[0].metadata.generateName would make another object",
        ),
        (Decision(children=[{**CHILD, "metadata": None}]), "children[0].metadata is None"),
        (Decision(children=[{**CHILD, "apiVersion": "a/b/c"}]), "names no kind"),
        (Decision(children=[CHILD, {**CHILD, "data": {"x": {1}}}]), "children[1].data.x is a set, which is no JSON value"),
        (Decision(children=[{**CHILD, "x": [0.0, float("nan")]}]), "children[0].x[1] is nan, which is no JSON value"),
        (Decision(children=[{**CHILD, "x": {(1, 2): 3}}]), "children[0].x: tuple is no key of a JSON object"),
        (Decision(children=[{**CHILD, "x": b"bytes"}]), "children[0].x is a bytes"),
        (Decision(status=[1]), "status is list instead of a dict"),
        (Decision(status={"at": timedelta(1)}), "status.at is a timedelta"),
        (Decision(conditions=[("A", True)]), "conditions: tuple is no Condition"),
        (Decision(conditions=[Condition("A", "True", "R")]), "the status of the condition A is 'True' instead of True"),
        (Decision(conditions=[Condition("A", True, 3)]), "the reason of the condition A is 3 instead of a text"),
        (Decision(conditions=[Condition("A", True, "R", "\ud800")]), "no valid Unicode"),
        (Decision(events=["Ready"]), "events: 'Ready' is no Event"),
        (Decision(events=[Event("R", "m", "Error")]), "is 'Error' instead of Normal or Warning"),
        (Decision(requeue_after="5s"), "requeue_after is '5s' instead of a timedelta or seconds"),
        (Decision(requeue_after=-1), "must not be negative"),
        (Decision(requeue_after=float("inf")), "not endless"),
    ],
)
def test_what_is_wrong_in_an_answer_is_named(decision, said):
    with pytest.raises((TypeError, ValueError)) as error:
        WireDecision(decision)
    assert said in str(error.value)


def test_what_contains_itself_is_named():
    endless = {**CHILD}
    endless["again"] = endless
    with pytest.raises(ValueError, match="contains itself"):
        WireDecision(Decision(children=[endless]))


def test_times_are_seconds_or_timedeltas():
    assert milliseconds(timedelta(minutes=1), "x") == 60_000
    assert (milliseconds(0.0015, "x"), milliseconds(None, "x")) == (2, None)


def plugin_that_answers(value, **options):
    plugin = Plugin("a", version="0.1.0", parent=Kind("example.com/v1", "A"), **options)
    plugin.reconcile(lambda request: value)
    plugin.finalize(lambda request: value)
    return plugin


@pytest.mark.parametrize("value", [None, {}, [CHILD], Done(), Waiting()])
def test_a_function_that_returns_no_decision_is_an_error(value):
    with pytest.raises(TypeError, match=r"reconcile \(.*test_answer.py:\d+\) returned .* instead of a Decision or Needs"):
        answer(plugin_that_answers(value), {"metadata": {"name": "a"}})


@pytest.mark.parametrize("value", [Decision(), Needs(), 3])
def test_a_clean_up_is_done_or_waiting(value):
    with pytest.raises(TypeError, match=r"finalize \(.*\) returned .* instead of Done or Waiting"):
        answer(plugin_that_answers(value), {"metadata": {"name": "a"}}, finalize=True)


def test_a_clean_up_that_returns_nothing_is_done():
    assert answer(plugin_that_answers(None), {"metadata": {"name": "a"}}, finalize=True) == Done()


def test_what_is_needed_is_asked_for_once():
    plugin = Plugin("a", version="0.1.0", parent=Kind("example.com/v1", "A"))

    @plugin.reconcile
    def reconcile(request):
        settings = request.need("settings", Kind("v1", "ConfigMap"), "settings", namespace="shared")
        return Decision(status={"found": settings is not None and settings["data"]})

    parent = {"metadata": {"name": "a"}}
    needs = answer(plugin, parent)
    assert needs.requirements == (Requirement("settings", Kind("v1", "ConfigMap"), "settings", "shared"),)
    assert answer(plugin, parent, related={"settings": []}).status == {"found": False}
    there = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": "b"}}
    assert answer(plugin, parent, related={"settings": [there]}).status == {"found": {"a": "b"}}


def plugin_that_selects(selector):
    plugin = Plugin("a", version="0.1.0", parent=Kind("example.com/v1", "A"))

    @plugin.reconcile
    def reconcile(request):
        pods = request.need_selected("pods", Kind("v1", "Pod"), selector)
        return Decision(status={"pods": [pod["metadata"]["name"] for pod in pods]})

    return plugin


@pytest.mark.parametrize(("selector", "text"), [
    ("app=shop,!legacy", "app=shop,!legacy"),
    ("", ""),
    ({}, ""),
    ({"matchLabels": {"b": "", "a": "1"}, "matchExpressions": None}, "a=1,b="),
    (
        {
            "matchLabels": {"example.com/a": "x"},
            "matchExpressions": [
                {"key": "b", "operator": "In", "values": ["y", "z"]},
                {"key": "c", "operator": "NotIn", "values": ["y"]},
                {"key": "d", "operator": "Exists"},
                {"key": "e", "operator": "DoesNotExist", "values": []},
            ],
        },
        "example.com/a=x,b in (y,z),c notin (y),d,!e",
    ),
])
def test_a_selector_of_a_spec_is_written_as_kubectl_does(selector, text):
    needs = answer(plugin_that_selects(selector), {"metadata": {"name": "a"}})
    assert needs.requirements == (Requirement("pods", Kind("v1", "Pod"), selector=text),)


def test_what_a_selector_finds_is_shown():
    plugin, parent = plugin_that_selects("app=shop"), {"metadata": {"name": "a"}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"}}
    assert answer(plugin, parent, related={"pods": [pod]}).status == {"pods": ["one"]}
    assert answer(plugin, parent, related={"pods": []}).status == {"pods": []}


@pytest.mark.parametrize("selector", [
    ["app"],
    {"matchLabel": {}},
    {"matchLabels": {"a": "b,c=d"}},
    {"matchLabels": {"a": 1}},
    {"matchExpressions": [{"key": "a", "operator": "in", "values": ["b"]}]},
    {"matchExpressions": [{"key": "a", "operator": "In"}]},
    {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b)"]}]},
    {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]},
])
def test_what_is_no_selector_rejects_the_parent(selector):
    with pytest.raises(Reject, match="this is no label selector"):
        Requirement("pods", Kind("v1", "Pod"), selector=selector)


def test_a_selector_crosses_behind_a_question_mark():
    for text, of in {"settings": {"name": "settings"}, "?app=shop": {"selector": "app=shop"}, "?": {"selector": {}}}.items():
        assert WireRequirement(Requirement("a", Kind("v1", "ConfigMap"), **of)).name == text


def test_a_requirement_has_a_name_or_a_selector():
    for wrong in ({}, {"name": "a", "selector": "b"}):
        with pytest.raises(TypeError, match="takes a name or a selector"):
            Requirement("pods", Kind("v1", "Pod"), **wrong)


def test_a_kind_that_cannot_be_is_refused_at_once():
    for wrong in (("apps/v1/x", "A"), ("", "A"), ("v1", "")):
        with pytest.raises(ValueError, match="names no kind"):
            Kind(*wrong)
    with pytest.raises(ValueError, match="'patch' is no verb"):
        Owns("v1", "ConfigMap", verbs=["patch"])
    for rules in ({}, {"label": "app", "name_from": "spec.pod"}, {"label": "app", "same_namespace": True}):
        with pytest.raises(ValueError, match="say how a Pod belongs to a parent"):
            Reads("v1", "Pod", **rules)
    assert Reads("v1", "ResourceQuota", same_namespace=True).label is None
    with pytest.raises(TypeError, match=r"fields=\['spec'\]"):
        Owns("v1", "ConfigMap", fields="spec")


def test_the_finalizer_is_in_the_group_of_the_parent_and_has_the_name_of_the_plugin():
    assert plugin_that_answers(None).finalizer == "example.com/a"
    assert plugin_that_answers(None, finalizer="example.com/mine").finalizer == "example.com/mine"
    assert Plugin("a", version="0.1.0", parent=Kind("v1", "ConfigMap")).finalizer is None
