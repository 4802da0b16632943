"""FP8 products and a whole FP8 model on the GPU against the CPU, where the same numbers come from float32."""

import copy
from collections.abc import Iterator

import torch
from torch import nn

from benchmarks.gpu_check.check import Finding, Place, Skip, judged
from benchmarks.gpu_check.world import RandomTarget, random_weights, shape_of
from forerun.engine.quant import fp8
from forerun.errors import ConfigError

CPU = torch.device("cpu")
PRODUCT_TOLERANCE = 2.0**-6
"""Of the largest output: the order of a float32 sum, and two roundings to bf16."""

MODEL_TOLERANCE = 0.15
"""Of the logits' own spread: a number that lies between two codes may go to either, and layers pass that on."""


def check(place: Place) -> Iterator[Finding]:
    """Skips where the device multiplies no FP8."""
    try:
        fp8.check(place.device)
    except ConfigError as error:
        raise Skip(str(error)) from error
    sizes = ((64, 96),) if place.is_rehearsal else ((4096, 4096), (4096, 14336), (14336, 4096))
    for in_features, out_features in sizes:
        for num_rows in (1, 5, 64):
            yield _product(in_features, out_features, num_rows, place)
    yield _whole_model(place)


def _product(in_features: int, out_features: int, num_rows: int, place: Place) -> Finding:
    torch.manual_seed(0)
    linear = nn.Linear(in_features, out_features, dtype=torch.bfloat16).requires_grad_(False)
    rows = torch.randn(num_rows, in_features).to(torch.bfloat16)
    expected = fp8.Fp8Linear(linear)(rows).float()
    ours = fp8.Fp8Linear(copy.deepcopy(linear).to(place.device))(rows.to(place.device)).to(CPU).float()
    worst = float((ours - expected).abs().max() / expected.abs().max())
    title = f"product of {num_rows} rows, {in_features} to {out_features}"
    return judged(title, worst <= PRODUCT_TOLERANCE, f"off by {worst:.2g} of the largest", worst)


def _whole_model(place: Place) -> Finding:
    """Two layers of 8B's width with the same weights on both."""
    config = shape_of(place, num_layers=2)
    config.vocab_size = min(config.vocab_size, 4096)
    weights = random_weights(config, CPU)
    here, there = (
        RandomTarget(config, Place(device, place.is_rehearsal), "fp8", weights=weights)
        for device in (CPU, place.device)
    )
    tokens = here.random_tokens(33)
    expected, ours = here.logits(tokens, 16), there.logits(tokens, 16)
    off = float((ours - expected).abs().max() / expected.std())
    same = int((ours.argmax(-1) == expected.argmax(-1)).sum())
    figure = f"off by {off:.2g} of their spread, {same}/16 argmax"
    return judged("two layers, logits", off <= MODEL_TOLERANCE, figure, off)
