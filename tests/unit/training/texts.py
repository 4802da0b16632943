"""Texts of a tiny target, made without the engine: what the tests of training share."""

import numpy as np
import torch
from transformers import AutoModelForCausalLM

from forerun.models.tokenizer_files import read_model_text
from forerun.training.corpus import Corpus
from forerun.training.document import Document
from forerun.training.student import Student
from forerun.training.surgery import with_layers
from forerun.training.vocabulary import choose_vocabulary, masses

VOCAB_SIZE = 64
NUM_PROMPT = 3
CPU = torch.device("cpu")


def load(folder):
    """transformers' own model, fp32."""
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


def documents(folder, count, length=24, top_k=16, seed=0):
    """Texts sampled from the model at temperature 1 after three random tokens, each with the laws that it followed."""
    model = load(folder)
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(3, VOCAB_SIZE, (count, NUM_PROMPT), generator=generator)
    laws = []
    with torch.inference_mode():
        for _ in range(length):
            laws.append(model(ids).logits[:, -1, :VOCAB_SIZE].softmax(-1))
            ids = torch.cat([ids, torch.multinomial(laws[-1], 1, generator=generator)], dim=1)
    probs, top = torch.stack(laws, 1).topk(top_k, dim=-1)
    scored = np.array([False] * NUM_PROMPT + [True] * length)
    return [
        Document(index, 1.0, ids[index].numpy(), scored, top[index].numpy(), probs[index].numpy().astype(np.float16))
        for index in range(count)
    ]


def corpus(folder, texts):
    """A corpus of these texts in `folder`."""
    whole = Corpus(folder, {"target": "tiny"}, VOCAB_SIZE)
    whole.add(texts)
    return whole


def student(folder, text, layers=(0,), size=48, dtype=torch.float32):
    """A student of these layers whose head knows `size` ids."""
    ids = choose_vocabulary(masses(text.shards, VOCAB_SIZE), size, read_model_text(folder).special_ids)
    return Student(with_layers(folder, layers, CPU), ids, dtype)
