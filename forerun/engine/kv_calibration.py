"""How large a model's keys and values are, for the scales of a cache in FP8: one forward over all kinds of tokens.

A scale is fixed before the first request: blocks are shared, and what they hold must not depend on who came first.
"""

import torch

from forerun.engine.attention.base import Segment
from forerun.engine.attention.paged_cpu import PagedCpu
from forerun.engine.batch import Batch
from forerun.engine.kv_cache import KvCache, KvShape
from forerun.engine.model import LoadedModel
from forerun.engine.quant.e4m3 import LARGEST
from forerun.engine.quant.kv import KvScales
from forerun.engine.runner import Runner

NUM_TOKENS = 256
MARGIN = 2.0
"""Other texts may reach so much further: a power of two costs no precision, only the smallest numbers."""

_SMALLEST = 2.0**-20  # of a head that is 0 throughout


def calibrate(loaded: LoadedModel, shape: KvShape, device: torch.device) -> KvScales:
    """Scales for a cache of `shape`, whose dtype is that of the model here."""
    cache = KvCache(shape, 1, NUM_TOKENS, device)
    ids = torch.linspace(0, loaded.head_size - 1, NUM_TOKENS, device=device).long()
    places = torch.arange(NUM_TOKENS, device=device)
    whole = Batch(ids, places, places, places[-1:], (Segment(0, NUM_TOKENS, NUM_TOKENS, [0]),))
    Runner(loaded, cache, PagedCpu(), device).compute(whole)
    keys = torch.stack([layer.keys[0].float().abs().amax(dim=(0, 2)) for layer in cache.layers])
    values = torch.stack([layer.values[0].float().abs().amax(dim=(0, 2)) for layer in cache.layers])
    return KvScales(*((side * (MARGIN / LARGEST)).clamp_min(_SMALLEST) for side in (keys, values)))
