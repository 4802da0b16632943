"""API keys: which pass, which do not, and what a change of their file does."""

import os

import pytest

from forerun.errors import ConfigError, Overloaded, Unauthenticated
from gateway.api import keys as module
from gateway.api.clients import Clients
from gateway.api.keys import LOOK_EVERY_S, ApiKeys

ONE, TWO = "sk-one-aaaaaaaaaaaa", "sk-two-bbbbbbbbbbbb"


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "keys"
    path.write_text(f"# of the team\n{ONE}\n\n  {TWO}  \n")
    return path


def bearer(key):
    return f"Bearer {key}"


def test_every_key_of_the_file_passes_and_each_is_another(path):
    keys = ApiKeys(str(path))
    assert keys.identity(bearer(ONE)) == keys.identity(f"bearer  {ONE} ")
    assert keys.identity(bearer(ONE)) != keys.identity(bearer(TWO))
    assert ONE not in keys.identity(bearer(ONE))


@pytest.mark.parametrize("shown", ["", "Bearer", "Bearer ", ONE, f"Basic {ONE}", bearer(ONE[:-1]), bearer(ONE + "a"),
                                   bearer("# of the team"), bearer("\udcff"), bearer("é" * 16)])  # fmt: skip
def test_anything_else_is_refused_without_being_quoted(path, shown):
    with pytest.raises(Unauthenticated) as refusal:
        ApiKeys(str(path)).identity(shown)
    assert "aaaa" not in str(refusal.value)


def test_whichever_key_fits_all_are_compared_and_only_as_digests(path, monkeypatch):
    compared = []
    plain = module.hmac.compare_digest
    monkeypatch.setattr(module.hmac, "compare_digest", lambda a, b: compared.append((len(a), len(b))) or plain(a, b))
    keys = ApiKeys(str(path))
    for shown in (ONE, TWO):
        keys.identity(bearer(shown))
    assert compared == [(32, 32)] * 4


def test_a_file_that_changes_is_read_again_within_a_second(path):
    clock = Clock()
    keys = ApiKeys(str(path), clock)
    path.write_text(TWO)
    keys.identity(bearer(ONE))
    clock.now += LOOK_EVERY_S
    keys.identity(bearer(TWO))
    with pytest.raises(Unauthenticated):
        keys.identity(bearer(ONE))


@pytest.mark.parametrize("change", ["emptied", "removed", "short"])
def test_a_change_that_leaves_no_usable_key_leaves_the_last_ones(path, change, caplog):
    clock = Clock()
    keys = ApiKeys(str(path), clock)
    if change == "removed":
        os.remove(path)
    else:
        path.write_text("" if change == "emptied" else "secret")
    clock.now += LOOK_EVERY_S
    keys.identity(bearer(ONE))
    assert "going on with the last API keys" in caplog.text
    assert "secret" not in caplog.text
    path.write_text(TWO)
    clock.now += LOOK_EVERY_S
    with pytest.raises(Unauthenticated):
        keys.identity(bearer(ONE))


@pytest.mark.parametrize("text", ["", "# nothing", "short", "has a space in its midst", "ключключключключключ"])
def test_a_file_without_a_usable_key_is_refused_at_the_start(path, text):
    path.write_text(text)
    with pytest.raises(ConfigError, match="--api-keys-file"):
        ApiKeys(str(path))


def test_a_key_has_so_many_requests_at_once_and_its_neighbour_as_many(path):
    clients = Clients(ApiKeys(str(path)), max_requests=2)
    with clients.inside(bearer(ONE)) as first, clients.inside(bearer(ONE)) as second:
        assert first == second
        with pytest.raises(Overloaded), clients.inside(bearer(ONE)):
            pass
        with clients.inside(bearer(TWO)) as other:
            assert other != first
    with clients.inside(bearer(ONE)), clients.inside(bearer(ONE)):
        pass


def test_without_a_file_nobody_is_refused():
    clients = Clients(max_requests=1)
    with clients.inside(""), clients.inside(""), clients.inside(bearer("anything")) as who:
        assert who == "anything"
