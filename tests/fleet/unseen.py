"""Models that know every answer, each in a form of 2024 to 2026 that nobody who wrote the readers has seen.

The format is that of `seen.py`. Each mock treats a request as its service does: it honours, ignores or refuses
`logprobs`, `stop` and `response_format`, counts its reasoning against the limit of tokens, and cuts its text there.
What varies from question to question depends on a hash of the question alone, so every run sees the same replies.
All texts are synthetic; a `source` names where the behaviour is documented or was reported.
"""

import hashlib
import json
import math
import re

TOKEN = re.compile(
    r"<\|[a-z_]+\|>|<\|channel>|<channel\|>|</?(?:think|thought|answer)>|<unused\d+>|◁/?think▷"
    r"|analysis(?=[A-Z])|assistant(?=final)|final(?=[A-Z{])|[぀-鿿가-힯]{1,2}| ?[^\W\d_぀-鿿가-힯]+|\d| ?[^\w\s]+|\s+|_"
)
OPENING = re.compile(r"<|◁|##|Okay|Here|analysis|好")  # the first token of a reasoning, where no letter is likely


def draw(ask, salt=""):
    "An integer that depends on the question and on `salt`."
    body = ask["body"]
    question = body.get("messages") or body.get("input") or body.get("prompt") or ask["options"]
    return int(hashlib.sha256((json.dumps(question, sort_keys=True) + salt).encode()).hexdigest()[:12], 16)


def pick(ask, choices, salt=""):
    return choices[draw(ask, salt) % len(choices)]


def split(text):
    "The tokens of `text`; joined, they are the text."
    return TOKEN.findall(text)


def limit(body, *names):
    "The limit of new tokens that the request sets, 4096 without one."
    for name in names or ("max_completion_tokens", "max_tokens"):
        if body.get(name) is not None:
            return int(body[name])
    return 4096


def stopped(text, body):
    "`text` up to the first stop sequence, and whether there was one."
    stops = body.get("stop") or body.get("stop_sequences") or []
    stops = [stops] if isinstance(stops, str) else stops
    ends = [text.find(stop) for stop in stops if stop and stop in text]
    return (text[: min(ends)], True) if ends else (text, False)


def cut(text, most):
    "The tokens of `text` within `most`, and the reason why it ended."
    tokens = split(text)
    return (tokens[:most], "length") if len(tokens) > most else (tokens, "stop")


def wrong(ask):
    "The letters and texts of the other options, in an order of the question's own."
    others = [pair for pair in zip(ask["letters"], ask["options"], strict=True) if pair[0] != ask["letter"]]
    start = draw(ask, "wrong") % len(others)
    return others[start:] + others[:start]


def structured(ask):
    "A reply in the JSON that the request demands; None where it demands none."
    wanted = ask["body"].get("response_format") or (ask["body"].get("text") or {}).get("format")
    if not isinstance(wanted, dict) or wanted.get("type") not in ("json_schema", "json_object"):
        return None
    schema = (wanted.get("json_schema") or wanted).get("schema") or {}
    values = {}
    for name, field in (schema.get("properties") or {"answer": {"type": "string"}}).items():
        kind = field.get("type")
        values[name] = {
            "number": 0.9,
            "integer": 90,
            "boolean": True,
            "array": [ask["letter"]],
        }.get(kind, ask["letter"])
    return json.dumps(values)


def thought(ask, voice="long"):
    "Reasoning that weighs other options before it settles on the right one."
    letter, text = ask["letter"], ask["text"]
    (a, first), *rest = wrong(ask)
    b, second = rest[0] if rest else (a, first)
    if voice == "short":
        return pick(
            ask,
            [
                f"We need to output a single letter. Candidates: {a} ({first}) or {letter} ({text}). {letter} fits.",
                f"The user wants one letter. {a}? Less likely. {b}? No. So {letter}.",
                f'Options: {a} "{first}", {letter} "{text}". Answer {letter}. Output just the letter.',
            ],
        )
    if voice == "zh":
        return (
            f"好的，我先看一下题目。选项{a}是“{first}”，乍一看有道理，但与题干不完全符合。"
            f"选项{b}也不对。再看{letter}，“{text}”与题干一致。等等，会不会是{a}？不，应该是{letter}。"
        )
    if voice == "ko":
        return (
            f"문제를 살펴보자. {a}번은 일부만 맞고, {b}번은 근거가 없다. "
            f"{letter}번({text})이 가장 적절하다. 답은 {letter}이다."
        )
    if voice == "list":
        return (
            "Thinking Process:\n\n1.  **Read the question.** It asks for one option.\n"
            f"2.  **Weigh the options.**\n    *   {a}: {first}. Possible, but incomplete.\n"
            f"    *   {b}: {second}. Not supported.\n    *   {letter}: {text}. Fits best.\n"
            f"3.  **Choose.** {letter}."
        )
    middle = pick(
        ask,
        [
            f"Hmm, {b} would be {second}, and nothing in the question points there. ",
            f"I could argue for {b}) {second}, but that seems a stretch. ",
            f"{b} can be ruled out. ",
        ],
    )
    return (
        f"Okay, let me work through this. The question has {len(ask['options'])} options and I should give the letter "
        f"alone. {a}) {first} is tempting at first glance, but it does not cover everything. {middle}"
        f"What about {letter}? {text} agrees with the question as it is asked. Wait, is it {a} after all? No, the "
        f"wording speaks against {a}. I'm fairly confident that the answer is {letter}."
    )


def candidates(ask, token, first):
    "Tokens that could have stood in the place of `token`, with log-probabilities, the likeliest first."
    space = token[: len(token) - len(token.lstrip())]
    letter = ask["letter"]
    if token.strip() == letter:
        p = pick(ask, [0.93, 0.81, 0.62, 0.985], "p")
        ranked = [(token, math.log(p))]
        share = 1 - p
        for other, _ in wrong(ask):
            share *= 0.55
            ranked.append((space + other, math.log(share)))
        ranked += [("**", -6.2), ("The" if first else " The", -6.9), (letter.lower(), -9.4), ("(", -10.3)]
    elif first and OPENING.match(token):
        ranked = [(token, -0.013), ("Alright", -4.6), ("First", -6.0), ("Hmm", -6.4), ("The", -7.9), ("**", -11.2)]
    elif first:
        ranked = [(token, -0.21), (letter, -2.3)]
        ranked += [(other, -4.0 - 0.8 * i) for i, (other, _) in enumerate(wrong(ask))]
        ranked += [("Based", -6.1), ("\n", -7.7), ("Option", -7.9)]
    else:
        ranked = [(token, -0.002 - 0.0001 * (draw(ask, token) % 900))]
        ranked += [(" the", -6.4), (",", -7.0), (" is", -7.3), (".", -8.8), ("\n", -9.1), (" a", -9.6)]
    seen, unique = set(), []
    for name, value in sorted(ranked, key=lambda pair: -pair[1]):
        if name not in seen:
            seen.add(name)
            unique.append((name, round(value, 6)))
    return unique


