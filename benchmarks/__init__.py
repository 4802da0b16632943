"""Measurements, each a script that prints ratios of runs taken side by side."""
