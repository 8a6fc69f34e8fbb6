"""The logic, natively: the cases that all plugins of NginxServer share, and what is Python's own."""

from pathlib import Path

import pytest

from hotshoe.testing import answer, cases
from nginx_python import plugin

CASES = Path(__file__).parent.parent / "cases"


@pytest.mark.parametrize("case", cases(CASES), ids=str)
def test_case(case):
    case.check(plugin)


def test_a_deployment_that_has_no_status_yet_has_no_available_pods():
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}}
    decision = answer(plugin, {"metadata": {"name": "web"}, "spec": {"replicas": 2}}, children=[deployment])
    assert decision.status == {"availableReplicas": 0, "podNames": []}
    assert decision.conditions[0].message == "0 of 2 Pods are available"
