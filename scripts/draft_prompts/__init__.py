"""Makes the prompts that the bundled draft learned from, beside those of `forerun distill` itself."""
