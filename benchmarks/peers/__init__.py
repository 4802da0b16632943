"""Forerun beside other engines on this machine, each in an environment of its own: `python -m benchmarks.peers`."""
