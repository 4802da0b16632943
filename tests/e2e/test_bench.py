"""`forerun bench` measures draft, target and gateway as three processes."""

import json

import pytest

from forerun.bench.command import main

NUM_REQUESTS, MAX_TOKENS, K = 4, 24, 4


@pytest.fixture(scope="session")
def gateway(fleet, tiny_pair, tiny_target, tiny_draft):
    """A gateway over the tiny pair that drafts in every round."""
    flags = ("--num-draft-tokens", K)
    return fleet.gateway(tiny_pair.target, tiny_target.address, (tiny_draft.address,), *flags)


@pytest.fixture
def report(gateway, tmp_path):
    """What a short measurement tells."""
    (tmp_path / "prompts.txt").write_text("the stone is another \nof the\n")
    flags = ("--url", gateway.url, "--concurrency", "1,3", "--num-requests", NUM_REQUESTS, "--rounds", 1)
    files = ("--prompts", tmp_path / "prompts.txt", "--json", tmp_path / "bench.json")
    assert main([str(flag) for flag in (*flags, "--max-tokens", MAX_TOKENS, *files)]) == 0
    return json.loads((tmp_path / "bench.json").read_text())


def test_speed_latencies_and_acceptance_are_told_with_and_without_speculation(report):
    assert report["settings"]["model"] == "tiny-target"
    assert [load["concurrency"] for load in report["loads"]] == [1, 3]
    for load in report["loads"]:
        on, off = load["speculation"]["on"], load["speculation"]["off"]
        for mode in (on, off):
            assert (mode["num_done"], mode["num_failed"]) == (NUM_REQUESTS, 0)
            assert 0 < mode["ttft_p50_ms"] <= mode["ttft_p99_ms"]
            assert 0 < mode["tpot_p50_ms"] <= mode["tpot_p99_ms"]
            assert mode["tokens_per_s"] > 0
        assert on["num_tokens"] == off["num_tokens"] > NUM_REQUESTS  # greedy: the same texts
        assert (on["drafted_share"], off["drafted_share"], off["acceptance_rate"]) == (1.0, 0.0, None)
        assert 0 < on["acceptance_rate"] <= 1 < on["mean_acceptance_length"] <= 1 + K
        assert load["on_over_off"]["runs"] == 1