def record(token, value, **fields):
    return {"token": token, "logprob": value, "bytes": list(token.encode()), **fields}


def logprobs(ask, tokens, change=None):
    """The log-probabilities of a chat reply, None where the request asks for none.

    `change` turns one position's (token, value, list of candidates) into what the service shows.
    """
    if not ask["body"].get("logprobs"):
        return None
    most = int(ask["body"].get("top_logprobs") or 0)
    content = []
    for i, token in enumerate(tokens):
        ranked = candidates(ask, token, i == 0)
        value = dict(ranked)[token]
        if change:
            content.append(change(ask, token, value, ranked, most))
        else:
            top = [record(name, number) for name, number in ranked[:most]]
            content.append(record(token, value, top_logprobs=top))
    return {"content": content, "refusal": None}


def envelope(ask, message, finish, tokens, choice=None, usage=None, **fields):
    "The body of a chat completion."
    body = ask["body"]
    prompt = 90 + draw(ask, "usage") % 160
    return {
        "id": "chatcmpl-" + format(draw(ask, "id"), "x"),
        "object": "chat.completion",
        "created": 1764000000 + draw(ask, "time") % 100000,
        "model": body.get("model", ""),
        "choices": [{"index": 0, "message": message, "finish_reason": finish, **(choice or {})}],
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": tokens,
            "total_tokens": prompt + tokens,
            **(usage or {}),
        },
        **fields,
    }


def error(status, message, kind="invalid_request_error", param=None, code=None):
    body = {"error": {"message": message, "type": kind, "param": param, "code": code}}
    return status, {"Content-Type": "application/json"}, json.dumps(body).encode()


def assistant(content, **fields):
    return {"role": "assistant", "content": content, **fields}


def say(ask, text, change=None, **fields):
    "A chat reply whose whole text is content, with log-probabilities where the request wants them."
    text = structured(ask) or text
    text, _ = stopped(text, ask["body"])
    tokens, finish = cut(text, limit(ask["body"]))
    choice = {"logprobs": logprobs(ask, tokens, change)}
    return envelope(ask, assistant("".join(tokens)), finish, len(tokens), choice, **fields)


def parted(ask, reasoning, text):
    "Reasoning and text within the limit, the number of tokens of both, and the reason why they ended."
    most = limit(ask["body"])
    text = structured(ask) or text
    first, finish = cut(reasoning, most)
    if finish == "length":
        return "".join(first), "", len(first), finish
    text, _ = stopped(text, ask["body"])
    second, finish = cut(text, most - len(first))
    return "".join(first), "".join(second), len(first) + len(second), finish


# ---------------------------------------------------------------------------------------------- services: OpenAI


def gpt_4o(ask):
    if int(ask["body"].get("top_logprobs") or 0) > 20:
        return error(400, "Invalid value: 'top_logprobs' must be less than or equal to 20.", param="top_logprobs")
    reply = say(ask, pick(ask, ["{}", "{}", "{}", "{}."]).format(ask["letter"]))
    reply["choices"][0]["message"] |= {"refusal": None, "annotations": []}
    return reply | {"service_tier": "default", "system_fingerprint": "fp_a1b2c3d4e5"}


def gpt_5(ask):
    body = ask["body"]
    if "max_tokens" in body:
        return error(
            400,
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' "
            "instead.",
            param="max_tokens",
            code="unsupported_parameter",
        )
    if body.get("temperature", 1) != 1:
        return error(
            400,
            "Unsupported value: 'temperature' does not support 0.0 with this model. Only the default (1) value is "
            "supported.",
            param="temperature",
            code="unsupported_value",
        )
    if body.get("logprobs"):
        return error(403, "You are not allowed to request logprobs from this model")
    for name in ("stop", "presence_penalty", "frequency_penalty", "logit_bias", "top_p"):
        if body.get(name):
            return error(
                400,
                f"Unsupported parameter: '{name}' is not supported with this model.",
                param=name,
                code="unsupported_parameter",
            )
    hidden = {"minimal": 0, "low": 64, "high": 1216}.get(body.get("reasoning_effort"), 192 + 64 * (draw(ask) % 4))
    text = structured(ask) or ask["letter"]
    left = limit(body) - hidden
    content, finish = ("", "length") if left < 1 else (text, "stop")
    spent = min(hidden, limit(body)) + (7 if content else 0)
    usage = {"completion_tokens_details": {"reasoning_tokens": min(hidden, limit(body)), "audio_tokens": 0}}
    message = assistant(content, refusal=None, annotations=[])
    return envelope(ask, message, finish, spent, usage=usage, service_tier="default", system_fingerprint=None)


def gpt_5_responses(ask):
    body = ask["body"]
    if "temperature" in body and body["temperature"] != 1:
        return error(400, "Unsupported parameter: 'temperature' is not supported with this model.", param="temperature")
    if "message.output_text.logprobs" in (body.get("include") or []) or body.get("top_logprobs"):
        return error(400, "logprobs are not supported with reasoning models.", param="include")
    most = limit(body, "max_output_tokens")
    if most < 16:
        return error(
            400,
            f"Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got {most} "
            "instead.",
            param="max_output_tokens",
            code="integer_below_min_value",
        )
    hidden = 128 + 64 * (draw(ask) % 3)
    output = [{"id": "rs_" + format(draw(ask), "x"), "type": "reasoning", "summary": []}]
    if hidden < most:
        text = structured(ask) or f"{ask['letter']}"
        part = {"type": "output_text", "annotations": [], "logprobs": [], "text": text}
        output.append(
            {
                "id": "msg_" + format(draw(ask), "x"),
                "type": "message",
                "status": "completed",
                "content": [part],
                "role": "assistant",
            }
        )
    whole = len(output) == 2
    return {
        "id": "resp_" + format(draw(ask), "x"),
        "object": "response",
        "created_at": 1764000000,
        "status": "completed" if whole else "incomplete",
        "error": None,
        "incomplete_details": None if whole else {"reason": "max_output_tokens"},
        "model": body.get("model", ""),
        "output": output,
        "parallel_tool_calls": True,
        "store": False,
        "usage": {
            "input_tokens": 120,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": min(hidden, most) + 7 * whole,
            "output_tokens_details": {"reasoning_tokens": min(hidden, most)},
            "total_tokens": 127 + min(hidden, most),
        },
    }


