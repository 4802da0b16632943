"""How busy a replica is, by its own /metrics."""

from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families


@dataclass(frozen=True, slots=True)
class Load:
    """Sequences that wait for the replica, those in its batch, all that are open there, and as many as it runs."""

    num_waiting: float
    num_running: float
    num_open: float = 0.0
    max_sequences: float = 0.0


def parse(text: str) -> Load:
    """From the body of a scrape."""
    values = {sample.name: sample.value for family in text_string_to_metric_families(text) for sample in family.samples}
    names = ("num_requests_waiting", "num_requests_running", "open_streams", "max_sequences")
    return Load(*(values.get(f"forerun_{name}", 0.0) for name in names))
