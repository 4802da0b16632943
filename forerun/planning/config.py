"""The flags of `forerun plan`."""

from dataclasses import dataclass

from forerun.config import option

PRECISIONS = ("bf16", "fp8", "int8", "fp32")


@dataclass(frozen=True)
class PlanConfig:
    """Say how many target and draft replicas meet a goal, which K is best and what a million tokens cost."""

    model: str = option("llama-3.3-70b", "target: a known shape or a folder with a config.json")
    draft_model: str = option("llama-3.2-1b", "draft: likewise")
    target_device: str = option("h200", "device of the targets")
    draft_device: str = option("l4", "device of drafts on devices of their own")
    target_devices: int = option(1, "devices of one target replica (tensor parallel)")
    target_precision: str = option("fp8", "weights of the target", PRECISIONS)
    draft_precision: str = option("fp8", "weights of the draft", PRECISIONS)
    kv_precision: str = option("bf16", "keys and values of both", PRECISIONS)
    acceptance: str = option("0.75,0.72,0.7", "how often a drafted token is right, by position; the last holds on")
    num_draft_tokens: int = option(0, "K; 0 looks for the best")
    targets_per_draft: float = option(0.0, "target replicas that share a draft; 0 looks for the best")
    rate: float = option(10.0, "requests a second, all together")
    prompt_len: float = option(1000.0, "mean tokens of a prompt")
    answer_len: float = option(300.0, "mean tokens of an answer")
    length_cv: float = option(0.5, "standard deviation over mean of both lengths")
    ttft_ms: float = option(1000.0, "goal: the first token after at most this")
    tpot_ms: float = option(30.0, "goal: each further token after at most this on average")
    percent: float = option(90.0, "of requests that meet both goals, in the simulation")
    turns: str = option("shifts", "a target's step takes whoever is there, or waits for all", ("shifts", "together"))
    target_rtt_ms: float = option(0.2, "network round trip between gateway and target")
    draft_rtt_ms: float = option(0.5, "network round trip between gateway and drafts on devices of their own")
    target_bandwidth_gb_s: float = option(0.0, "memory bandwidth that the target's device reaches; 0: as known")
    target_tflops: float = option(0.0, "TFLOP/s that it reaches; 0: as known")
    target_memory_gb: float = option(0.0, "its memory; 0: as known")
    target_usd_per_h: float = option(-1.0, "price of one; below 0: as known")
    draft_bandwidth_gb_s: float = option(0.0, "memory bandwidth that the draft's device reaches; 0: as known")
    draft_tflops: float = option(0.0, "TFLOP/s that it reaches; 0: as known")
    draft_memory_gb: float = option(0.0, "its memory; 0: as known")
    draft_usd_per_h: float = option(-1.0, "price of one; below 0: as known")
    num_requests: int = option(200, "requests of each simulation; 0 leaves the simulation out")
    seed: int = option(1, "of the simulation")
    json: bool = option(False, "print JSON")
