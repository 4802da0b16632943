"""A service that cannot listen says so in one sentence that names the flag, and exits with 2."""

import socket

import pytest

from tests.support.processes import Process

NGRAM = ("--method", "ngram")
NOBODYS = "192.0.2.1"  # an address of documentation: no machine has it


@pytest.fixture
def taken():
    """A port that somebody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


def refusal(module, *flags):
    """The line in which it says why it does not start, after what gRPC itself may have to say."""
    process = Process(module, *flags)
    try:
        assert process.wait() == 2, process.log()
        assert "Traceback" not in process.log()
        line = process.log().splitlines()[-1]
    finally:
        process.kill()
        process.close()
    return line


@pytest.mark.parametrize("flag", ["--port", "--metrics-port"])
def test_a_draft_names_the_flag_of_a_port_that_is_taken(taken, flag):
    others = {"--port": 0, "--metrics-port": 0, flag: taken}
    line = refusal("draft_service", *NGRAM, *(part for pair in others.items() for part in pair))
    assert line.startswith("draft: cannot")
    assert f"127.0.0.1:{taken}" in line
    assert f"another {flag}" in line


def test_a_target_names_the_flag_before_it_loads_anything(taken):
    line = refusal("target_service", "--model", "no/such-model", "--metrics-port", taken)
    assert line.startswith("target: cannot")
    assert "another --metrics-port" in line


@pytest.mark.parametrize("flag", ["--port", "--metrics-port"])
@pytest.mark.parametrize("number", [-1, 65536, 70000])
def test_a_number_that_is_no_port_is_refused_not_wrapped_around(flag, number):
    others = {"--port": 0, "--metrics-port": 0, flag: number}
    line = refusal("draft_service", *NGRAM, *(f"{name}={port}" for name, port in others.items()))
    assert flag in line
    assert str(number) in line


@pytest.mark.parametrize("metrics_port", [0, 9])
def test_an_address_that_is_not_this_machines_is_named(metrics_port):
    line = refusal("draft_service", *NGRAM, "--host", NOBODYS, "--port", 0, "--metrics-port", metrics_port)
    assert NOBODYS in line
    assert "--host" in line


def test_a_service_names_the_flags_of_locks_that_cannot_be(taken, tmp_path):
    line = refusal("draft_service", *NGRAM, "--port", 0, "--metrics-port", 0, "--tls-cert", "cert.pem")
    assert "--tls-key and --tls-ca is missing" in line
    line = refusal("draft_service", *NGRAM, "--port", 0, "--metrics-port", 0, "--health-port", taken)
    assert f"127.0.0.1:{taken}" in line and "another --health-port" in line
    keys = tmp_path / "no-keys"
    keys.write_text("# none yet")
    line = refusal("gateway", "--model", tmp_path, "--api-keys-file", keys)
    assert "--api-keys-file" in line and "no key" in line


def test_a_gateway_names_the_flag_of_its_grpc_port(taken, tiny_pair, tiny_target):
    peers = ("--target-addresses", tiny_target.address, "--draft-addresses", "")
    line = refusal("gateway", "--model", tiny_pair.target, *peers, "--http-port", 0, "--grpc-port", taken)
    assert f"127.0.0.1:{taken}" in line
    assert "another --grpc-port" in line


@pytest.mark.parametrize("port", ["taken", 70000])
def test_a_gateway_names_the_flag_of_its_rest_port(taken, tiny_pair, tiny_target, port):
    peers = ("--target-addresses", tiny_target.address, "--draft-addresses", "", "--grpc-port", 0)
    number = taken if port == "taken" else port
    line = refusal("gateway", "--model", tiny_pair.target, *peers, "--http-port", number)
    assert f"127.0.0.1:{number}" in line
    assert "another --http-port" in line
