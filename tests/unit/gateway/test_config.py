"""The gateway's flags: what cannot work is refused at start, by its name."""

import pytest

from forerun.config import parse
from forerun.errors import ConfigError
from gateway.api.limits import Limits
from gateway.config import GatewayConfig

LIMIT = Limits().num_draft_tokens


@pytest.mark.parametrize(("text", "k"), [("auto", None), ("0", 0), ("8", 8), (str(LIMIT), LIMIT)])
def test_k_is_auto_or_a_number_up_to_what_a_request_may_ask_for(text, k):
    assert GatewayConfig(num_draft_tokens=text).fixed_num_draft_tokens == k


@pytest.mark.parametrize("text", ["", "-1", "4.5", "many", str(LIMIT + 1), "1000"])
def test_any_other_k_is_refused_by_the_flags_name(text):
    with pytest.raises(ConfigError, match=r"^--num-draft-tokens .*"):
        GatewayConfig(num_draft_tokens=text)


@pytest.mark.parametrize("k", [-1, 0, LIMIT + 1])
def test_a_bound_for_auto_that_no_proposal_could_have_is_refused_by_the_flags_name(k):
    with pytest.raises(ConfigError, match=rf"^--max-num-draft-tokens .* {LIMIT}"):
        GatewayConfig(max_num_draft_tokens=k)


PARSED = [
    ((), {}, ("127.0.0.1:50052",)),
    ((), {"FORERUN_TARGET_ADDRESSES": "a:1, b:2,"}, ("a:1", "b:2")),
    (("--target", "c:3", "--target-addresses", "d:4,dns:///e:5"), {"FORERUN_TARGET_ADDRESSES": "a:1"}, None),
    (("--target", ""), {}, ()),
]


@pytest.mark.parametrize(("flags", "environ", "addresses"), PARSED)
def test_addresses_come_from_a_list_or_a_repeated_flag(flags, environ, addresses):
    parsed = parse(GatewayConfig, flags, "gateway", environ)
    assert parsed.target_addresses == (addresses if addresses is not None else ("c:3", "d:4", "dns:///e:5"))


@pytest.mark.parametrize("name", ["max_choices", "max_queue_s", "max_requests_per_key", "max_body_bytes"])
def test_a_limit_below_which_nothing_could_be_asked_for_is_refused_by_the_flags_name(name):
    with pytest.raises(ConfigError, match="^--" + name.replace("_", "-")):
        GatewayConfig(**{name: 0})


def test_what_is_not_given_follows_from_the_context():
    limits = GatewayConfig(max_stops=0, max_waiting_requests=0).limits(100)
    assert (limits.prompt_tokens, limits.output_tokens) == (100, 1600)
    assert (limits.stops, limits.waiting_requests) == (0, 0)
