"""The gateway stays light."""

import subprocess
import sys


def test_the_gateway_s_faces_load_neither_torch_nor_transformers_nor_the_engine():
    code = "import sys, gateway.app, gateway.servicer; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"torch", "transformers", "forerun.engine"} & set(loaded)