def azure_fenced(ask):
    rows = {"answer": ask["letter"]}
    if draw(ask) % 3 == 0:
        rows["explanation"] = f"{ask['text']} is the option that fits the question."
    reply = say(ask, "```json\n" + json.dumps(rows, indent=2) + "\n```")
    safe = {name: {"filtered": False, "severity": "safe"} for name in ("hate", "self_harm", "sexual", "violence")}
    reply["choices"][0]["content_filter_results"] = safe
    reply["prompt_filter_results"] = [{"prompt_index": 0, "content_filter_results": safe}]
    return reply


# ------------------------------------------------------------------------------ services: Anthropic, Google, DeepSeek


def claude(ask):
    body = ask["body"]

    def refuse(message):
        failure = {"type": "error", "error": {"type": "invalid_request_error", "message": message}}
        return 400, {"Content-Type": "application/json"}, json.dumps(failure).encode()

    for name in ("logprobs", "top_logprobs", "seed", "stop", "n"):
        if name in body:
            return refuse(f"{name}: Extra inputs are not permitted")
    if "max_tokens" not in body:
        return refuse("max_tokens: Field required")
    thinking = body.get("thinking") or {}
    if thinking.get("type") == "enabled":
        if body["max_tokens"] <= thinking.get("budget_tokens", 0):
            return refuse("`max_tokens` must be greater than `thinking.budget_tokens`")
        if body.get("temperature", 1) != 1:
            return refuse("`temperature` may only be set to 1 when thinking is enabled")
    text = pick(ask, ["**{0}**", "**{0}) {1}**", "{0}", "The answer is **{0}**."]).format(ask["letter"], ask["text"])
    reasoning = thought(ask) if thinking.get("type") in ("enabled", "adaptive") else ""
    reasoning, text, tokens, finish = parted(ask, reasoning, text)
    content = [{"type": "thinking", "thinking": reasoning, "signature": "EqQBCkYIBxgCKkA="}] if reasoning else []
    content += [{"type": "text", "text": text}] if text else []
    return {
        "id": "msg_" + format(draw(ask), "x"),
        "type": "message",
        "role": "assistant",
        "model": body.get("model", ""),
        "content": content,
        "stop_reason": "max_tokens" if finish == "length" else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 118, "output_tokens": tokens, "service_tier": "standard"},
    }


def claude_openrouter(ask):
    text = pick(ask, ["The answer is **{0}**.", "**{0}**", "{0}"]).format(ask["letter"])
    reasoning, text, tokens, finish = parted(ask, thought(ask, "short"), text)
    message = assistant(text, refusal=None, reasoning=reasoning)
    message["reasoning_details"] = [
        {"type": "reasoning.text", "text": reasoning, "signature": "EqQB", "format": "anthropic-claude-v1", "index": 0}
    ]
    choice = {"logprobs": None, "native_finish_reason": "max_tokens" if finish == "length" else "end_turn"}
    reply = envelope(ask, message, finish, tokens, choice, provider="Anthropic")
    blank = b"\n         \n" * (1 + draw(ask) % 5)
    return 200, {"Content-Type": "application/json"}, blank + json.dumps(reply).encode()


def gemini(ask):
    body = ask["body"]
    if body.get("logprobs") or body.get("top_logprobs"):
        failure = {"code": 400, "status": "INVALID_ARGUMENT", "message": f"Logprobs is not enabled for {body['model']}"}
        return 400, {"Content-Type": "application/json"}, json.dumps([{"error": failure}]).encode()
    hidden = 0 if body.get("reasoning_effort") == "none" else 180 + draw(ask) % 400
    text = structured(ask) or ask["letter"]
    if hidden >= limit(body):
        reply = envelope(ask, {"role": "assistant"}, "length", 0)
        reply["usage"]["total_tokens"] += limit(body)
        return reply
    message = assistant(text, extra_content={"google": {"thought_signature": "CiQBVKhc7g=="}})
    reply = envelope(ask, message, "stop", 1)
    reply["usage"]["total_tokens"] += hidden
    return reply


def deepseek_flat(ask):
    def flat(ask, token, value, ranked, most):
        return record(token, 0 if draw(ask, token) % 7 else -9999, top_logprobs=[])

    return say(ask, ask["letter"], flat, system_fingerprint="fp_ffc7281d48_prod0820_fp8_kvcache")


def deepseek_reasoner(ask):
    body = ask["body"]
    for name in ("logprobs", "top_logprobs"):
        if body.get(name):
            return error(
                400, f"deepseek-reasoner does not support the parameter `{name}`", code="invalid_request_error"
            )
    text = pick(ask, ["{0}", "**Answer: {0}**", "**{0}. {1}**"]).format(ask["letter"], ask["text"])
    reasoning, text, tokens, finish = parted(ask, thought(ask), text)
    message = assistant(text, reasoning_content=reasoning)
    return envelope(ask, message, finish, tokens, {"logprobs": None})


# ------------------------------------------------------------------------------------------ vLLM, SGLang and LMDeploy


def r1_distill(ask):
    tail = pick(ask, ["**Final Answer:** \\boxed{{{0}}}", "\\boxed{{{0}}}", "**Answer:** $\\boxed{{\\text{{{0}}}}}$"])
    text = structured(ask) or f"{thought(ask)}\n</think>\n\n{tail.format(ask['letter'])}"
    reply = say(ask, text)
    reply["choices"][0]["message"] |= {"reasoning_content": None, "tool_calls": []}
    reply["choices"][0]["stop_reason"] = None
    return reply | {"prompt_logprobs": None, "kv_transfer_params": None}


