"""The cost model of speculation, plain arithmetic: the gateway chooses K by it, benchmarks and plans predict by it."""
