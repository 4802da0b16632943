"""The gateway's faces: OpenAI's REST API and gRPC over one way from request to tokens."""