def qwen3_parsed(ask):
    body = ask["body"]
    switched = (body.get("chat_template_kwargs") or {}).get("enable_thinking") is False
    inner = "" if switched or structured(ask) else f"<think>\n{thought(ask)}\n</think>\n\n"
    text, _ = stopped(inner + (structured(ask) or ask["letter"]), body)
    tokens, finish = cut(text, limit(body))
    raw = "".join(tokens)
    if not inner:
        reasoning, content = None, raw
    elif "</think>" in raw:
        reasoning, content = raw.removeprefix("<think>").split("</think>", 1)
    else:
        reasoning, content = raw.removeprefix("<think>"), None
    message = assistant(content, reasoning_content=reasoning, tool_calls=[])
    choice = {"logprobs": logprobs(ask, tokens), "stop_reason": None}
    return envelope(ask, message, finish, len(tokens), choice, prompt_logprobs=None)


def qwen25_sampled(ask):
    if int(ask["body"].get("top_logprobs") or 0) > 20:
        return error(400, "Requested sample logprobs of 21, which is greater than max allowed: 20", "BadRequestError")

    def last(ask, token, value, ranked, most):
        "The likeliest first, the sampled token after them, and what the sampler had masked at the end."
        if token.strip() != ask["letter"]:
            return record(token, value, top_logprobs=[record(name, number) for name, number in ranked[:most]])
        others = [("The", -0.617), *[(name, number - 0.9) for name, number in ranked[1:]]]
        top = [others[0], (token, -0.862), *others[1:]][: max(most - 2, 2)]
        top += [("!", -9999.0), ('"', -9999.0)]
        return record(token, -0.862, top_logprobs=[record(name, number) for name, number in top[:most]])

    return say(ask, pick(ask, ["{}", "{}."]).format(ask["letter"]), last, prompt_logprobs=None)


def llama3_lmdeploy(ask):
    def raw(ask, token, value, ranked, most):
        "Byte-level BPE as the vocabulary spells it; the sampled token is not among the others."
        spelt = [(name.replace(" ", "Ġ").replace("\n", "Ċ"), number, name) for name, number in ranked if name != token]
        top = [{"token": s, "bytes": list(name.encode()), "logprob": number} for s, number, name in spelt[:most]]
        return {
            "token": token.replace(" ", "Ġ").replace("\n", "Ċ"),
            "bytes": list(token.encode()),
            "logprob": value,
            "top_logprobs": top,
        }

    text = pick(ask, ["The best answer is {0}.", "{0}", "Answer: {0}"]).format(ask["letter"])
    return say(ask, text, raw)


def glm_boxed(ask):
    body = ask["body"]
    text = structured(ask) or pick(
        ask,
        ["<|begin_of_box|>{0}<|end_of_box|>", "The answer is <|begin_of_box|>{0}<|end_of_box|>."],
    ).format(ask["letter"])
    inner = f"<think>{thought(ask)}</think>"
    tokens, finish = cut(inner + stopped(text, body)[0], limit(body))
    raw = "".join(tokens)
    reasoning, mark, content = raw.removeprefix("<think>").partition("</think>")

    def overflow(ask, token, value, ranked, most):
        top = [record(name, number) for name, number in ranked[: max(most - 1, 0)]]
        top += [record("#", -3.4028234663852886e38)] if most else []
        return record(token, value, top_logprobs=top)

    message = assistant(content if mark else None, reasoning_content=reasoning, tool_calls=None)
    choice = {"logprobs": logprobs(ask, tokens, overflow), "matched_stop": 151336 if finish == "stop" else None}
    return envelope(ask, message, finish, len(tokens), choice, metadata={"weight_version": "default"})


# ------------------------------------------------------------------------------------------------- gpt-oss (harmony)


def oss_ollama(ask):
    text = pick(ask, ["{0}", "**{0}**", "{0}"]).format(ask["letter"])
    reasoning, text, tokens, finish = parted(ask, thought(ask, "short"), text)
    message = assistant(text, reasoning=reasoning)
    return envelope(ask, message, finish, tokens, system_fingerprint="fp_ollama")


def oss_raw(ask):
    text = structured(ask) or ask["letter"]
    raw = (
        f"<|channel|>analysis<|message|>{thought(ask, 'short')}<|end|>"
        f"<|start|>assistant<|channel|>final<|message|>{text}"
    )
    tokens, finish = cut(raw, limit(ask["body"]))
    most = ask["body"].get("top_logprobs")
    choice = {"logprobs": None}
    if ask["body"].get("logprobs"):
        values = [dict(candidates(ask, token, i == 0))[token] for i, token in enumerate(tokens)]
        choice["logprobs"] = {"token_logprobs": values, "top_logprobs": [] if most else None, "tokens": None}
    message = assistant("".join(tokens), reasoning="", tool_calls=[])
    return envelope(ask, message, finish, len(tokens), choice, system_fingerprint="0.28.3-0.29.4-macOS-15.6-arm64")


def oss_stripped(ask):
    text = f"analysis{thought(ask, 'short')}assistantfinal{structured(ask) or ask['letter']}"
    return say(ask, text)


# ------------------------------------------------------------------------------------------------- hosts and gateways


def llama4_groq(ask):
    body = ask["body"]
    for name in ("logprobs", "top_logprobs", "logit_bias"):
        if body.get(name):
            return error(400, f"`{name}` is not supported with this model", param=name)
    text = pick(ask, ["{0}. {1}", "{0}", "{0}: {1}"]).format(ask["letter"], ask["text"])
    reply = say(ask, text)
    reply["usage"] |= {"queue_time": 0.021, "prompt_time": 0.004, "completion_time": 0.006, "total_time": 0.01}
    return reply | {"x_groq": {"id": "req_" + format(draw(ask), "x")}, "service_tier": "on_demand"}


def llama_together(ask):
    body = ask["body"]
    text = structured(ask) or pick(ask, ["{0}", "{0}", " {0}"]).format(ask["letter"])
    tokens, finish = cut(stopped(text, body)[0], limit(body))
    choice = {"seed": draw(ask), "logprobs": None}
    if body.get("logprobs"):
        ranked = [candidates(ask, token, i == 0) for i, token in enumerate(tokens)]
        values = [dict(row)[token] for row, token in zip(ranked, tokens, strict=True)]
        most = int(body.get("top_logprobs") or body["logprobs"])
        top = [dict(row[: max(most, 1)]) for row in ranked]
        ids = [32 + ord(token.strip()[:1] or " ") for token in tokens] + [128009]
        end = "<|eot_id|>"
        choice["logprobs"] = {
            "tokens": [*tokens, end],
            "token_ids": ids,
            "token_logprobs": [*values, -0.0001],
            "top_logprobs": [*top, {end: -0.0001}],
        }
    finish = "eos" if finish == "stop" else finish
    return envelope(ask, assistant("".join(tokens), tool_calls=[]), finish, len(tokens), choice, prompt=[])


