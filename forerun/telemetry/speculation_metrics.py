"""What proposals are worth: instruments of the gateway's rounds."""

from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Histogram

from forerun.telemetry import buckets

DRAFT_SERVICE = "service"  # the drafter that is not one of the gateway's own


@dataclass(frozen=True, slots=True)
class RoundSummary:
    """One finished round of one choice; num_draft_tokens is what the target was given to verify."""

    num_draft_tokens: int
    num_accepted_tokens: int
    duration_s: float
    draft_wait_s: float = 0.0
    drafted_ahead: bool = False
    drafter: str = DRAFT_SERVICE


class SpeculationMetrics:
    """Acceptance rate = accepted / draft tokens; mean acceptance length = 1 + accepted / drafts."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._per_position: list[Counter] = []
        prefix = "forerun_spec_decode_num_"
        self._drafts = Counter(prefix + "drafts", "Proposals that were verified.", registry=registry)
        self._draft_tokens = Counter(prefix + "draft_tokens", "Tokens in them.", registry=registry)
        self._accepted = Counter(prefix + "accepted_tokens", "Those that the target accepted.", registry=registry)
        self._positions = Counter(
            prefix + "accepted_tokens_per_pos",
            "The same by position in the proposal.",
            ("position",),
            registry=registry,
        )
        self._drafter_tokens = Counter(
            "forerun_drafter_draft_tokens", "Verified tokens by who drafted them.", ("drafter",), registry=registry
        )
        self._drafter_accepted = Counter(
            "forerun_drafter_accepted_tokens", "Those that the target accepted.", ("drafter",), registry=registry
        )
        self._k = Histogram(
            "forerun_num_draft_tokens", "K of a round.", buckets=buckets.DRAFT_TOKENS, registry=registry
        )
        self._draft_wait = Histogram(
            "forerun_draft_wait_seconds", "Wait for a proposal.", buckets=buckets.ROUND_SECONDS, registry=registry
        )
        self._round = Histogram(
            "forerun_round_duration_seconds", "Propose and verify.", buckets=buckets.ROUND_SECONDS, registry=registry
        )
        self.pushed = Counter(
            "forerun_ahead_proposals", "Proposals that drafts pushed ahead of a verdict.", registry=registry
        )
        self._hits = Counter(
            "forerun_ahead_hits", "Verified proposals that were drafted ahead of a verdict.", registry=registry
        )
        self.overtaken = Counter(
            "forerun_overtaken_proposals", "Proposals dropped for a base_len already passed.", registry=registry
        )
        self.refused = Counter(
            "forerun_refused_proposals", "Proposals that could not be used.", ("reason",), registry=registry
        )
        self.fallbacks = Counter(
            "forerun_draft_fallbacks", "Rounds that went on without the draft.", ("reason",), registry=registry
        )

    def observe(self, summary: RoundSummary) -> None:
        """Counts one round."""
        self._k.observe(summary.num_draft_tokens)
        self._round.observe(summary.duration_s)
        if summary.num_draft_tokens == 0:
            return
        self._drafts.inc()
        self._draft_tokens.inc(summary.num_draft_tokens)
        self._accepted.inc(summary.num_accepted_tokens)
        self._drafter_tokens.labels(summary.drafter).inc(summary.num_draft_tokens)
        self._drafter_accepted.labels(summary.drafter).inc(summary.num_accepted_tokens)
        self._hits.inc(summary.drafted_ahead)
        self._draft_wait.observe(summary.draft_wait_s)
        for position in range(summary.num_accepted_tokens):
            self._at(position).inc()

    def _at(self, position: int) -> Counter:
        while len(self._per_position) <= position:
            self._per_position.append(self._positions.labels(str(len(self._per_position))))
        return self._per_position[position]
