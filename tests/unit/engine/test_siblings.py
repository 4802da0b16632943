"""Products of the same rows become one product, and no bit changes."""

import pytest
import torch
from torch import nn

from forerun.engine.quant import native_linear, siblings
from forerun.engine.quant.int8 import NativeInt8Linear


@pytest.fixture(scope="module", autouse=True)
def kernel():
    if not native_linear.serves():
        pytest.skip("no C++ compiler, or not x86-64")


class Layer(nn.Module):
    """Products of the same rows, of which one has a width that cannot be joined, and one of another's output."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.odd, self.third, self.down = (
            NativeInt8Linear(nn.Linear(64, columns, dtype=torch.bfloat16)) for columns in (64, 32, 40, 96, 64)
        )

    def forward(self, rows):
        return self.first(rows), self.second(rows), self.odd(rows), self.third(rows), self.down(self.first(rows))


def test_products_of_the_same_rows_become_one_and_no_bit_changes():
    layer, rows = Layer(), torch.randn(1, 5, 64, dtype=torch.bfloat16)
    before = layer(rows)
    exported = torch.export.export(layer, (rows,))
    assert len(siblings.products(exported.graph_module)) == 6
    siblings.merge(exported.graph_module)
    exported.graph_module.graph.lint()
    widths = [product.meta["val"].shape[-1] for product in siblings.products(exported.graph_module)]
    assert sorted(widths) == [40, 64, 64 + 32 + 96 + 64]
    after = exported.module()(rows)
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))


def test_a_graph_without_products_stays_as_it_is():
    exported = torch.export.export(nn.Linear(4, 4), (torch.randn(2, 4),))
    code = exported.graph_module.code
    siblings.merge(exported.graph_module)
    assert exported.graph_module.code == code