def nova_bedrock(ask):
    text = pick(
        ask,
        [
            "{0}) {1}\n\nThis option is the most appropriate of those given.",
            "**Correct answer:** {0}) {1}",
            "{0}) {1}",
        ],
    ).format(ask["letter"], ask["text"])
    text, _ = stopped(structured(ask) or text, ask["body"])
    tokens, finish = cut(text, limit(ask["body"]))
    message = {"name": None, "role": "assistant", "content": "".join(tokens), "tool_calls": None}
    choice = {"logprobs": None}
    return envelope(ask, message, finish, len(tokens), choice, system_fingerprint="fp")


def command_cohere(ask):
    text = structured(ask) or pick(ask, ["{0}", "{0}", "The correct answer is {0}."]).format(ask["letter"])
    tokens, finish = cut(stopped(text, ask["body"])[0], limit(ask["body"]))
    shown = None
    if ask["body"].get("logprobs"):
        content = []
        for i, token in enumerate(tokens):
            value = dict(candidates(ask, token, i == 0))[token]
            content.append({"token": token, "logprob": value, "bytes": None, "top_logprobs": []})
        shown = {"content": content}
    return envelope(ask, assistant("".join(tokens)), finish, len(tokens), {"logprobs": shown})


def magistral(ask):
    body = ask["body"]
    for name in ("logprobs", "top_logprobs", "seed", "max_completion_tokens", "logit_bias", "reasoning_effort"):
        if body.get(name) is not None:
            detail = {
                "type": "extra_forbidden",
                "loc": ["body", name],
                "msg": "Extra inputs are not permitted",
                "input": body[name],
            }
            failure = {
                "object": "error",
                "message": {"detail": [detail]},
                "type": "invalid_request_error",
                "param": None,
                "code": None,
            }
            return 422, {"Content-Type": "application/json"}, json.dumps(failure).encode()
    text = pick(ask, ["{0}", "**{0}**", "The correct answer is **{0}**."]).format(ask["letter"])
    reasoning, text, tokens, finish = parted(ask, thought(ask), text)
    content = [{"type": "thinking", "thinking": [{"type": "text", "text": reasoning}], "closed": True}]
    content += [{"type": "text", "text": text}] if text else []
    return envelope(ask, {"role": "assistant", "tool_calls": None, "content": content}, finish, tokens)


def minimax(ask):
    text = f"<think>\n{thought(ask)}\n</think>\n\n{structured(ask) or ask['letter']}"
    tokens, finish = cut(stopped(text, ask["body"])[0], limit(ask["body"]))
    message = assistant("".join(tokens), name="MiniMax AI", audio_content="", reasoning_content="")
    return envelope(
        ask,
        message,
        finish,
        len(tokens),
        input_sensitive=False,
        output_sensitive=False,
        base_resp={"status_code": 0, "status_msg": ""},
    )


def unasked_stream(ask):
    body = ask["body"]
    text = structured(ask) or pick(ask, ["{0}", "**{0}**", "{0}."]).format(ask["letter"])
    tokens, finish = cut(stopped(text, body)[0], limit(body))
    head = {
        "id": "chatcmpl-" + format(draw(ask), "x"),
        "object": "chat.completion.chunk",
        "created": 1764000000,
        "model": body.get("model", ""),
    }

    def event(delta, finish=None, **fields):
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return "data: " + json.dumps({**head, "choices": [choice], **fields}) + "\n\n"

    events = [": keep-alive\n\n", event({"role": "assistant", "content": ""})]
    events += [event({"content": token}) for token in tokens]
    usage = {"prompt_tokens": 110, "completion_tokens": len(tokens), "total_tokens": 110 + len(tokens)}
    events += [event({}, finish, usage=usage), "data: [DONE]\n\n"]
    return 200, {"Content-Type": "text/event-stream; charset=utf-8"}, "".join(events).encode()


# ------------------------------------------------------------------------------------------------------ local servers


def phi_lmstudio(ask):
    letter, text = ask["letter"], ask["text"]
    answer = pick(
        ask,
        [
            f"**Answer: {letter}**",
            f"The best answer is option {letter} – {text}.\n\n**Answer: {letter}**",
            letter,
        ],
    )
    raw = structured(ask) or f"<think>{thought(ask)}</think>{answer}"
    tokens, finish = cut(stopped(raw, ask["body"])[0], limit(ask["body"]))
    message = assistant("".join(tokens), tool_calls=[])
    return envelope(ask, message, finish, len(tokens), {"logprobs": None}, stats={}, system_fingerprint="phi-4")


def baichuan_llamacpp(ask):
    letter, text = ask["letter"], ask["text"]
    answer = pick(ask, [f"正确答案是 {letter}。", f"答案：{letter}", f"{letter}", f"选{letter}，{text}"])
    answer = structured(ask) or answer

    def pieces(ask, token, value, ranked, most):
        "A character outside ASCII shows as the replacement character, its bytes beside it."
        shown = token if token.isascii() else "�"
        top = [{"id": 100 + i, **record(name, number)} for i, (name, number) in enumerate(ranked[:most])]
        if not token.isascii():
            for row in top:
                if row["token"] == token:
                    row["token"] = "�"
        return {
            "id": 32 + len(token),
            "token": shown,
            "logprob": value,
            "bytes": list(token.encode()),
            "top_logprobs": top,
        }

    reasoning = thought(ask, "zh") if not structured(ask) else ""
    most = limit(ask["body"])
    head, finish = cut(reasoning, most)
    tail = []
    if finish == "stop":
        tail, finish = cut(stopped(answer, ask["body"])[0], most - len(head))
    message = assistant("".join(tail), reasoning_content="".join(head))
    choice = {"logprobs": logprobs(ask, head + tail, pieces)}
    reply = envelope(ask, message, finish, len(head) + len(tail), choice, system_fingerprint="b6532-264f1b51")
    return reply | {"timings": {"prompt_n": 96, "prompt_ms": 81.4, "predicted_n": len(head) + len(tail)}}


