"""The model that is drafted for, as files."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from transformers import AutoConfig, PretrainedConfig

from forerun.engine.model import check_supported
from forerun.engine.quant import checkpoint
from forerun.errors import ConfigError
from forerun.models.resolve import public_name, resolve
from forerun.models.tokenizer_files import ModelText, read_model_text


@dataclass(frozen=True, slots=True)
class Target:
    """name: as it is served. weights: tells one checkpoint from another."""

    name: str
    folder: Path
    text: ModelText
    config: PretrainedConfig
    weights: str

    @property
    def num_layers(self) -> int:
        """Raises ConfigError where the configuration does not say."""
        count = getattr(self.config, "num_hidden_layers", None)
        if not isinstance(count, int):
            raise ConfigError(f"the configuration of {self.name} does not say how many layers it has")
        return count


def read_target(name: str) -> Target:
    """Raises ConfigError for a model that cannot be served, and so not be drafted for."""
    folder = resolve(name)
    config: PretrainedConfig = AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    check_supported(config)
    _check_widens(folder, public_name(name))
    return Target(public_name(name), folder, read_model_text(folder), config, _digest(folder))


def _check_widens(folder: Path, name: str) -> None:
    method = checkpoint.describe(folder).get("quant_method", checkpoint.GGUF)
    if method not in (checkpoint.GGUF, *checkpoint.WIDENED):
        raise ConfigError(
            f"{name} is quantised ({method}), and its layers cannot be trained; "
            "name the checkpoint that it was made from"
        )


def _digest(folder: Path) -> str:
    """Of the configuration and of the weights' sizes: enough to notice another model under the same name."""
    files = sorted(folder.glob("*.safetensors")) or sorted(folder.glob("*.gguf"))
    sizes = [(path.name, path.stat().st_size) for path in files]
    return hashlib.sha256(repr(((folder / "config.json").read_text(encoding="utf-8"), sizes)).encode()).hexdigest()[:16]
