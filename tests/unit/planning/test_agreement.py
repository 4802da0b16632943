"""The formula beside the simulation, which shares its step times and nothing else.

Stated tolerance, of means: 20 % for the time a token, 25 % for the time to the first one, where prompts take less than
45 % of the target's time. Seeds are fixed, so no run differs from another.
"""

from dataclasses import replace

import pytest

from forerun.planning.formula import Formula
from forerun.planning.hardware import Kernel, find_device
from forerun.planning.models import find_model
from forerun.planning.simulation import simulate
from forerun.planning.site import Engine, Links, Site
from forerun.planning.steps import Steps
from forerun.planning.workload import Acceptance, Workload

TPOT_TOLERANCE, TTFT_TOLERANCE = 0.20, 0.25
NUM_REQUESTS = 80
WORKLOAD = Workload(1.0, 600, 120, Acceptance((0.8, 0.75, 0.7)))
LINKS = Links(0.0002, 0.0005)
H200, L4 = find_device("h200"), find_device("l4")
TARGET = Steps(find_model("llama-3.3-70b"), H200, "fp8", "bf16")
BESIDE = Steps(find_model("llama-3.2-1b"), H200, "fp8", "bf16")
FAR = Steps(find_model("llama-3.2-1b"), L4, "fp8", "bf16")
TOGETHER = Engine(turns="together")
SITES = {
    "alone": Site(TARGET, None, 0, "alone", 1, LINKS),
    "co-located": Site(TARGET, BESIDE, 3, "co-located", 1, LINKS),
    "split": Site(TARGET, FAR, 3, "split", 1, LINKS),
    "split, four targets a draft": Site(TARGET, FAR, 3, "split", 4, LINKS),
    "split, 20 ms away": Site(TARGET, FAR, 3, "split", 1, Links(0.0002, 0.02)),
    "co-located, together": Site(TARGET, BESIDE, 3, "co-located", 1, LINKS, TOGETHER),
    "split, together": Site(TARGET, FAR, 3, "split", 1, LINKS, TOGETHER),
}


def errors(site, load, assumed=None):
    """The formula's TPOT and TTFT over the simulation's, less 1. assumed: what the formula takes the site for."""
    operation = Formula(assumed or site, WORKLOAD).at_load(load)
    assert operation.prompting < 0.45
    seen = simulate(site, WORKLOAD, operation.rate, NUM_REQUESTS)
    return operation.tpot_s / seen.mean("tpot_s") - 1, operation.ttft_s / seen.mean("ttft_s") - 1


@pytest.mark.parametrize("load", [pytest.param(1.0, marks=pytest.mark.full), 4.0])
@pytest.mark.parametrize("name", SITES)
def test_formula_and_simulation_agree(name, load):
    tpot, ttft = errors(SITES[name], load)
    assert abs(tpot) <= TPOT_TOLERANCE
    assert abs(ttft) <= TTFT_TOLERANCE


@pytest.mark.full
@pytest.mark.parametrize("name", ["alone", "co-located", "split", "split, four targets a draft"])
def test_formula_and_simulation_agree_where_many_are_served(name):
    test_formula_and_simulation_agree(name, 12.0)


@pytest.mark.parametrize("name", ["alone", "split"])
def test_control_a_wrong_bandwidth_is_caught(name):
    kernel = H200.kernel("fp8")
    slow = replace(H200, kernels={"fp8": Kernel(kernel.bandwidth / 1.5, kernel.flops, kernel.overlap)})
    wrong = replace(SITES[name], target=replace(TARGET, device=slow))
    assert abs(errors(SITES[name], 4.0, wrong)[0]) > TPOT_TOLERANCE


def test_control_a_wrong_acceptance_is_caught():
    doubtful = replace(WORKLOAD, acceptance=Acceptance((0.5, 0.4)))
    operation = Formula(SITES["split"], doubtful).at_load(6.0)
    seen = simulate(SITES["split"], WORKLOAD, operation.rate, NUM_REQUESTS)
    assert abs(operation.tpot_s / seen.mean("tpot_s") - 1) > TPOT_TOLERANCE


def test_a_seed_gives_the_same_run_and_another_gives_another():
    runs = [simulate(SITES["split"], WORKLOAD, 2.0, 30, seed) for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]
