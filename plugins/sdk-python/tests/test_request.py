"""A request shows what the plugin asked for."""

import json
from datetime import datetime, timezone
from pathlib import Path

import pytest

from hotshoe import Condition, Kind, Owns, Plugin, Reads, field, parent_label
from hotshoe.testing import request

DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "labels": {"a": "b"}, "uid": "1"},
    "spec": {"template": {"containers": [{"name": "a", "image": "b"}]}},
    "status": {"availableReplicas": 2, "replicas": 3},
}
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-1"}, "status": {"phase": "Running"}}
PARENT = {"metadata": {"name": "web", "namespace": "shop"}, "spec": {"size": 1}, "status": {"size": 1}}

plugin = Plugin(
    "a",
    version="0.1.0",
    parent=Kind("example.com/v1", "A"),
    owns=[Owns("apps/v1", "Deployment", fields=["status.availableReplicas", "spec.template.containers.name"])],
    reads={"pods": Reads("v1", "Pod", label="app", fields=["status"])},
)


def test_objects_have_the_fields_that_were_asked_for():
    shown = request(plugin, PARENT, children=[DEPLOYMENT], related={"pods": [POD]})
    assert shown.parent == {"metadata": {"name": "web", "namespace": "shop"}, "spec": {"size": 1}}
    assert (shown.name, shown.namespace, shown.spec, shown.status) == ("web", "shop", {"size": 1}, {})
    assert shown.child("Deployment") == {
        "metadata": {"name": "web", "uid": "1"},
        "spec": {"template": {"containers": [{"name": "a"}]}},
        "status": {"availableReplicas": 2},
    }
    assert list(shown.related["pods"]) == [{"metadata": {"name": "web-1"}, "status": {"phase": "Running"}}]


def test_a_child_is_found_by_its_kind_and_name():
    shown = request(plugin, PARENT, children=[DEPLOYMENT])
    assert shown.child("Deployment", "other") is None and shown.child("Service") is None
    assert shown.child(Kind("apps/v1", "Deployment")) is not None
    assert shown.child(Kind("extensions/v1", "Deployment")) is None
    assert len(shown.children.of("Deployment")) == len(shown.children[:]) == len(shown.children) == 1


def test_a_read_that_found_nothing_is_there_and_another_key_is_not():
    shown = request(plugin, PARENT)
    assert len(shown.related["pods"]) == 0
    with pytest.raises(KeyError):
        shown.related["pod"]


def test_the_time_is_in_utc():
    at = datetime(2026, 1, 1, 12, 30, 0, 500_000, tzinfo=timezone.utc)
    assert request(plugin, PARENT, now=at).now == at
    assert request(plugin, PARENT, now=0).now == datetime(1970, 1, 1, tzinfo=timezone.utc)
    assert request(plugin, PARENT).now is None


def test_a_condition_that_was_written_before_is_shown_and_can_be_stated_again():
    stating = Plugin("a", version="0.1.0", parent=Kind("example.com/v1", "A"), parent_fields=["status.conditions"])
    written = [
        {"type": "Ready", "status": "Unknown", "reason": "NotSeen"},
        {"type": "Complete", "status": "True", "reason": "All", "message": "3 of 3", "lastTransitionTime": "2026-01-01"},
    ]
    shown = request(stating, {**PARENT, "status": {"size": 1, "conditions": written}})
    assert shown.condition("Complete") == Condition("Complete", True, "All", "3 of 3")
    assert shown.condition("Ready") == Condition("Ready", None, "NotSeen", "")
    assert shown.condition("Other") is None
    for status in ({}, {"conditions": None}, {"conditions": []}):
        assert request(stating, {**PARENT, "status": status}).condition("Ready") is None


def test_a_refusal_says_what_was_refused():
    refusal = {"version": "v1", "kind": "Secret", "name": "a", "code": 403, "reason": "Forbidden", "message": "quota"}
    [shown] = request(plugin, PARENT, refusals=[refusal]).refusals
    assert (shown.kind, shown.name, shown.code, shown.reason, shown.message) == ("Secret", "a", 403, "Forbidden", "quota")


def test_a_field_that_is_missing_anywhere_is_the_default():
    assert field(DEPLOYMENT, "status.availableReplicas", 0) == 2
    for of in (None, {}, {"status": None}, {"status": []}, {"status": {"availableReplicas": None}}):
        assert field(of, "status.availableReplicas", 0) == 0


def test_a_key_with_a_dot_or_a_slash_is_quoted():
    annotated = {"metadata": {"annotations": {"example.com/size": "3", "a": {"b.c": 1}}}}
    assert field(annotated, "metadata.annotations['example.com/size']") == "3"
    assert field(annotated, "metadata.annotations.a['b.c']") == 1
    assert field(annotated, "metadata.annotations.example.com/size") is None


def test_a_label_is_what_the_host_compares_with():
    vectors = Path(__file__).parents[3] / "tests/vectors/parent-label.json"
    for name, label in json.loads(vectors.read_text()):
        assert parent_label(name) == label
