"""The gateway: keeps the transcript, conducts draft and target, speaks OpenAI's REST API and gRPC."""
