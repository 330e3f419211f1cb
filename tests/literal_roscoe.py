"""The published ROSCOE scorer written down again, one loop a loop, as the yardstick of `mhbench.encode.roscoe`.

Nothing here is shared with the package and nothing is vectorised: each text of each chain goes through the models as
the published scorer sends it (its batches, its missing attention mask), and each cosine is taken by itself.
"""

from __future__ import annotations

import math

import numpy as np
import torch


def scaled(u, v) -> float:
    "Cosine on [0, 1]."
    return (1.0 + float(np.dot(u, v) / (np.linalg.norm(u) * np.linalg.norm(v)))) / 2.0


def alignment(of, to) -> list[float]:
    "The best match of each vector; vectors without length are passed over."
    found = []
    for u in of:
        best = None
        for v in to:
            if len(v) == 0 or len(u) == 0:
                continue
            c = scaled(u, v)
            if best is None or c > best:
                best = c
        if best is not None:
            found.append(best)
    return found


def average(values) -> float:
    return sum(values) / len(values) if len(values) else 0.0


class Embedder:
    "Sentence vectors from a sentence-transformers model, word vectors from a base model run without a mask."

    def __init__(self, sentence_model, tokenizer, token_model):
        self.sentence_model, self.tokenizer, self.token_model = sentence_model, tokenizer, token_model

    def sentences(self, texts):
        if not texts:
            return []
        v = np.asarray(self.sentence_model.encode(list(texts), show_progress_bar=False))
        return [x / (x**2).sum() for x in v]

    def words(self, texts):
        if not texts:
            return []
        ids = self.tokenizer(list(texts), truncation=True, padding=True, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            hidden = self.token_model(ids)[0]
        out = []
        for row, vectors in zip(ids, hidden):
            n = len(row)
            for place, token in enumerate(row.tolist()):
                if token == self.tokenizer.pad_token_id:
                    n = place
                    break
            out.append(vectors[1 : n - 1].numpy())
        return out


def most_repeated(items, compare) -> float:
    top = []
    for i in range(1, len(items)):
        best = 0.0
        for j in range(i):
            if len(items[i]) and len(items[j]):
                best = max(best, compare(items[j], items[i]))
        top.append(best)
    return max(top)


def embedding_scores(h, s, r, embed: Embedder) -> dict[str, float]:
    "The thirteen scores of one chain that has steps."
    eh, es = embed.sentences(h), embed.sentences(s)
    ch, cs = embed.sentences([". ".join(h)])[0], embed.sentences([". ".join(s)])[0]
    wh, ws = embed.words(h), embed.words(s)
    h_s, s_h = alignment(eh, es), alignment(es, eh)
    words = alignment([w for step in wh for w in step], [w for sentence in ws for w in sentence])
    out = {
        "faithfulness": average(h_s),
        "faithfulness_ww": average(h_s + words),
        "informativeness_step": (average(h_s) + average(s_h)) / 2.0,
        "informativeness_chain": (1.0 + scaled(ch, cs)) / 2.0,
        "repetition_word": (
            1 - most_repeated(wh, lambda earlier, step: average(alignment(step, earlier))) if len(h) > 1 else 1.0
        ),
        "repetition_step": (1.0 - most_repeated(eh, scaled)) / 2.0 if len(h) > 1 else 1.0,
    }
    if r is None:
        return out
    er, cr = embed.sentences(r), embed.sentences([". ".join(r)])[0]
    h_r, r_h, r_s = alignment(eh, er), alignment(er, eh), alignment(er, es)
    out["reasoning_alignment"] = average(h_r)
    out["external_hallucination"] = 1 - max((1 - a) * (1 - b) for a, b in zip(h_r, h_s))
    out["redundancy"] = min(h_r)
    out["common_sense_error"] = 1 - max((1 - a) * (1 - b) for a, b in zip(r_h, r_s))
    out["missing_step"] = min(r_h)
    out["semantic_coverage_step"] = 1 - abs(average(r_s) - average(h_s))
    out["semantic_coverage_chain"] = (1.0 + scaled(ch, cr)) / 2.0
    return out


def contradiction(premise, hypothesis, tokenizer, model) -> float:
    "The third class of an entailment model, one pair at a time."
    x = tokenizer([premise], [hypothesis], truncation=True, max_length=512, return_tensors="pt")
    with torch.no_grad():
        return float(torch.softmax(model(**x).logits, -1)[0, 2])


def inference_scores(h, s, tokenizer, model) -> dict[str, float]:
    against = lambda a, b: [contradiction(x, y, tokenizer, model) for x in a for y in b]
    return {"discourse_representation": 1 - max(against(s, h)), "coherence_step_vs_step": 1 - max(against(h, h))}


def cross_entropy(text, tokenizer, model, length: int) -> tuple[float, int]:
    "Mean negative log-likelihood of a text's tokens after a start token, in windows that move by half their length."
    ids = [tokenizer.bos_token_id] + tokenizer(text, add_special_tokens=False)["input_ids"]
    total, stride = 0.0, length // 2
    for i in range(0, len(ids), stride):
        begin, end = max(i + stride - length, 0), min(i + stride, len(ids))
        with torch.no_grad():
            logits = model(torch.tensor([ids[begin:end]])).logits[0].double()
        logp = torch.log_softmax(logits, -1)
        for place in range(max(i, 1), end):
            total -= float(logp[place - 1 - begin, ids[place]])
    return total / (len(ids) - 1), len(ids) - 1


def language_scores(h, tokenizer, model, length: int) -> dict[str, float]:
    steps = [(math.exp(e), n) for e, n in (cross_entropy(t, tokenizer, model, length) for t in h)]
    chain = math.exp(cross_entropy(" ".join(h), tokenizer, model, length)[0])
    return {
        "perplexity_step": 1 / (sum(p * n for p, n in steps) / sum(n for _, n in steps)),
        "perplexity_step_max": 1 / max(p for p, _ in steps),
        "perplexity_chain": 1 / chain,
    }


def grammar_scores(h, tokenizer, model) -> dict[str, float]:
    p = []
    for t in h:
        x = tokenizer([t], truncation=True, max_length=512, return_tensors="pt")
        with torch.no_grad():
            p.append(float(torch.softmax(model(**x).logits, -1)[0, 0]))
    return {"grammar_step": sum(p) / len(p), "grammar_step_max": min(p)}
