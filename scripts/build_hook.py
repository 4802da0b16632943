"""Generates the protobuf code whenever the project is built or installed, editable installs included."""

import importlib.util
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ProtobufHook(BuildHookInterface[Any]):
    """Runs scripts/protos.py of the tree that is being built."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        spec = importlib.util.spec_from_file_location("protos", Path(self.root) / "scripts" / "protos.py")
        assert spec is not None and spec.loader is not None
        protos = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(protos)
        protos.generate(Path(self.root))
