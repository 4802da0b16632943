"""Values survive the wire, and what a peer makes up does not."""

import dataclasses

import numpy as np
import pytest

from forerun.errors import InvalidRequest
from forerun.rpc import convert
from forerun.types import Proposal, SamplingParams, ServiceInfo, SparseLaw, TokenLogprobs, Verdict, Verification
from forerun.v1 import common_pb2, target_pb2


def law(ids, weights):
    return SparseLaw(np.array(ids, np.int64), np.array(weights, np.int64))


def test_sampling_params_survive():
    params = SamplingParams(
        temperature=0.7,
        top_p=0.9,
        top_k=40,
        min_p=0.05,
        presence_penalty=-1.5,
        frequency_penalty=0.3,
        repetition_penalty=1.1,
        logit_bias=((3, -100.0), (9, 2.5)),
        min_tokens=4,
        stop_token_ids=(0, 2),
        verification=Verification.MATCH,
    )
    wire = common_pb2.Sampling.FromString(convert.sampling_to_pb(params).SerializeToString())
    assert convert.sampling_from_pb(wire) == params


def test_sampling_without_a_rule_is_refused():
    with pytest.raises(InvalidRequest, match="verification rule 0"):
        convert.sampling_from_pb(common_pb2.Sampling())


def test_a_proposal_survives_with_laws_of_different_size():
    proposal = Proposal(17, (5, 6), (law([5, 1], [65535, 1]), law([6], [9])), 0.5)
    wire = common_pb2.Proposal.FromString(convert.proposal_to_pb(proposal).SerializeToString())
    back = convert.proposal_from_pb(wire)
    assert (back.base_len, back.tokens, back.draft_s) == (17, (5, 6), 0.5)
    assert [each.ids.tolist() for each in back.laws] == [[5, 1], [6]]
    assert [each.weights.tolist() for each in back.laws] == [[65535, 1], [9]]


def test_a_proposal_under_match_has_no_laws():
    assert convert.proposal_from_pb(common_pb2.Proposal(base_len=1, tokens=[2**32 - 1])).laws == ()


@pytest.mark.parametrize(
    "fields",
    [
        {"tokens": [1], "support_lens": [2], "support_ids": [1], "weights": [1]},
        {"tokens": [1], "support_lens": [1], "support_ids": [1], "weights": []},
        {"tokens": [1, 2], "support_lens": [1], "support_ids": [1], "weights": [1]},
        {"tokens": [1], "support_lens": [0], "support_ids": [], "weights": []},
        {"tokens": [1], "support_lens": [1], "support_ids": [1], "weights": [0]},
        {"tokens": [1], "support_lens": [2], "support_ids": [1, 1], "weights": [1, 1]},
        {"tokens": [1], "support_lens": [], "support_ids": [1], "weights": [1]},
    ],
)
def test_laws_that_do_not_fit_together_are_refused(fields):
    with pytest.raises(InvalidRequest):
        convert.proposal_from_pb(common_pb2.Proposal(base_len=1, **fields))


def test_a_verdict_survives():
    logprobs = (TokenLogprobs(-0.5, (3, 4), (-0.5, -1.25)), TokenLogprobs(-2.0))
    verdict = Verdict(9, 1, 4, logprobs, 0.25, 7, 2, 16, "why")
    wire = target_pb2.Verdict.FromString(convert.verdict_to_pb(verdict).SerializeToString())
    assert convert.logprobs_from_pb(wire.logprobs) == logprobs
    plain = [field.name for field in dataclasses.fields(Verdict) if field.name != "logprobs"]
    assert {name: getattr(wire, name) for name in plain} == {name: getattr(verdict, name) for name in plain}


def test_info_survives_and_rules_of_a_later_version_are_left_out():
    info = ServiceInfo("draft", "1", "m", 64, "f", (0, 2), 512, "cpu", "ngram", tuple(Verification), 16, 9, 8, 7, 6)
    wire = convert.info_to_pb(info)
    wire.verifications.append(9)
    assert convert.info_from_pb(wire) == info
