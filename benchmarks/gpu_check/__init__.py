"""Everything that needs an NVIDIA GPU, checked and measured by one script: `make gpu-check`."""
