"""An object is written in another version of its kind, and nothing is lost."""

from dataclasses import dataclass

import pytest

from hotshoe import Kind, Plugin
from hotshoe.testing import converted

# The rest of a division, which v1 cannot say.
REST = "example.com/rest"


@dataclass
class Stable:
    pairs: int
    note: str | None = None


def new_plugin():
    return Plugin("test", version="0.1.0", parent=Kind("example.com/v1", "Test"))


def counting():
    """v1alpha1 ⇄ v1beta1 ⇄ v1, which counts in pairs."""
    plugin = new_plugin()

    @plugin.convert("v1alpha1", "v1beta1")
    def to_beta(old, annotations):
        return {"spec": {"replicas": old["spec"]["size"]}}

    @plugin.convert("v1beta1", "v1alpha1")
    def to_alpha(new, annotations):
        return {"spec": {"size": new["spec"]["replicas"]}}

    @plugin.convert("v1beta1", "v1")
    def to_stable(old, annotations):
        pairs, rest = divmod(old["spec"]["replicas"], 2)
        if rest:
            annotations[REST] = "1"
        return {"spec": Stable(pairs)}

    @plugin.convert("v1", "v1beta1")
    def from_stable(new, annotations):
        kept = {key: value for key, value in annotations.items() if key != REST}
        replicas = 2 * new["spec"]["pairs"] + (REST in annotations)
        return {**new, "spec": {"replicas": replicas}, "metadata": {**new["metadata"], "annotations": kept}}

    return plugin


def object_of(version, spec, **metadata):
    named = {"name": "a", "namespace": "shop", "uid": "1", "labels": {"app": "web"}, **metadata}
    return {"apiVersion": f"example.com/{version}", "kind": "Test", "metadata": named, "spec": spec}


def tried(answer):
    plugin = new_plugin()
    plugin.convert("v1", "v2")(answer)
    plugin.convert("v2", "v1")(lambda same, annotations: same)
    return converted(plugin, object_of("v1", {"size": 1}), "v2")


def test_an_object_is_converted_over_a_version_in_the_middle_and_back_without_loss():
    plugin = counting()
    plugin.conversions.check("v1")
    old = object_of("v1alpha1", {"size": 5})
    new = converted(plugin, old, "v1")
    assert new == object_of("v1", {"pairs": 2, "note": None}, annotations={REST: "1"})
    assert converted(plugin, new, "v1alpha1") == old


def test_an_object_that_has_the_version_stays_as_it_is():
    same = object_of("v1", {"pairs": 2, "unknown": 1})
    assert converted(counting(), same, "v1") == same


def test_what_is_not_returned_of_the_metadata_stays():
    assert tried(lambda same, annotations: same) == object_of("v2", {"size": 1})
    assert tried(lambda same, annotations: {"spec": {}}) == object_of("v2", {})


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (None, r"the answer of <lambda> \(.*test_conversion.py:\d+\) is None instead of a dict"),
        ([], "is list instead of a dict, the object in the other version"),
        ({"spec": {"size": {1}}}, r"the answer of .*\.spec\.size is a set, which is no JSON value"),
        ({"metadata": "none"}, "metadata is 'none' instead of a dict"),
        ({"metadata": {"annotations": {"ports": [1]}}}, "the annotation ports is list instead of a text"),
    ],
)
def test_an_answer_of_a_wrong_form_names_the_function(answer, said):
    with pytest.raises(TypeError, match=said):
        tried(lambda same, annotations: answer)


def test_a_version_without_a_function_is_named_with_what_to_define():
    with pytest.raises(TypeError, match=r"no conversion leads from v1 to v2: define one with @plugin.convert\('v1', 'v2'\)"):
        converted(counting(), object_of("v1", {}), "v2")
    plugin = new_plugin()
    plugin.convert("v1", "v2")(lambda same, annotations: same)
    with pytest.raises(TypeError, match="no conversion leads from v2 to v1"):
        plugin.conversions.check("v1")
    assert plugin.interfaces == ["conversion"]
