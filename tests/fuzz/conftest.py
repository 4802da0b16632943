"""The house that is fuzzed, and the count of what was tried."""

import asyncio

import pytest

from tests.support import fuzzing


@pytest.fixture(scope="session")
def fuzzed(fleet, tiny_pair, tiny_target, tiny_draft):
    """A gateway over the tiny pair whose requests stay short; when the tests are over, nothing may be left of them."""
    gateway = fleet.gateway(tiny_pair.target, tiny_target.address, (tiny_draft.address,), "--max-request-tokens", "96")
    yield gateway
    asyncio.run(fuzzing.nothing_is_left(gateway, tiny_target, tiny_draft))
    for process in (gateway, tiny_target, tiny_draft):
        process.check_alive()
        assert "Traceback" not in process.log(), process.log()[-6000:]


def pytest_terminal_summary(terminalreporter):
    if fuzzing.tried:
        told = ", ".join(f"{name} {num}/{fuzzing.served[name]}" for name, num in sorted(fuzzing.tried.items()))
        num_tried, num_served = sum(fuzzing.tried.values()), sum(fuzzing.served.values())
        terminalreporter.write_line(f"fuzz cases tried: {num_tried}, of which {num_served} were served ({told})")
