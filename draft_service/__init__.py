"""The draft service: proposes tokens for transcripts and says exactly by which law."""
