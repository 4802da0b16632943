"""Values of forerun.types ⇄ messages of protos/forerun/v1. What comes from a peer is checked here, once."""

from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise

import numpy as np

from forerun.errors import InvalidRequest
from forerun.types import Proposal, SamplingParams, ServiceInfo, SparseLaw, TokenLogprobs, Verdict, Verification
from forerun.v1 import common_pb2, target_pb2

MAX_SUPPORT = 4_096  # ids of one law

_TO_WIRE = {
    Verification.MATCH: common_pb2.VERIFICATION_MATCH,
    Verification.REJECTION: common_pb2.VERIFICATION_REJECTION,
    Verification.BLOCK: common_pb2.VERIFICATION_BLOCK,
}
_FROM_WIRE = {wire: rule for rule, wire in _TO_WIRE.items()}


def sampling_to_pb(params: SamplingParams) -> common_pb2.Sampling:
    """The wire's form of `params`."""
    return common_pb2.Sampling(
        temperature=params.temperature,
        top_p=params.top_p,
        top_k=params.top_k,
        min_p=params.min_p,
        presence_penalty=params.presence_penalty,
        frequency_penalty=params.frequency_penalty,
        repetition_penalty=params.repetition_penalty,
        logit_bias=[common_pb2.LogitBias(token_id=token, bias=bias) for token, bias in params.logit_bias],
        min_tokens=params.min_tokens,
        stop_token_ids=params.stop_token_ids,
        verification=_TO_WIRE[params.verification],
    )


def sampling_from_pb(pb: common_pb2.Sampling) -> SamplingParams:
    """The parameters in `pb`; raises InvalidRequest where no verification rule is named."""
    if pb.verification not in _FROM_WIRE:
        raise InvalidRequest(f"unknown verification rule {pb.verification}", "sampling.verification")
    return SamplingParams(
        temperature=pb.temperature,
        top_p=pb.top_p,
        top_k=pb.top_k,
        min_p=pb.min_p,
        presence_penalty=pb.presence_penalty,
        frequency_penalty=pb.frequency_penalty,
        repetition_penalty=pb.repetition_penalty,
        logit_bias=tuple((entry.token_id, entry.bias) for entry in pb.logit_bias),
        min_tokens=pb.min_tokens,
        stop_token_ids=tuple(pb.stop_token_ids),
        verification=_FROM_WIRE[pb.verification],
    )


def proposal_to_pb(proposal: Proposal) -> common_pb2.Proposal:
    """The wire's form: laws lie one after another, `support_lens` cuts them."""
    pb = common_pb2.Proposal(base_len=proposal.base_len, tokens=proposal.tokens, draft_s=proposal.draft_s)
    for law in proposal.laws:
        pb.support_lens.append(len(law.ids))
        pb.support_ids.extend(law.ids.tolist())
        pb.weights.extend(law.weights.tolist())
    return pb


def proposal_from_pb(pb: common_pb2.Proposal) -> Proposal:
    """The proposal in `pb`.

    Raises InvalidRequest for laws that do not fit together (`check_laws`). Whether ids are in the vocabulary is the
    target's to judge: an id that it lacks is rejected there, never dropped.
    """
    check_laws(pb)
    laws: tuple[SparseLaw, ...] = ()
    if pb.support_lens:
        ids, weights = np.array(pb.support_ids, np.int64), np.array(pb.weights, np.int64)
        laws = tuple(SparseLaw(ids[start:end], weights[start:end]) for start, end in _spans(pb.support_lens))
    return Proposal(pb.base_len, tuple(pb.tokens), laws, pb.draft_s)


def check_laws(pb: common_pb2.Proposal) -> None:
    """Raises InvalidRequest unless there are no laws, or one a token: different ids, as many weights, each at least 1.

    Counts come first: what a hostile peer sends is not walked through before its size is known to be sane.
    """
    lens, num_ids, num_tokens = pb.support_lens, len(pb.support_ids), len(pb.tokens)
    if len(pb.weights) != num_ids or num_ids > MAX_SUPPORT * num_tokens or len(lens) not in (0, num_tokens):
        told = f"{num_tokens} tokens, {len(lens)} lengths, {num_ids} ids, {len(pb.weights)} weights"
        raise InvalidRequest(f"laws do not fit: {told}")
    if sum(lens) != num_ids:
        raise InvalidRequest(f"laws do not fit: {num_ids} ids, lengths that sum to {sum(lens)}")
    if lens and (min(lens) == 0 or min(pb.weights) == 0):
        raise InvalidRequest("every proposed token needs one law, not empty, with weights of at least 1")
    ids = list(pb.support_ids)
    if any(len(set(ids[start:end])) < end - start for start, end in _spans(lens)):
        raise InvalidRequest("a law names a token twice")


def _spans(lens: Iterable[int]) -> Iterable[tuple[int, int]]:
    return pairwise(accumulate(lens, initial=0))


def logprobs_to_pb(logprobs: Iterable[TokenLogprobs]) -> list[target_pb2.TokenLogprobs]:
    """One message a token."""
    return [
        target_pb2.TokenLogprobs(logprob=each.logprob, top_ids=each.top_ids, top_logprobs=each.top_logprobs)
        for each in logprobs
    ]


def logprobs_from_pb(pbs: Sequence[target_pb2.TokenLogprobs]) -> tuple[TokenLogprobs, ...]:
    """One value a message."""
    return tuple(TokenLogprobs(pb.logprob, tuple(pb.top_ids), tuple(pb.top_logprobs)) for pb in pbs)


def verdict_to_pb(verdict: Verdict) -> target_pb2.Verdict:
    """The wire's form of `verdict`."""
    return target_pb2.Verdict(
        base_len=verdict.base_len,
        num_accepted=verdict.num_accepted,
        token=verdict.token,
        logprobs=logprobs_to_pb(verdict.logprobs),
        step_s=verdict.step_s,
        num_rows=verdict.num_rows,
        num_queued=verdict.num_queued,
        num_cached_tokens=verdict.num_cached_tokens,
        refused=verdict.refused,
        queued_s=verdict.queued_s,
    )


def info_to_pb(info: ServiceInfo) -> common_pb2.Info:
    """The wire's form of `info`."""
    return common_pb2.Info(
        service=info.service,
        version=info.version,
        model=info.model,
        vocab_size=info.vocab_size,
        fingerprint=info.fingerprint,
        eos_token_ids=info.eos_token_ids,
        max_model_len=info.max_model_len,
        backend=info.backend,
        method=info.method,
        verifications=[_TO_WIRE[rule] for rule in info.verifications],
        block_size=info.block_size,
        num_blocks=info.num_blocks,
        num_free_blocks=info.num_free_blocks,
        num_running=info.num_running,
        num_waiting=info.num_waiting,
        max_sequences=info.max_sequences,
    )


def info_from_pb(pb: common_pb2.Info) -> ServiceInfo:
    """The info in `pb`; rules unknown to this version are left out."""
    return ServiceInfo(
        service=pb.service,
        version=pb.version,
        model=pb.model,
        vocab_size=pb.vocab_size,
        fingerprint=pb.fingerprint,
        eos_token_ids=tuple(pb.eos_token_ids),
        max_model_len=pb.max_model_len,
        backend=pb.backend,
        method=pb.method,
        verifications=tuple(_FROM_WIRE[rule] for rule in pb.verifications if rule in _FROM_WIRE),
        block_size=pb.block_size,
        num_blocks=pb.num_blocks,
        num_free_blocks=pb.num_free_blocks,
        num_running=pb.num_running,
        num_waiting=pb.num_waiting,
        max_sequences=pb.max_sequences,
    )
