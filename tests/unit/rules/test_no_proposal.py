"""A message without a proposal reads the noise of its own position."""

import numpy as np
import pytest

from forerun.types import Proposal, SamplingParams, Verification
from target_service.verifier import Verifier


@pytest.mark.parametrize("rule", Verification)
def test_an_empty_proposal_of_any_base_len_is_as_good_as_none(rule):
    """The wire's absent proposal has base_len 0; keyed by that, every such token would share one noise (case 7)."""
    rows = np.random.default_rng(1).normal(size=(1, 32)).astype(np.float32)
    tokens = {True: [], False: []}
    for length in range(1, 40):
        for same in (True, False):
            verifier = Verifier(SamplingParams(verification=rule), 1, seed=3, choice=0, vocab_size=32)
            verdict = verifier.verify([1] * length, Proposal(length if same else 0), rows)
            tokens[same].append(verdict.token)
    assert tokens[True] == tokens[False]
