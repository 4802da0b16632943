"""A few requests of different kinds, for benchmarks of whole answers."""

PROMPTS = (
    "Write a Python function that returns the n-th Fibonacci number, with a docstring and three tests.",
    "Explain in simple words why the sky is blue.",
    "Write a Python class for a stack with push, pop and peek methods.",
    "List five tips for someone who plants a garden for the first time.",
    "Write a short story about a robot that learns to paint.",
    "Summarise in two sentences: A market is a place where buyers and sellers meet. Prices rise when many want to buy "
    "and few want to sell; they fall when many want to sell and few want to buy.",
)
