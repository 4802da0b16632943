"""gpu-check's correctness, as tests: `make test-gpu`."""

import pytest
import torch

from benchmarks.gpu_check import __main__ as gpu_check
from benchmarks.gpu_check.check import FAILED, Place

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("name", ["backends", "exact", "fp8", "pair"])
def test_nothing_fails(name):
    findings = gpu_check.run(name, Place(torch.device("cuda")))
    assert not [finding for finding in findings if finding["status"] == FAILED]
