"""The alert on failing requests leaves out what clients do wrong: every such error, and nothing else."""

import re
from pathlib import Path

import forerun
from gateway.api.errors import _FACES

ALERTS = Path(forerun.__file__).parents[1] / "k8s" / "base" / "monitoring" / "alerts.yaml"
NO_ERRORS = {"", "cancelled"}


def test_the_alert_on_failing_requests_leaves_out_every_error_that_is_the_clients_and_no_other():
    (left_out,) = re.findall(r'error_type!~"([^"]*)"', ALERTS.read_text(encoding="utf-8"))
    clients = {kind.__name__ for kind, face in _FACES if face.http < 500}
    assert set(left_out.split("|")) == NO_ERRORS | clients
