"""How many replicas a workload needs and what they cost: `forerun plan`. No model is loaded."""
