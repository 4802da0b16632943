"""What could only fail later is refused at once, with the flag's name."""

import pytest

from forerun.bench.config import BenchConfig
from forerun.bench.refusals import MAX_WORDS_LEN, refusal
from forerun.config import parse
from forerun.errors import ConfigError, InvalidRequest, Overloaded, ServiceUnavailable, Unauthenticated, UnknownModel


def config(*argv, **environ):
    return parse(BenchConfig, argv, "forerun bench", environ)


def test_loads_come_as_a_list_by_flag_or_environment():
    assert config().loads == (1, 4, 16)
    assert config("--concurrency", "8,2").loads == (8, 2)
    assert config(FORERUN_CONCURRENCY="3").loads == (3,)


@pytest.mark.parametrize("url", ["http://localhost:8000", "http://localhost:8000/", "http://localhost:8000/v1"])
def test_the_address_may_be_given_as_clients_of_openai_give_it(url):
    assert config("--url", url).base_url == "http://localhost:8000"


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--concurrency", "0"),
        ("--concurrency", "4,x"),
        ("--concurrency", ","),
        ("--num-requests", "15"),
        ("--rounds", "0"),
        ("--warmups", "-1"),
        ("--max-tokens", "0"),
        ("--timeout-s", "0"),
        ("--url", "localhost:8000"),
        ("--url", "http://"),
        ("--url", "http://[::1"),
        ("--api-key", "sk\n"),
        ("--api-key", "schlüssel"),
    ],
)
def test_a_value_that_cannot_work_is_refused_and_its_flag_named(flag, value):
    with pytest.raises(ConfigError, match=flag):
        config(flag, value)


@pytest.mark.parametrize(
    ("status", "kind", "way_out"),
    [
        (400, InvalidRequest, "does not take"),
        (401, Unauthenticated, "--api-key"),
        (403, Unauthenticated, "FORERUN_API_KEY"),
        (404, UnknownModel, "--url"),
        (429, Overloaded, "--concurrency"),
        (503, ServiceUnavailable, "cannot answer now"),
        (502, ServiceUnavailable, "failed"),
    ],
)
def test_a_refusal_says_what_to_do_and_quotes_the_server(status, kind, way_out):
    error = refusal(status, '{"error": {"message": "its own words"}}')
    assert type(error) is kind
    assert way_out in str(error)
    assert f"({status}: its own words)" in str(error)


@pytest.mark.parametrize("body", ["", "<html>\n  <h1>Bad gateway</h1>", '{"error": "x"}', "[1]", "x" * 10_000])
def test_words_that_are_no_error_object_are_quoted_briefly(body):
    assert len(str(refusal(502, body))) < MAX_WORDS_LEN + 100