def huatuo(ask):
    letter, text = ask["letter"], ask["text"]
    answer = pick(
        ask,
        [
            f"The correct answer is {letter}. {text}.",
            f"Based on the reasoning above, the answer is **{letter}. {text}**.",
            letter,
        ],
    )
    raw = structured(ask) or f"## Thinking\n\n{thought(ask)}\n\n## Final Response\n\n{answer}"
    return say(ask, raw, prompt_logprobs=None)


def medgemma(ask):
    raw = structured(ask) or f"<unused94>thought\n{thought(ask, 'list')}<unused95>{ask['letter']}"
    return say(ask, raw, system_fingerprint="fp_ollama")


def meditron(ask):
    "A base model: it goes on with questions of its own until the limit or a stop sequence ends it."
    body = ask["body"]
    prompt = body.get("prompt") or ""
    prompt = prompt[0] if isinstance(prompt, list) else prompt
    lead = "" if prompt.endswith((" ", "\n")) else " "
    more = "".join(
        f"\n\nQuestion: Which statement about item {i} is correct?\nA. The first\nB. The second\nAnswer: "
        f"{'AB'[(draw(ask) >> i) % 2]}"
        for i in range(1, 40)
    )
    text, halted = stopped(f"{lead}{ask['letter']}{more}", body)
    tokens, finish = cut(text, int(body.get("max_tokens") or 16))
    finish = "stop" if halted and finish == "stop" else "length"
    shown = None
    if body.get("logprobs") is not None and body.get("logprobs") is not False:
        most = int(body["logprobs"])
        ranked = [candidates(ask, token, i == 0) for i, token in enumerate(tokens)]
        offsets = [sum(map(len, tokens[:i])) for i in range(len(tokens))]
        shown = {
            "text_offset": offsets,
            "token_logprobs": [dict(row)[token] for row, token in zip(ranked, tokens, strict=True)],
            "tokens": tokens,
            "top_logprobs": [
                dict(row[:most]) | {token: dict(row)[token]} for row, token in zip(ranked, tokens, strict=True)
            ],
        }
    text = (prompt if body.get("echo") else "") + "".join(tokens)
    return {
        "id": "cmpl-" + format(draw(ask), "x"),
        "object": "text_completion",
        "created": 1764000000,
        "model": body.get("model", ""),
        "choices": [
            {"index": 0, "text": text, "logprobs": shown, "finish_reason": finish, "stop_reason": None},
        ],
        "usage": {"prompt_tokens": 140, "completion_tokens": len(tokens), "total_tokens": 140 + len(tokens)},
    }


def llama_tgi(ask):
    def bare(ask, token, value, ranked, most):
        return {"token": token, "logprob": value, "top_logprobs": []}

    text = pick(ask, ["The correct answer is {0}: {1}", "{0}", "The correct answer is {0}."])
    reply = say(ask, text.format(ask["letter"], ask["text"]), bare, system_fingerprint="2.0.4-sha-f426a33")
    choice = reply["choices"][0]
    choice["finish_reason"] = {"stop": "eos_token"}.get(choice["finish_reason"], choice["finish_reason"])
    return reply | {"id": "", "object": "text_completion"}


def kimi_vl(ask):
    answer = pick(ask, ["{0}", "**Answer:** {0}", "The final answer is {0}."]).format(ask["letter"])
    raw = structured(ask) or f"◁think▷{thought(ask)}◁/think▷{answer}"
    return say(ask, raw, prompt_logprobs=None)


def granite(ask):
    answer = pick(ask, ["{0}", "The answer is {0}.", "{0}. {1}"]).format(ask["letter"], ask["text"])
    raw = f"Here is my thought process:\n{thought(ask)}\n\nHere is my response:\n{answer}"
    return say(ask, structured(ask) or raw, prompt_logprobs=None)


def exaone(ask):
    answer = pick(ask, ["정답은 **{0}**입니다.", "\\boxed{{{0}}}", "**정답: {0}**"]).format(ask["letter"])
    raw = structured(ask) or f"<thought>\n{thought(ask, 'ko')}\n</thought>\n\n{answer}"
    return say(ask, raw, prompt_logprobs=None)


def hunyuan(ask):
    raw = f"<think>\n{thought(ask)}\n</think>\n<answer>\n{ask['letter']}\n</answer>"
    return say(ask, structured(ask) or raw, prompt_logprobs=None)


def gemma4_leak(ask):
    raw = structured(ask) or f"<|channel>thought\n{thought(ask, 'list')}\n<channel|>{ask['letter']}"
    return say(ask, raw)


def llama_tool_text(ask):
    name = pick(ask, ["answer_question", "select_option"])
    call = {"type": "function", "name": name, "parameters": {"answer": ask["letter"]}}
    reply = say(ask, json.dumps(call), prompt_logprobs=None)
    reply["choices"][0]["message"] |= {"tool_calls": [], "function_call": None, "audio": None}
    reply["choices"][0]["stop_reason"] = 128008 if reply["choices"][0]["finish_reason"] == "stop" else None
    return reply


def apertus_german(ask):
    text = pick(
        ask,
        [
            "Die richtige Antwort ist {0}.",
            "{0}",
            "Richtig ist Antwort {0}: {1}",
            "**{0}) {1}**",
        ],
    ).format(ask["letter"], ask["text"])
    reply = say(ask, text, prompt_logprobs=None)
    reply["choices"][0]["message"] |= {"reasoning": None, "refusal": None, "annotations": None}
    return reply


def mistral_doubled(ask):
    "SentencePiece: two tokens decode to the same letter, and a word's mark decodes to nothing."

    def doubled(ask, token, value, ranked, most):
        if token.strip() == ask["letter"]:
            ranked = sorted([*ranked, (token, round(value - 3.9, 6))], key=lambda pair: -pair[1])
        return record(token, value, top_logprobs=[record(name, number) for name, number in ranked[:most]])

    reply = say(ask, pick(ask, ["{0}", "{0}", "{0}) {1}"]).format(ask["letter"], ask["text"]), doubled)
    shown = reply["choices"][0]["logprobs"]
    if shown and len(shown["content"]) < limit(ask["body"]) and draw(ask, "mark") % 3 == 0:
        others = [record(row["token"], row["logprob"] - 7) for row in shown["content"][0]["top_logprobs"][:-1]]
        shown["content"].insert(0, record("", -0.004, top_logprobs=[record("", -0.004), *others]))
    return reply | {"prompt_logprobs": None}


