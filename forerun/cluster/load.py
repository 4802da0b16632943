"""How busy a replica is, by its own /metrics."""

from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families


@dataclass(frozen=True, slots=True)
class Load:
    """Sequences that wait for the replica and those in its batch."""

    num_waiting: float
    num_running: float


def parse(text: str) -> Load:
    """From the body of a scrape."""
    values = {sample.name: sample.value for family in text_string_to_metric_families(text) for sample in family.samples}
    return Load(values.get("forerun_num_requests_waiting", 0.0), values.get("forerun_num_requests_running", 0.0))
