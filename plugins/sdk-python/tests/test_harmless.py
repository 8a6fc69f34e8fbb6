"""Templates of users lose what a host would deny: the examples are those of each SDK."""

import copy
import json
from pathlib import Path

import pytest

from hotshoe import Reject, harmless, require_harmless
from hotshoe.harmless_rules import RULES

SDK = Path(__file__).parent.parent.parent / "sdk"
EXAMPLES = json.loads((SDK / "tests/harmless.json").read_text())


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example["name"])
def test_what_a_host_would_deny_is_removed_and_named(example):
    template = copy.deepcopy(example["template"])
    expected = example.get("harmless", template)
    assert harmless(template) == (expected, example["removed"])
    assert template == example["template"], "the template of the user stays as it was"
    assert harmless(expected) == (expected, [])


def test_the_rules_are_those_of_each_sdk():
    assert RULES == json.loads((SDK / "src/harmless.json").read_text())


def test_a_template_from_which_something_has_to_be_removed_rejects_the_parent_with_its_field():
    spec = {"containers": [{"name": "a", "image": "b"}]}
    assert require_harmless({"spec": spec}, "spec.template") == harmless({"spec": spec})[0]
    with pytest.raises(Reject, match="^remove spec.hostNetwork, spec.hostPID$") as rejected:
        require_harmless({"spec": {**spec, "hostNetwork": True, "hostPID": True}}, "spec.template")
    assert rejected.value.field == "spec.template"
