"""The wire's messages, for those who hold a stream and pass what they hear on without a copy."""

from forerun.v1.common_pb2 import Abort, Draining, Finish, Held, Proposal, Sampling, Waiting
from forerun.v1.draft_pb2 import Ahead, Branch, DraftOpen, DraftReply, DraftRequest, Propose
from forerun.v1.target_pb2 import PromptLogprobs, TargetOpen, TargetReply, TargetRequest, Verdict, Verify

__all__ = [
    "Abort",
    "Ahead",
    "Branch",
    "DraftOpen",
    "DraftReply",
    "DraftRequest",
    "Draining",
    "Finish",
    "Held",
    "PromptLogprobs",
    "Proposal",
    "Propose",
    "Sampling",
    "TargetOpen",
    "TargetReply",
    "TargetRequest",
    "Verdict",
    "Verify",
    "Waiting",
]
