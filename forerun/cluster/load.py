"""How busy a replica is, by its own /metrics."""

from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families


@dataclass(frozen=True, slots=True)
class Load:
    """Sequences that wait for the replica, all that are open there, and as many as it runs; 0 where it does not say."""

    num_waiting: float
    num_open: float
    max_sequences: float = 0.0

    @property
    def is_full(self) -> bool:
        """Whether one more would wait: gateways send no more than targets run and hold the rest back."""
        return 0 < self.max_sequences <= self.num_open


def parse(text: str) -> Load:
    """From the body of a scrape."""
    values = {sample.name: sample.value for family in text_string_to_metric_families(text) for sample in family.samples}
    names = ("forerun_num_requests_waiting", "forerun_open_streams", "forerun_max_sequences")
    return Load(*(values.get(name, 0.0) for name in names))
