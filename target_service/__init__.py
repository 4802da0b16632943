"""The target service: verifies proposals and signs for every token that leaves."""