def qwen_clipped(ask):
    "Log-probabilities from -100 down are shown as -100; of a certain answer all others are."

    def clipped(ask, token, value, ranked, most):
        top = [record(token, 0.0), *[record(name, -100.0) for name, _ in ranked if name != token]]
        return record(token, 0.0, top_logprobs=top[:most])

    return say(ask, ask["letter"], clipped)


def o3_litellm(ask):
    body = ask["body"]
    named = [name for name in ("logprobs", "top_logprobs", "stop", "presence_penalty") if body.get(name)]
    named += ["temperature"] if body.get("temperature", 1) != 1 else []
    if named:
        return error(
            400,
            f"litellm.UnsupportedParamsError: openai does not support parameters: {named}, for model=o3-mini. To drop "
            "these, set `litellm.drop_params=True` or for proxy: `litellm_settings: drop_params: true`",
            kind="None",
            param="None",
            code="400",
        )
    hidden = 128 + 64 * (draw(ask) % 5)
    left = limit(body) - hidden
    text = structured(ask) or pick(ask, ["{0}", "{0}) {1}", "Answer: {0}"]).format(ask["letter"], ask["text"])
    tokens, finish = cut(text, left) if left > 0 else ([], "length")
    message = assistant(
        "".join(tokens), tool_calls=None, function_call=None, provider_specific_fields={"refusal": None}
    )
    spent = min(hidden, limit(body)) + len(tokens)
    usage = {"completion_tokens_details": {"reasoning_tokens": min(hidden, limit(body))}}
    return envelope(ask, message, finish, spent, usage=usage, service_tier="default")


def swallowed(ask):
    "Everything that was generated is taken for reasoning; no content is left."
    raw = f"{thought(ask)}\n\n{ask['letter']}"
    tokens, finish = cut(raw, limit(ask["body"]))
    message = assistant("", reasoning="".join(tokens), tool_calls=[])
    return envelope(ask, message, finish, len(tokens), {"logprobs": None})


def form(name, reply, source, entry=None, endpoint=None, reads=True):
    return {
        "name": name,
        "source": source,
        "entry": entry or {},
        "endpoint": endpoint or {},
        "reads": reads,
        "reply": reply,
    }


