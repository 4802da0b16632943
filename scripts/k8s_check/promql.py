"""PromQL expressions: which series they read, by which labels."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import promql_parser


class PromqlError(ValueError):
    """Prometheus would refuse the expression."""


@dataclass(frozen=True)
class Selector:
    """A series that is read. matchers: (label, operator, value)."""

    name: str
    matchers: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True)
class Query:
    """What an expression reads, and by which labels it groups or joins."""

    selectors: tuple[Selector, ...]
    labels: frozenset[str]


def read(expression: str) -> Query:
    """Raises PromqlError with the parser's words."""
    try:
        tree = promql_parser.parse(expression)
    except ValueError as error:
        raise PromqlError(f"{error}: {expression}") from error
    nodes: list[Any] = []
    promql_parser.walk(tree, lambda node: nodes.append(node))
    selectors = [_selector(node) for node in nodes if isinstance(node, promql_parser.VectorSelector)]
    return Query(tuple(selectors), frozenset(label for node in nodes for label in _labels(node)))


def _selector(node: Any) -> Selector:
    matchers = [(matcher.name, str(matcher.op).rpartition(".")[2], matcher.value) for matcher in node.matchers.matchers]
    return Selector(node.name or "", tuple(matchers))


def _labels(node: Any) -> Iterator[str]:
    modifier = getattr(node, "modifier", None)
    if isinstance(node, promql_parser.AggregateExpr) and modifier is not None:
        yield from modifier.labels
    if isinstance(node, promql_parser.BinaryExpr) and modifier is not None and modifier.matching is not None:
        yield from modifier.matching.labels
