"""What a model's step costs on its devices: a roofline over products and attention, and all-reduces between ranks."""

from dataclasses import dataclass

from forerun.errors import ConfigError
from forerun.planning.hardware import Device
from forerun.planning.shape import PRECISION_BYTES, ModelShape

USABLE_MEMORY = 0.9  # the rest is activations, graphs and the runtime


@dataclass(frozen=True, slots=True)
class Batch:
    """A step's work, in means: sequences with so many rows each at a context, and rows of prompts at theirs."""

    num_sequences: float
    rows_each: float = 1
    context_len: float = 0
    prompt_rows: float = 0
    prompt_context_len: float = 0

    @property
    def num_rows(self) -> float:
        return self.num_sequences * self.rows_each + self.prompt_rows


@dataclass(frozen=True)
class Steps:
    """A model at a precision over num_devices devices alike. Raises ConfigError where its weights do not fit."""

    shape: ModelShape
    device: Device
    precision: str
    kv_precision: str
    num_devices: int = 1

    def __post_init__(self) -> None:
        self.device.kernel(self.precision)
        if self.free_memory <= 0:
            raise ConfigError(
                f"{self.shape.name} in {self.precision} takes {self.weight_bytes / 1e9:.0f} GB; {self.num_devices} x "
                f"{self.device.name} have {self.num_devices * self.device.memory / 1e9:.0f} GB: take more or smaller"
            )

    @property
    def weight_bytes(self) -> float:
        return self.shape.num_params * PRECISION_BYTES[self.precision]

    @property
    def free_memory(self) -> float:
        """Bytes for keys and values, on all devices together."""
        return USABLE_MEMORY * self.num_devices * self.device.memory - self.weight_bytes

    def seconds(self, batch: Batch) -> float:
        """One step."""
        if not batch.num_rows:
            return 0.0
        return (
            self.device.step_s
            + (self._products_s(batch) + self._attention_s(batch)) / self.num_devices
            + self._all_reduces_s(batch.num_rows)
        )

    def prompt_s(self, num_tokens: float, chunk: int) -> float:
        """A prompt computed with nothing beside it, in chunks."""
        seconds, done = 0.0, 0.0
        while done < num_tokens:
            rows = min(chunk, num_tokens - done)
            seconds += self.seconds(Batch(0, prompt_rows=rows, prompt_context_len=done + rows / 2))
            done += rows
        return seconds

    def _products_s(self, batch: Batch) -> float:
        num_logits = batch.num_sequences * batch.rows_each + (1 if batch.prompt_rows else 0)
        num_flops = 2 * (self.shape.row_params * batch.num_rows + self.shape.head_params * num_logits)
        num_bytes = self.shape.weights_read(batch.num_rows) * PRECISION_BYTES[self.precision]
        return self.device.kernel(self.precision).seconds(num_bytes, num_flops)

    def _attention_s(self, batch: Batch) -> float:
        shape = self.shape
        decoding = batch.num_sequences * batch.context_len
        prompt_reads = 2 * batch.prompt_context_len if batch.prompt_rows else 0
        num_bytes = (decoding + prompt_reads) * shape.kv_bytes(self.kv_precision)
        pairs = decoding * batch.rows_each + batch.prompt_rows * batch.prompt_context_len
        num_flops = 4 * shape.num_layers * shape.num_heads * shape.head_dim * pairs
        return max(num_bytes / self.device.kv_bandwidth, num_flops / self.device.attention_flops)

    def _all_reduces_s(self, num_rows: float) -> float:
        if self.num_devices == 1:
            return 0.0
        around = 2 * (self.num_devices - 1) / self.num_devices
        num_bytes = around * num_rows * self.shape.hidden_size * PRECISION_BYTES["bf16"]
        return 2 * self.shape.num_layers * (self.device.hop_s + num_bytes / self.device.link_bandwidth)
