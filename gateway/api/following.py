"""Times one request: first token, time between tokens, the whole; and sums it up."""

from collections.abc import Callable

from forerun.telemetry.summary import RequestSummary
from gateway.api.freshness import Freshness
from gateway.api.job import Job
from gateway.api.observer import OPERATIONS, Watch
from gateway.api.totals import Totals


class Following:
    """What telemetry learns of a running request."""

    def __init__(
        self, job: Job, request_id: str, watch: Watch, freshness: Freshness, clock: Callable[[], float]
    ) -> None:
        self._job = job
        self._request_id = request_id
        self._watch = watch
        self._freshness = freshness
        self._clock = clock
        self._started = clock()
        self._first: float | None = None
        self._last: list[float | None] = [None] * job.num_choices

    def on_tokens(self, index: int, num_tokens: int) -> None:
        """Called for every burst of tokens of a choice."""
        now = self._clock()
        last = self._last[index]
        if last is not None:
            self._watch.inter_token((now - last) / num_tokens)
        if self._first is None:
            self._first = now
            self._watch.first_token()
        self._last[index] = now
        self._freshness.token()

    def end(self, totals: Totals, status: int, error: str) -> None:
        """Tells how the request ended."""
        self._watch.end(
            RequestSummary(
                request_id=self._request_id,
                operation=OPERATIONS[self._job.endpoint],
                model=self._job.model,
                duration_s=self._clock() - self._started,
                time_to_first_token_s=None if self._first is None else self._first - self._started,
                finish_reasons=tuple(reason for reason in totals.finish_reasons if reason),
                num_prompt_tokens=totals.num_prompt_tokens,
                num_cached_tokens=totals.stats.num_cached_tokens,
                num_generated_tokens=totals.num_generated_tokens,
                num_drafts=totals.stats.num_drafts,
                num_draft_tokens=totals.stats.num_draft_tokens,
                num_accepted_tokens=totals.stats.num_accepted_tokens,
                stream=self._job.stream,
                status=status,
                error=error,
            )
        )

    @staticmethod
    def refusal(request_id: str, operation: str, status: int, error: str) -> RequestSummary:
        """Returns the summary of a request that never ran."""
        return RequestSummary(request_id, operation, "unknown", 0.0, status=status, error=error)
