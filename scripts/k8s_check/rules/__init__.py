"""What must hold beyond schemas. Each rule is a function of a rendering and the project's root that yields faults."""
