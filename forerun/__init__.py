"""Forerun: speculative decoding split over a draft, a target and a gateway. This package is what the three share."""

__version__ = "0.1.0"
