"""What is told about a draft: in the README beside it, and in a line on the way."""

from dataclasses import dataclass

from forerun.training.evaluation import NUM_DRAFT_TOKENS, Figures

_PROMPTS = {
    (False, True): "prompts that it wrote itself or that Forerun made up",
    (True, True): "prompts of its operator's ({:.0f} %), prompts that it wrote itself or that Forerun made up",
    (True, False): "prompts of its operator's",
}


@dataclass(frozen=True, slots=True)
class Story:
    """How a draft was made. Times are of writing and of training, in minutes.

    prompts_share: of the texts, how many answer prompts of a file.
    """

    target: str
    layers: tuple[int, ...]
    start: str
    num_ids: int
    coverage: float
    num_documents: int
    num_tokens: int
    top_k: int
    prompts_share: float
    writing_min: float
    training_min: float
    num_steps: int
    num_epochs: float
    batch_tokens: int
    learning_rate: float


def line(figures: Figures) -> str:
    """The figures in a line."""
    return (
        f"agreement {figures.agreement:.3f} (greedy texts {figures.greedy_agreement:.3f}), "
        f"overlap {figures.overlap:.3f}, as served {figures.served_overlap:.3f}, "
        f"{figures.mean_len:.2f} tokens a round of {NUM_DRAFT_TOKENS}"
    )


def readme(story: Story, figures: Figures, folder_name: str) -> str:
    """The README of a distilled draft."""
    kept = ", ".join(f"{share:.2f}" for share in figures.accepted)
    prompts = _PROMPTS[story.prompts_share > 0, story.prompts_share < 1].format(100 * story.prompts_share)
    began = f"; begun as the draft {story.start} with layers put between its own" if story.start else ""
    return f"""# A draft for {story.target}

Made by `forerun distill`; serve it with `forerun draft --model {folder_name} --target-model {story.target}`.
The embedding is the target's own and so not in the file.

- Layers: the target's {", ".join(map(str, story.layers))}{began}.
- Vocabulary: {story.num_ids} ids, {100 * story.coverage:.1f} % of what the target writes.
- Text: {story.num_documents} texts of the target's own, {story.num_tokens} tokens at T in {{0, 0.7, 1}},
  after {prompts}; {story.top_k} tokens of its law kept at each position; {story.writing_min:.0f} minutes.
- Training: {story.num_steps} steps of {story.batch_tokens} tokens, {story.num_epochs:.1f} times through the text;
  AdamW, {story.learning_rate:g} down a cosine; cross-entropy, giving way to 1 - overlap;
  {story.training_min:.0f} minutes.

On prompts that were held out ({figures.num_positions} positions):

| what | |
|---|---|
| draft and target have one favourite | {figures.agreement:.3f} |
| the same in texts written greedily | {figures.greedy_agreement:.3f} |
| overlap of their laws at T = 1 | {figures.overlap:.3f} |
| overlap with the draft's law as it is served | {figures.served_overlap:.3f} |
| kept at each place of a greedy proposal of {NUM_DRAFT_TOKENS} | {kept} |
| tokens of such a round, the target's own included | {figures.mean_len:.2f} |
"""
