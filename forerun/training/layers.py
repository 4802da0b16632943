"""Which of the target's layers a draft starts as."""

from forerun.errors import ConfigError


def choose_layers(text: str, num_layers: int) -> tuple[int, ...]:
    """Indices of the target's layers, ascending: those of a list, else as many, evenly from the first to the last.

    Raises ConfigError for more layers than there are, and for a list that is not ascending.
    """
    try:
        numbers = tuple(int(part) for part in text.split(","))
    except ValueError as error:
        raise ConfigError(f"--layers is a number or a list such as 0,1,28,29, got {text!r}") from error
    if len(numbers) > 1:
        return _checked(numbers, num_layers)
    if not 1 <= numbers[0] <= num_layers:
        raise ConfigError(f"--layers {numbers[0]} is not possible: the target has {num_layers}")
    return evenly(numbers[0], num_layers)


def evenly(count: int, num_layers: int) -> tuple[int, ...]:
    """`count` of num_layers indices, the first and the last among them."""
    return tuple(round(index * (num_layers - 1) / max(1, count - 1)) for index in range(count))


def _checked(indices: tuple[int, ...], num_layers: int) -> tuple[int, ...]:
    if list(indices) != sorted(set(indices)) or indices[0] < 0 or indices[-1] >= num_layers:
        listed = ",".join(map(str, indices))
        raise ConfigError(f"--layers {listed} has to be ascending and within 0 to {num_layers - 1}")
    return indices
