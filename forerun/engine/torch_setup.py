"""The only place with process-wide torch state; called by the services' __main__ before anything else touches torch."""

from typing import Any

import torch
from transformers.utils import logging as transformers_logging

from forerun.engine import paged_attention


def prepare(num_threads: int) -> None:
    """Registers the attention function, quiets the loader's bars, fixes the thread count; 0 keeps torch's own."""
    paged_attention.register()
    quiet: Any = transformers_logging
    quiet.disable_progress_bar()
    quiet.set_verbosity_error()
    if num_threads:
        torch.set_num_threads(num_threads)
