"""Every error that Forerun raises on purpose.

ForerunError
├── InvalidRequest       the caller's message is wrong; carries the parameter's name
│   └── UnknownModel     no such model is served here
├── Unauthenticated      the caller has no key that is known here
├── ConfigError          a flag, a model folder or a pair of models cannot be served
│   └── VocabularyMismatch   draft and target speak different token ids
├── SequenceFault        one sequence cannot go on; its neighbours do
├── Overloaded           no room now; a later attempt may succeed
└── ServiceUnavailable   a peer did not answer, or answered nonsense
    └── DeadlineExceeded
"""


class ForerunError(Exception):
    """Base of all; the message is a sentence that says what was wrong and what would be right."""


class InvalidRequest(ForerunError):
    """A message that can never succeed. `param` names the offending field, None for the whole."""

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param


class UnknownModel(InvalidRequest):
    """The named model is not served here."""


class Unauthenticated(ForerunError):
    """The caller showed no key, or one that is not known."""


class ConfigError(ForerunError):
    """A start-up setting that cannot work."""


class VocabularyMismatch(ConfigError):
    """Two services whose token ids do not mean the same."""


class SequenceFault(ForerunError):
    """A fault that ends one sequence alone."""


class Overloaded(ForerunError):
    """Queue or pool is full; retry later."""


class ServiceUnavailable(ForerunError):
    """A peer is gone or not to be understood."""


class DeadlineExceeded(ServiceUnavailable):
    """A peer did not answer in time."""
