"""Products of the same rows become one product, and no bit changes."""

import pytest
import torch
from torch import nn

from forerun.engine.quant import int4, int8, native_linear, siblings


@pytest.fixture(scope="module", autouse=True)
def kernel():
    if not native_linear.serves():
        pytest.skip("no C++ compiler, or not x86-64")


class Layer(nn.Module):
    """Products of the same rows, one of a width that cannot be joined, two in 4 bits; and one of another's output."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.odd, self.third, self.down = (
            int8.native(nn.Linear(64, columns, dtype=torch.bfloat16)) for columns in (64, 32, 40, 96, 64)
        )
        self.small, self.smaller = (int4.native(nn.Linear(64, columns, dtype=torch.bfloat16)) for columns in (96, 32))

    def forward(self, rows):
        of_rows = (self.first, self.small, self.second, self.odd, self.third, self.smaller)
        return *(product(rows) for product in of_rows), self.down(self.first(rows))


def test_products_of_the_same_rows_become_one_and_no_bit_changes():
    layer, rows = Layer(), torch.randn(1, 5, 64, dtype=torch.bfloat16)
    before = layer(rows)
    exported = torch.export.export(layer, (rows,))
    assert len(siblings.products(exported.graph_module)) == 8
    siblings.merge(exported.graph_module)
    exported.graph_module.graph.lint()
    widths = [product.meta["val"].shape[-1] for product in siblings.products(exported.graph_module)]
    assert sorted(widths) == [40, 64, 96 + 32, 64 + 32 + 96 + 64]
    after = exported.module()(rows)
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))


def test_a_graph_without_products_stays_as_it_is():
    exported = torch.export.export(nn.Linear(4, 4), (torch.randn(2, 4),))
    code = exported.graph_module.code
    siblings.merge(exported.graph_module)
    assert exported.graph_module.code == code
