"""Models that know every answer, each in the form of a real family, gateway or local server.

A form is a dict: `name`; `source`, what real model or service answers so, with a public reference; `entry` and
`endpoint`, further fields of its entries in params.yaml (`api` included where it is not chat); `reads`, True or the
reason why no letter can reach us; `reply`, a function of an ask that gives the JSON body of a reply with status 200,
or (status, headers, bytes).

An ask is a dict: letter (the right one), text (the right option's), options (all texts), letters (all letters), body
(the request's JSON), path (of the URL: /v1/chat/completions, /v1/completions, /v1/responses, /v1/messages).
"""


def chat(ask, content, finish="stop", **choice):
    "The body of a reply with one choice; of a text the first words within the request's limit, one token each."
    most = ask["body"].get("max_tokens") or ask["body"].get("max_completion_tokens") or 1000
    words = content.split(" ")
    if len(words) > most:
        content, finish = " ".join(words[:most]), "length"
    message = {"role": "assistant", "content": content}
    return {
        "id": "x",
        "object": "chat.completion",
        "created": 1,
        "model": ask["body"]["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": finish, **choice}],
        "usage": {"prompt_tokens": 50, "completion_tokens": 3, "total_tokens": 53},
    }


def plain(ask):
    return chat(ask, ask["letter"])


def sentence(ask):
    return chat(ask, f"The answer is {ask['letter']}.")


FORMS = [
    {
        "name": "plain",
        "source": "a letter alone, without log-probabilities: Mistral's API, docs.mistral.ai, Chat Completion",
        "entry": {},
        "endpoint": {},
        "reads": True,
        "reply": plain,
    },
    {
        "name": "sentence",
        "source": "a sentence before the letter: Llama 3.1 Instruct as MMLU's harnesses see it (lm-evaluation-harness)",
        "entry": {},
        "endpoint": {},
        "reads": True,
        "reply": sentence,
    },
]
