"""A stop is asked for by signal; it costs nothing that was done."""

import signal

import pytest

from forerun.training.interruption import Interruption


def test_ctrl_c_asks_once_and_then_does_what_it_always_did():
    with Interruption() as interruption:
        assert not interruption.asked
        signal.raise_signal(signal.SIGINT)
        assert interruption.asked
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_a_termination_that_comes_twice_asks_once():
    with Interruption() as interruption:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        assert interruption.asked


def test_afterwards_signals_do_what_they_did():
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with Interruption():
        signal.raise_signal(signal.SIGINT)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
