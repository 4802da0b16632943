"""What a request used: tokens, cached tokens, and how speculation went."""

from typing import Any

from gateway.api.job import Job
from gateway.generation import ChoiceStats


class Totals:
    """Sums over the choices of a request; each prompt counts once."""

    def __init__(self, job: Job) -> None:
        self.num_prompt_tokens = sum(len(prompt.ids) for prompt in job.prompts)
        self.num_generated_tokens = 0
        self.finish_reasons: list[str] = [""] * job.num_choices
        self.stats = ChoiceStats()
        self._n = job.n

    def add(self, index: int, stats: ChoiceStats) -> None:
        """Takes what a finished choice cost; only the first of a prompt tells what the cache really held."""
        if index % self._n == 0:
            self.stats.num_cached_tokens += stats.num_cached_tokens
        self.stats.num_drafts += stats.num_drafts
        self.stats.num_draft_tokens += stats.num_draft_tokens
        self.stats.num_accepted_tokens += stats.num_accepted_tokens

    def usage(self) -> dict[str, Any]:
        """Returns OpenAI's usage object."""
        return {
            "prompt_tokens": self.num_prompt_tokens,
            "completion_tokens": self.num_generated_tokens,
            "total_tokens": self.num_prompt_tokens + self.num_generated_tokens,
            "prompt_tokens_details": {"cached_tokens": self.stats.num_cached_tokens},
        }

    def speculative(self) -> dict[str, Any]:
        """Returns the response extension; mean_acceptance_length counts the token that every round brings."""
        return {
            "num_drafts": self.stats.num_drafts,
            "num_draft_tokens": self.stats.num_draft_tokens,
            "num_accepted_tokens": self.stats.num_accepted_tokens,
            "mean_acceptance_length": self.mean_acceptance_length,
            "draft_acceptance_rate": self.draft_acceptance_rate,
        }

    @property
    def mean_acceptance_length(self) -> float:
        """1 + accepted / drafts; 1.0 where nothing was drafted."""
        return 1.0 + self.stats.num_accepted_tokens / max(self.stats.num_drafts, 1)

    @property
    def draft_acceptance_rate(self) -> float:
        """Accepted / drafted tokens; 0.0 where nothing was drafted."""
        return self.stats.num_accepted_tokens / max(self.stats.num_draft_tokens, 1)
