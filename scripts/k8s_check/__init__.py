"""`make k8s-check`: every overlay rendered, validated, and held to what code, Dockerfile and documents say."""
