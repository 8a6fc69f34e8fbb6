"""A parent is judged and filled in before it is stored."""

from pathlib import Path

import pytest

from hotshoe import FieldError, Kind, Plugin, Proposal, Reject, User, Verdict
from hotshoe.testing import Case, defaulted, proposal, verdict
from hotshoe.wire import WireVerdict

METADATA = {"name": "shop", "namespace": "default"}
OBJECT = {"metadata": {**METADATA, "managedFields": [{"manager": "kubectl"}]}, "spec": {"size": 2}}


def new_plugin():
    return Plugin("cache", version="0.1.0", parent=Kind("example.com/v1", "Cache"))


def judging(answer):
    plugin = new_plugin()
    plugin.validate(answer if callable(answer) else lambda proposal: answer)
    return plugin


def filling_in(function):
    plugin = new_plugin()
    plugin.default(function)
    return plugin


def test_a_proposed_parent_is_shown_whole_with_the_stored_one_and_the_configuration():
    shown = proposal(new_plugin(), OBJECT)
    assert (shown.operation, shown.object, shown.old) == ("create", {"metadata": METADATA, "spec": {"size": 2}}, None)
    assert (shown.name, shown.namespace, shown.spec, shown.dry_run) == ("shop", "default", {"size": 2}, False)
    shown = proposal(new_plugin(), OBJECT, old={**OBJECT, "spec": {"size": 3}}, config={"least": 2}, dry_run=True)
    assert (shown.operation, shown.old["spec"], shown.config, shown.dry_run) == ("update", {"size": 3}, {"least": 2}, True)


def test_who_writes_a_parent_is_shown_if_the_host_says_it():
    assert proposal(new_plugin(), OBJECT).user is None
    alice = User("alice", groups=("dev",))
    assert proposal(new_plugin(), OBJECT, user=alice).user == alice
    assert proposal(new_plugin(), OBJECT, user={"username": "alice", "groups": ["dev"]}).user == alice


def test_each_wrong_field_has_a_path_a_reason_of_metav1_and_a_message():
    error = FieldError("spec.size", "NotSupported", "write 1 or 3")
    crossed = WireVerdict(Verdict([error], ["it is small"]))
    assert [(it.field, it.reason.value, it.message) for it in crossed.errors] == [("spec.size", 3, "write 1 or 3")]
    assert crossed.warnings == ["it is small"]


def test_no_answer_is_a_verdict_without_errors():
    assert verdict(judging(None), OBJECT) == Verdict([], [])


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (False, r"validate \(.*test_admission.py:\d+\) returned a bool instead of a Verdict or None"),
        (["no"], "returned a list instead of a Verdict"),
        (Verdict(errors="no"), "errors is 'no' instead of a list"),
        (Verdict(errors=["no"]), "errors: 'no' is no FieldError"),
        (Verdict([FieldError("spec", "Wrong", "no")]), "reason of the error in spec is 'Wrong' instead of one of Invalid,"),
        (Verdict([FieldError(None, "Invalid", "no")]), "the field of a FieldError is None instead of a text"),
        (Verdict([FieldError("spec", "Invalid", 5)]), "the message of the error in spec is 5 instead of a text"),
        (Verdict(warnings=[5]), "a warning is 5 instead of a text"),
    ],
)
def test_what_is_wrong_in_a_verdict_is_named(answer, said):
    with pytest.raises((TypeError, ValueError), match=said):
        verdict(judging(answer), OBJECT)


def test_defaults_are_filled_into_the_object_that_was_shown_or_into_another_one():
    def fill_in(proposal: Proposal) -> None:
        proposal.spec.setdefault("tier", proposal.config["tier"])

    expected = {"metadata": METADATA, "spec": {"size": 2, "tier": "small"}}
    assert defaulted(filling_in(fill_in), OBJECT, config={"tier": "small"}) == expected
    another = filling_in(lambda proposal: {**proposal.object, "spec": {**proposal.spec, "tier": "small"}})
    assert defaulted(another, OBJECT) == expected
    without_spec = {"metadata": {"generateName": "shop-"}}
    assert defaulted(filling_in(fill_in), without_spec, config={"tier": "small"})["spec"] == {"tier": "small"}


def test_an_object_without_a_spec_into_which_nothing_is_filled_stays_as_it_is():
    assert defaulted(filling_in(lambda proposal: proposal.spec.get("tier") and None), {"metadata": METADATA}) == {"metadata": METADATA}


def test_defaults_that_are_no_object_are_named():
    with pytest.raises(TypeError, match="returned a list instead of the object, a dict, or None"):
        defaulted(filling_in(lambda proposal: []), OBJECT)
    with pytest.raises(TypeError, match="object.spec is a set, which is no JSON value"):
        defaulted(filling_in(lambda proposal: {"spec": {1}}), OBJECT)


def test_an_exception_comes_through():
    def refuse(proposal):
        raise Reject("too large", field="spec.size")

    with pytest.raises(Reject, match="too large"):
        verdict(judging(refuse), OBJECT)
    parent = {"apiVersion": "example.com/v1", "kind": "Cache", **OBJECT}
    case = {"name": "a", "call": "validate", "parent": parent, "expect": {"reject": {"message": "too large", "field": "spec.size"}}}
    Case(Path("a.yaml"), case).check(judging(refuse))


def test_cases_of_validate_and_default_are_checked():
    parent = {"apiVersion": "example.com/v1", "kind": "Cache", **OBJECT}
    case = {"name": "a", "call": "validate", "parent": parent, "old": {**parent, "spec": {"size": 3}}}
    shrinks = judging(lambda it: Verdict(warnings=["it shrinks"]) if it.old and it.old["spec"]["size"] > 2 else None)
    Case(Path("a.yaml"), {**case, "expect": {"verdict": {"warnings": ["it shrinks"]}}}).check(shrinks)
    del case["old"]
    Case(Path("a.yaml"), {**case, "expect": {"verdict": {}}}).check(shrinks)
    expect = {"defaulted": {**parent, "metadata": METADATA}}
    fills = filling_in(lambda it: it.spec.update(old=None))
    Case(Path("b.yaml"), {"name": "b", "call": "default", "parent": parent, "expect": expect}).check(fills)
    Case(Path("c.yaml"), {**case, "valid": False, "expect": {"verdict": {}}}).check(shrinks)
    Case(Path("d.yaml"), {"name": "d", "parent": parent, "expect": {"refused": [{"field": "spec.size"}]}}).check(shrinks)
    with pytest.raises(TypeError, match="has no function to validate; register one with @plugin.validate"):
        verdict(fills, OBJECT)
    with pytest.raises(TypeError, match="has no function to fill in defaults; register one with @plugin.default"):
        defaulted(shrinks, OBJECT)


def test_only_the_interfaces_for_which_there_are_functions_are_exported():
    assert new_plugin().interfaces == []
    assert judging(None).interfaces == ["validation"]
    assert filling_in(lambda proposal: None).interfaces == ["defaulting"]
