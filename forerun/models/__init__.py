"""Where models come from: names to folders, the bundled model, and what text needs to know of a model."""
