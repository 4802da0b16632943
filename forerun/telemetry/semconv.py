"""Names of spans and attributes: OpenTelemetry's GenAI conventions, and ours (forerun.*) where those have none."""

from collections.abc import Mapping

from forerun.types import SamplingParams

AttributeValue = str | bool | int | float | tuple[str, ...]

OPERATION_NAME = "gen_ai.operation.name"
PROVIDER_NAME = "gen_ai.provider.name"
REQUEST_MODEL = "gen_ai.request.model"
REQUEST_TEMPERATURE = "gen_ai.request.temperature"
REQUEST_TOP_P = "gen_ai.request.top_p"
REQUEST_TOP_K = "gen_ai.request.top_k"
REQUEST_MAX_TOKENS = "gen_ai.request.max_tokens"
REQUEST_SEED = "gen_ai.request.seed"
REQUEST_CHOICE_COUNT = "gen_ai.request.choice.count"
REQUEST_FREQUENCY_PENALTY = "gen_ai.request.frequency_penalty"
REQUEST_PRESENCE_PENALTY = "gen_ai.request.presence_penalty"
RESPONSE_ID = "gen_ai.response.id"
RESPONSE_MODEL = "gen_ai.response.model"
RESPONSE_FINISH_REASONS = "gen_ai.response.finish_reasons"
USAGE_INPUT_TOKENS = "gen_ai.usage.input_tokens"
USAGE_OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
USAGE_CACHED_TOKENS = "gen_ai.usage.cache_read.input_tokens"
ERROR_TYPE = "error.type"

PROVIDER = "forerun"
OPERATION_CHAT = "chat"
OPERATION_TEXT_COMPLETION = "text_completion"

SPAN_ROUND = "forerun.round"
SPAN_PROPOSE = "forerun.propose"
SPAN_VERIFY = "forerun.verify"
SPAN_STEP = "forerun.step"

EVENT_FAILOVER = "forerun.failover"
EVENT_HANDOVER = "forerun.handover"
EVENT_FALLBACK = "forerun.fallback"

CHOICE = "forerun.choice"
BASE_LEN = "forerun.base_len"
GRANT = "forerun.grant"
REASON = "forerun.reason"
NUM_TOKENS = "forerun.num_tokens"
NUM_DRAFTS = "forerun.num_drafts"
NUM_DRAFT_TOKENS = "forerun.num_draft_tokens"
NUM_ACCEPTED_TOKENS = "forerun.num_accepted_tokens"
DRAFTED_AHEAD = "forerun.drafted_ahead"
DRAFTER = "forerun.drafter"
DRAFT_WAIT_S = "forerun.draft_wait_s"
TARGET_WAIT_S = "forerun.target_wait_s"
TIME_TO_FIRST_TOKEN_S = "forerun.time_to_first_token_s"
NUM_ROWS = "forerun.num_rows"
NUM_SEQUENCES = "forerun.num_sequences"


def sampling_attributes(
    params: SamplingParams, max_tokens: int, seed: int | None, num_choices: int = 1
) -> Mapping[str, AttributeValue]:
    """The request's parameters as span attributes; what is off is left out, and a seed of None too."""
    attributes: dict[str, AttributeValue] = {
        REQUEST_TEMPERATURE: params.temperature,
        REQUEST_TOP_P: params.top_p,
        REQUEST_MAX_TOKENS: max_tokens,
    }
    optional: dict[str, AttributeValue] = {
        REQUEST_TOP_K: params.top_k,
        REQUEST_FREQUENCY_PENALTY: params.frequency_penalty,
        REQUEST_PRESENCE_PENALTY: params.presence_penalty,
    }
    attributes |= {name: value for name, value in optional.items() if value}
    if num_choices != 1:
        attributes[REQUEST_CHOICE_COUNT] = num_choices
    if seed is not None:
        attributes[REQUEST_SEED] = seed
    return attributes
