"""Fixtures that every kind of test shares: tiny model folders, built once a session."""

import os
import signal
from pathlib import Path

import pytest

pytest_plugins = ["tests.support.processes"]

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("FORERUN_COMPILE", "off")  # takes minutes; tests/parity/test_compiled.py is for what it makes
if "FORERUN_PROMPTS" in os.environ:  # commands of ours would read it, too, where a flag of theirs has that name
    os.environ["TEST_PROMPTS"] = os.environ.pop("FORERUN_PROMPTS")

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # A shell's background job ignores Ctrl-C, and so would all that the tests start and interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)

LONGEST_FIRST = ("simulation", "e2e", "parity", "statistical", "fuzz", "integration")
"""Folders in this order, then the rest: two files run side by side, and neither worker is left with a long one."""


def pytest_collection_modifyitems(items):
    ranks = {folder: rank for rank, folder in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: ranks.get(item.path.parent.name, len(ranks)))


@pytest.fixture(scope="session")
def tiny_pair(tmp_path_factory):
    """Target and draft that share a vocabulary of 64, context 512."""
    return _build(tmp_path_factory, "pair")


@pytest.fixture(scope="session")
def tiny_padded_pair(tmp_path_factory):
    """As tiny_pair (same weights), but 8 padding rows in the target and 3 in the draft."""
    return _build(tmp_path_factory, "padded", target_padding=8, draft_padding=3)


@pytest.fixture(scope="session")
def tiny_short_draft_pair(tmp_path_factory):
    """As tiny_pair, but the draft's context is 64 tokens."""
    return _build(tmp_path_factory, "short-draft", draft_max_model_len=64)


@pytest.fixture(scope="session")
def tiny_mismatched_pair(tmp_path_factory):
    """A pair whose draft has two tokens swapped."""
    from tests.support import tiny

    return tiny.build_mismatched_pair(tmp_path_factory.mktemp("mismatched"))


@pytest.fixture(scope="session")
def bundled_model() -> Path:
    """The real model's folder; converted by the first test that asks."""
    from forerun.models.bundled import prepare_bundled

    return prepare_bundled()


def _build(tmp_path_factory, name, **variant):
    from tests.support import tiny

    return tiny.build_pair(tmp_path_factory.mktemp(name), **variant)
