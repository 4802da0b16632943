"""Every way through a rule's decisions with its exact probability, whatever the rule compares and in which order.

The rule's uniforms are symbols: all that may be done to one is `u * factor < bound`. Each such comparison that could go
either way is a fork, and the rule runs once for every way.
"""

from dataclasses import dataclass, field


@dataclass
class Way:
    """The rule's noise along one way: the first forks as told, then yes wherever there is a choice.

    spans: the part `(low, high)` of [0, 1) in which each uniform is known to lie.
    """

    told: list = field(default_factory=list)
    spans: dict = field(default_factory=dict)
    taken: list = field(default_factory=list)
    probability: float = 1.0

    def acceptance(self, position, base_len):
        """The symbol of one uniform."""
        return Symbol(self, (position, base_len))

    def target(self, position, base_len):
        """Of no interest: the law that is drawn from is recorded instead."""
        return 0.5

    def is_below(self, place, bound):
        """Whether the uniform is below the bound on this way."""
        low, high = self.spans.get(place, (0.0, 1.0))
        bound = min(max(bound, low), high)
        share = (bound - low) / (high - low)
        if share in (0.0, 1.0):
            return share == 1.0
        answer = self.told[len(self.taken)] if len(self.taken) < len(self.told) else True
        self.taken.append(answer)
        self.probability *= share if answer else 1 - share
        self.spans[place] = (low, bound) if answer else (bound, high)
        return answer


@dataclass(frozen=True)
class Symbol:
    """A uniform, or a multiple of one."""

    way: Way
    place: tuple
    factor: float = 1.0

    def __mul__(self, factor):
        return Symbol(self.way, self.place, self.factor * factor)

    def __lt__(self, bound):
        if self.factor == 0:
            return bound > 0
        return self.way.is_below(self.place, bound / self.factor)


def ways(run, spans=()):
    """Yields (probability, run(way)) for every way; the probabilities sum to 1."""
    todo = [[]]
    while todo:
        way = Way(todo.pop(), dict(spans))
        result = run(way)
        yield way.probability, result
        todo += [[*way.taken[:i], False] for i in range(len(way.told), len(way.taken))]
