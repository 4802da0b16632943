"""What drafts for a model where nobody says, and the draft service's flags for it."""

from forerun.models.bundled import DRAFT_NAME, NAME
from forerun.models.resolve import BUNDLED


def draft_for(model: str, named: str) -> str:
    """The model that drafts: the one that was named, else the bundled draft for its model; "" is prompt lookup."""
    return named or (DRAFT_NAME if model in (BUNDLED, NAME) else "")


def draft_flags(model: str, draft_model: str) -> dict[str, str]:
    """Flag → value."""
    method = {"--method": "model", "--model": draft_model} if draft_model else {"--method": "ngram"}
    return {**method, "--target-model": model}
