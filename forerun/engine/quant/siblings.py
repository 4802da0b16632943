"""Products of the same rows, as of queries, keys and values, become one: its threads are woken once.

Each column is computed as before, so no bit changes.
"""

from collections import defaultdict
from typing import Any

import torch
from torch import fx

from forerun.engine.quant import native_linear
from forerun.engine.quant.native_linear import BLOCK_COLUMNS


def merge(module: fx.GraphModule) -> None:
    """Rewrites an exported graph. Freezing joins the weights, so that nothing is left to do when it runs."""
    siblings: dict[Any, list[fx.Node]] = defaultdict(list)
    for product in products(module):
        siblings[product.args[0], _bits(product)].append(product)
    for (rows, _), of_rows in siblings.items():
        joinable = [product for product in of_rows if _num_columns(product) % BLOCK_COLUMNS == 0]
        if len(joinable) > 1:
            _join(module.graph, rows, joinable)
    module.recompile()


def products(module: fx.GraphModule) -> list[fx.Node]:
    """The graph's integer products. Needs native_linear.register."""
    return [node for node in module.graph.nodes if node.target is native_linear.operator()]


def _join(graph: fx.Graph, rows: fx.Node, joinable: list[fx.Node]) -> None:
    aten: Any = torch.ops.aten
    with graph.inserting_before(joinable[0]):
        packed, columns = (
            _call(graph, aten.cat.default, [product.args[index] for product in joinable], dim)
            for index, dim in ((1, 0), (2, 1))
        )
        joined = _call(graph, native_linear.operator(), rows, packed, columns)
        start = 0
        for product in joinable:
            end = start + _num_columns(product)
            part = _call(graph, aten.slice.Tensor, joined, joined.meta["val"].ndim - 1, start, end)
            product.replace_all_uses_with(part)
            start = end
    for product in joinable:
        graph.erase_node(product)


def _call(graph: fx.Graph, operator: Any, *arguments: Any) -> fx.Node:
    """A node that knows its shape, as others of an exported graph do."""
    node = graph.call_function(operator, arguments)
    node.meta["val"] = operator(*fx.map_arg(arguments, lambda argument: argument.meta["val"]))
    return node


def _num_columns(product: fx.Node) -> int:
    return int(product.meta["val"].shape[-1])


def _bits(product: fx.Node) -> torch.dtype:
    packed: Any = product.args[1]
    dtype: torch.dtype = packed.meta["val"].dtype
    return dtype
