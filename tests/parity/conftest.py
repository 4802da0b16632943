"""What several tests of kernels share."""

import pytest
import torch


@pytest.fixture
def one_thread():
    """A test may take more, and leaves as many as there were."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
