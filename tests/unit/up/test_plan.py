"""The commands of the three services fit each other, and a port that cannot be had is named."""

import socket

import pytest

from forerun.errors import ConfigError
from forerun.up import plan as plan_module
from forerun.up.config import UpConfig
from forerun.up.plan import check_ports, make_plan
from tests.support.ports import free_ports


def flag(service, name):
    return service.module_args[list(service.module_args).index(name) + 1]


def some_config(**changes):
    names = ("http_port", "grpc_port", "draft_port", "target_port", "draft_metrics_port", "target_metrics_port")
    return UpConfig(**{**dict(zip(names, free_ports(6), strict=True)), **changes})


def test_the_gateway_is_told_where_the_others_listen():
    plan = make_plan(UpConfig())
    assert flag(plan.gateway, "--draft-addresses") == f"127.0.0.1:{flag(plan.draft, '--port')}"
    assert flag(plan.gateway, "--target-addresses") == f"127.0.0.1:{flag(plan.target, '--port')}"


def test_the_bundled_model_is_drafted_for_by_the_bundled_draft():
    plan = make_plan(UpConfig(model="bundled"))
    assert (flag(plan.draft, "--method"), flag(plan.draft, "--model")) == ("model", "draft-smollm2-135m")
    assert plan.model == "SmolLM2-135M-Instruct"


def test_another_model_is_drafted_for_by_prompt_lookup():
    plan = make_plan(UpConfig(model="owner/name"))
    assert flag(plan.draft, "--method") == "ngram"
    assert "--model" not in plan.draft.module_args


def test_threads_that_wait_burn_no_core():
    plan = make_plan(UpConfig())
    assert all(s.environ["OMP_WAIT_POLICY"] == "PASSIVE" for s in (plan.draft, plan.target, plan.gateway))
    assert all(0 < int(s.environ["GOMP_SPINCOUNT"]) < 10_000 for s in (plan.draft, plan.target, plan.gateway))


@pytest.mark.parametrize(("cores", "threads"), [(1, 1), (2, 1), (8, 2), (16, 4)])
def test_the_draft_leaves_most_cores_to_the_target(monkeypatch, cores, threads):
    monkeypatch.setattr(plan_module, "num_cores", lambda: cores)
    plan = make_plan(UpConfig())
    assert flag(plan.draft, "--max-threads") == str(threads)
    assert "--max-threads" not in plan.target.module_args


def test_the_drafts_weights_are_its_own_affair():
    plan = make_plan(UpConfig(precision="bf16"))
    assert (flag(plan.target, "--precision"), flag(plan.draft, "--precision")) == ("bf16", "auto")
    assert flag(make_plan(UpConfig(draft_precision="fp32")).draft, "--precision") == "fp32"


def test_free_ports_are_fine():
    check_ports(some_config())


def test_a_port_in_use_is_refused_by_its_flag():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(ConfigError, match="--target-port"):
            check_ports(some_config(target_port=other.getsockname()[1]))


def test_one_port_for_two_is_refused_by_both_flags():
    port = free_ports(1)[0]
    with pytest.raises(ConfigError, match=r"--http-port and --grpc-port"):
        check_ports(some_config(http_port=port, grpc_port=port))