FORMS = [
    form(
        "gpt-4o",
        gpt_4o,
        "GPT-4o by OpenAI's chat API, a letter with log-probabilities; platform.openai.com/docs/api-reference/chat",
    ),
    form(
        "gpt-5",
        gpt_5,
        "GPT-5 by the chat API refuses max_tokens, temperature and log-probabilities, its reasoning counts as tokens; "
        "github.com/fish2018/YPrompt/issues/26, github.com/pickle-com/glass/pull/227",
    ),
    form(
        "gpt-5-mini-responses",
        gpt_5_responses,
        "GPT-5 mini by the Responses API, no log-probabilities of reasoning models; "
        "github.com/UKGovernmentBEIS/inspect_ai/pull/2739",
        entry={"api": "responses", "sampling": {"reasoning_effort": "low"}},
    ),
    form(
        "azure-fenced-json",
        azure_fenced,
        "GPT-4.1 mini on Azure with its content filters' results, JSON in a code fence though a letter was asked for; "
        "learn.microsoft.com/azure/ai-services/openai/reference",
    ),
    form(
        "claude-messages-thinking",
        claude,
        "Claude with extended thinking by the Messages API; docs.anthropic.com/en/docs/build-with-claude/"
        "extended-thinking",
        entry={"api": "messages", "sampling": {"thinking": {"type": "enabled", "budget_tokens": 2048}}},
        endpoint={"kind": "anthropic"},
    ),
    form(
        "claude-openrouter",
        claude_openrouter,
        "Claude through OpenRouter: reasoning and reasoning_details, no log-probabilities, blank lines before the "
        "JSON; openrouter.ai/docs/use-cases/reasoning-tokens, github.com/inferencerlabs/inferencer-feedback/issues/158",
    ),
    form(
        "gemini-2.5-flash",
        gemini,
        "Gemini's OpenAI-compatible door: errors as a list, no content when thinking used up the limit; "
        "github.com/mscraftsman/generative-ai/issues/135, github.com/langchain-ai/langchain-google/issues/1020",
    ),
    form(
        "deepseek-chat-flat-logprobs",
        deepseek_flat,
        "DeepSeek V3.2's API gives only 0 and -9999 as log-probabilities and no alternatives; "
        "github.com/deepseek-ai/DeepSeek-V3.2-Exp/issues/49",
    ),
    form(
        "deepseek-reasoner",
        deepseek_reasoner,
        "DeepSeek R1's API: reasoning_content, log-probabilities are refused; "
        "github.com/lollipopkit/flutter_gpt_box/issues/213, api-docs.deepseek.com/guides/reasoning_model",
    ),
    form(
        "r1-distill-vllm",
        r1_distill,
        "DeepSeek R1 distilled, vLLM without a reasoning parser: only </think> appears, then a boxed letter; "
        "github.com/vllm-project/vllm/issues/31045",
    ),
    form(
        "qwen3-vllm-parser",
        qwen3_parsed,
        "Qwen3 by vLLM with a reasoning parser: log-probabilities cover the reasoning, content begins with line "
        "breaks; docs.vllm.ai/en/latest/features/reasoning_outputs.html",
    ),
    form(
        "qwen2.5-vllm-sampled",
        qwen25_sampled,
        "Qwen2.5 by vLLM: the sampled token is not the likeliest, masked tokens are clamped to -9999; "
        "github.com/vllm-project/vllm/pull/11073",
    ),
    form(
        "llama3-lmdeploy",
        llama3_lmdeploy,
        "Llama 3 by LMDeploy: tokens as the vocabulary spells them, the sampled one missing among the alternatives; "
        "github.com/InternLM/lmdeploy/issues/2802",
    ),
    form(
        "glm-sglang-box",
        glm_boxed,
        "GLM-4.5V by SGLang: a letter between box tokens, log-probabilities of the reasoning too, -3.4e38; "
        "github.com/zai-org/GLM-V, github.com/sgl-project/sglang/issues/25055, .../issues/4876",
    ),
    form(
        "gpt-oss-ollama",
        oss_ollama,
        "gpt-oss by Ollama: the field reasoning; github.com/dataease/SQLBot/pull/787",
    ),
    form(
        "gpt-oss-mlx-harmony",
        oss_raw,
        "gpt-oss by mlx_lm.server: harmony's channels stay in the content; github.com/ml-explore/mlx-lm/pull/1867",
    ),
    form(
        "gpt-oss-stripped-harmony",
        oss_stripped,
        "gpt-oss with its special tokens dropped: analysis...assistantfinal; "
        "github.com/Augustas11/macprovider/issues/743",
    ),
    form(
        "llama4-groq",
        llama4_groq,
        "Llama 4 on Groq: log-probabilities are refused, letter and text; github.com/groq/groq-python/issues/25",
    ),
    form(
        "llama-together",
        llama_together,
        "Llama 3.3 on Together: log-probabilities as lists of tokens and numbers, finish_reason eos; "
        "github.com/togethercomputer/together-python/issues/251",
    ),
    form(
        "nova-bedrock-gateway",
        nova_bedrock,
        "Nova through Bedrock's access gateway: no log-probabilities, an explanation nobody asked for; "
        "github.com/aws-samples/bedrock-access-gateway",
    ),
    form(
        "command-a-cohere",
        command_cohere,
        "Command A by Cohere's compatibility API: log-probabilities of the chosen tokens alone; "
        "github.com/cohere-ai/cohere-developer-experience/pull/606",
    ),
    form(
        "magistral-parts",
        magistral,
        "Magistral by Mistral's API: content as a list of parts, unknown parameters refused with 422; "
        "github.com/vercel/ai/pull/8072, github.com/editor-code-assistant/eca/issues/231",
    ),
    form(
        "minimax-m2",
        minimax,
        "MiniMax M2's API: <think> in the content, an empty reasoning_content; "
        "github.com/anomalyco/opencode/issues/3555",
    ),
    form(
        "unasked-stream",
        unasked_stream,
        "a server that streams although stream is false: github.com/unslothai/unsloth/issues/6570, "
        "github.com/BerriAI/litellm/issues/25766",
    ),
    form(
        "phi-4-reasoning-lmstudio",
        phi_lmstudio,
        "Phi-4-reasoning in LM Studio: <think> in the content, logprobs null; github.com/lmstudio-ai/lms/issues/60",
    ),
    form(
        "baichuan-m2-llamacpp",
        baichuan_llamacpp,
        "Baichuan-M2, a medical model, by llama.cpp: Chinese sentences, tokens with bytes and ids, timings; "
        "github.com/ggml-org/llama.cpp/pull/10783",
    ),
    form(
        "huatuogpt-o1-vllm",
        huatuo,
        "HuatuoGPT-o1: '## Thinking' and '## Final Response'; github.com/FreedomIntelligence/HuatuoGPT-o1/issues/17",
    ),
    form(
        "medgemma-ollama",
        medgemma,
        "MedGemma 1.5 by Ollama: its thoughts between unused tokens; github.com/ollama/ollama/issues/15754",
    ),
    form(
        "meditron-completions",
        meditron,
        "Meditron, a base model, by vLLM's completions: a letter, then questions of its own; "
        "huggingface.co/epfl-llm/meditron-7b, docs.vllm.ai/en/latest/serving/openai_compatible_server.html",
        entry={"api": "completions", "lineage": "llama"},
        endpoint={"kind": "vllm"},
    ),
    form(
        "llama-tgi",
        llama_tgi,
        "Llama 3.1 by TGI: log-probabilities without alternatives or bytes, finish_reason eos_token; "
        "github.com/huggingface/text-generation-inference/pull/1682",
    ),
    form(
        "kimi-vl-triangles",
        kimi_vl,
        "Kimi-VL-Thinking by vLLM: ◁think▷ and ◁/think▷ in the content; github.com/MoonshotAI/Kimi-VL/issues/45",
    ),
    form(
        "granite-thought-process",
        granite,
        "Granite 3.2 with thinking, no parser: 'Here is my thought process:' and 'Here is my response:'; "
        "github.com/vllm-project/vllm/pull/14202, github.com/ollama/ollama/issues/8955",
    ),
    form(
        "exaone-deep",
        exaone,
        "EXAONE Deep by vLLM: <thought>, a Korean sentence or a box; huggingface.co/LGAI-EXAONE/EXAONE-Deep-32B",
    ),
    form(
        "hunyuan-answer-tag",
        hunyuan,
        "Hunyuan-A13B by vLLM without its parser: <think> and <answer>; "
        "github.com/vllm-project/vllm, vllm/reasoning/hunyuan_a13b_reasoning_parser.py",
    ),
    form(
        "gemma4-channel",
        gemma4_leak,
        "Gemma 4 by mlx-vlm with a system prompt: <|channel> and <channel|> in the content; "
        "github.com/Blaizzy/mlx-vlm/issues/899",
    ),
    form(
        "llama3.2-tool-text",
        llama_tool_text,
        "Llama 3.2 writes a tool call as its content; github.com/vllm-project/vllm/issues/11786",
    ),
    form(
        "apertus-german",
        apertus_german,
        "Apertus, a Swiss model, by vLLM answers in a sentence of another language; "
        "huggingface.co/swiss-ai/Apertus-8B-Instruct-2509",
    ),
    form(
        "mistral-vllm-doubled",
        mistral_doubled,
        "Mistral 7B Instruct by vLLM: SentencePiece has two tokens that are shown as the same letter, and one that is "
        "shown as nothing; github.com/vllm-project/vllm/pull/2918",
    ),
    form(
        "qwen-mlx-clipped",
        qwen_clipped,
        "Qwen2.5 by mlx-omni-server: log-probabilities are clipped to -100, as OpenAI does; "
        "github.com/madroidmaq/mlx-omni-server/pull/56",
    ),
    form(
        "o3-mini-litellm",
        o3_litellm,
        "o3-mini through a LiteLLM proxy without drop_params: UnsupportedParamsError with texts for null; "
        "docs.litellm.ai/docs/completion/drop_params",
    ),
    form(
        "swallowed-content",
        swallowed,
        "a server that takes the whole reply for reasoning: content is always empty; "
        "github.com/ml-explore/mlx-lm/pull/1361, github.com/lmstudio-ai/lmstudio-bug-tracker/issues/1602",
        reads="no content is ever returned: the whole reply stands in the field of the reasoning",
    ),
]
