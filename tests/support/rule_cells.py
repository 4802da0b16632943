"""Small worlds in which what a verification rule emits can be counted exactly instead of sampled."""

import numpy as np

RESOLUTION = 2.0**-50


def preimages(function, num_values):
    """Returns the share `[num_values]` of uniforms in [0, 1) that a step function sends to each value.

    Bisects the jumps of `function`; every value must own at most one interval.
    """
    shares = np.zeros(num_values)
    _bisect(function, 0.0, function(0.0), 1 - 2.0**-53, function(1 - 2.0**-53), shares)
    return shares


def _bisect(function, low, at_low, high, at_high, shares):
    middle = (low + high) / 2
    if at_low == at_high:
        shares[at_low] += high - low
    elif high - low < RESOLUTION:
        shares[at_high] += high - low
    else:
        at_middle = function(middle)
        _bisect(function, low, at_low, middle, at_middle, shares)
        _bisect(function, middle, at_middle, high, at_high, shares)
