"""Every error of ours has its status code, and every code becomes the error again."""

import grpc
import pytest

from forerun import errors
from forerun.rpc import status

OURS = [
    errors.InvalidRequest,
    errors.UnknownModel,
    errors.ConfigError,
    errors.SequenceFault,
    errors.Overloaded,
    errors.ServiceUnavailable,
    errors.DeadlineExceeded,
]


@pytest.mark.parametrize("kind", OURS)
def test_an_error_comes_back_as_what_it_was(kind):
    fault = status.fault_of(kind("what was wrong"))
    back = status.error_of_fault(fault)
    assert type(back) is kind and str(back) == "what was wrong"


def test_a_mismatch_comes_back_as_a_config_error():
    assert type(status.error_of_fault(status.fault_of(errors.VocabularyMismatch("id 7")))) is errors.ConfigError


def test_an_unforeseen_error_is_internal_and_quotes_nothing():
    fault = status.fault_of(KeyError("the prompt's text"))
    assert fault.code == grpc.StatusCode.INTERNAL.value[0]
    assert "prompt" not in fault.message
    assert isinstance(status.error_of_fault(fault), errors.ServiceUnavailable)
