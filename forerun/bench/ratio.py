"""One series over another, both measured in turn on the same machine."""

import statistics
from collections.abc import Sequence


def paired_ratio(numerators: Sequence[float], denominators: Sequence[float]) -> dict[str, float]:
    """Median, least and greatest of the ratios run by run."""
    ratios = [a / b for a, b in zip(numerators, denominators, strict=True)]
    return {
        "median": round(statistics.median(ratios), 3),
        "min": round(min(ratios), 3),
        "max": round(max(ratios), 3),
        "runs": len(ratios),
    }
