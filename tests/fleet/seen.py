"""Models that know every answer, each in the form of a real family, gateway or local server.

A form is a dict: `name`; `source`, what real model or service answers so, with a public reference; `entry` and
`endpoint`, further fields of its entries in params.yaml (`api` included where it is not chat); `reads`, True or the
reason why no letter can reach us; `reply`, a function of an ask that gives the JSON body of a reply with status 200,
or (status, headers, bytes).

An ask is a dict: letter (the right one), text (the right option's), options (all texts), letters (all letters), body
(the request's JSON), path (of the URL: /v1/chat/completions, /v1/completions, /v1/responses, /v1/messages).
"""

import json
import math
import re

ROOM = ("max_tokens", "max_completion_tokens", "max_output_tokens")


def room(ask):
    return next((ask["body"][k] for k in ROOM if ask["body"].get(k) is not None), 10_000)


def tokens_of(text):
    "A text as tokens: marks in one piece, words with the space before them, signs."
    return re.findall(r"<[^<>\s]+>|\s?\w+|\s+|[^\w\s]", text)


def within(ask, text, thought=0):
    "The part of a text that the limit leaves room for after so many tokens of a thought, and why it ended."
    tokens, left = tokens_of(text), max(0, room(ask) - thought)
    return ("".join(tokens[:left]), "length") if len(tokens) > left else (text, "stop")


def others(ask):
    return [c for c in ask["letters"] if c != ask["letter"]]


def around(ask, token, p=0.9):
    "What else could have stood in a token's place: other letters for a letter; for a word an article, and no letter."
    space = token[: len(token) - len(token.lstrip())]
    if token.strip(' *"') == ask["letter"]:
        rest = [(token.replace(ask["letter"], c), (1 - p) / 2**k) for k, c in enumerate(others(ask), 1)]
        return [(token, p), *rest]
    return [(token, p), (f"{space}A", 0.04), (f"{space}Based", 0.02), (f"{space}This", 0.01)]


def listed(ask, text, p=0.9):
    "Log-probabilities as chats list them, where they are asked for."
    top = ask["body"].get("top_logprobs")
    if not (ask["body"].get("logprobs") and top):
        return None
    one = lambda t, q: {"token": t, "logprob": math.log(q), "bytes": list(t.encode())}
    return {
        "content": [one(t, p) | {"top_logprobs": [one(*x) for x in around(ask, t, p)][:top]} for t in tokens_of(text)]
    }


def chat(ask, text, finish=None, thought=0, usage=None, logprobs=None, **message):
    "The body of a reply; a text beyond the request's limit is cut."
    said, ended = (None, "stop") if text is None else within(ask, text, thought)
    choice = {"index": 0, "message": {"role": "assistant", "content": said, **message}}
    choice["finish_reason"] = finish or ended
    if logprobs is not None:
        choice["logprobs"] = logprobs
    n = len(tokens_of(said or "")) + min(thought, room(ask))
    used = {"prompt_tokens": 50, "completion_tokens": n, "total_tokens": 50 + n}
    return {
        "id": "x",
        "object": "chat.completion",
        "created": 1,
        "model": ask["body"]["model"],
        "choices": [choice],
        "usage": used | (usage or {}),
    }


def error(words, status=400, **more):
    body = {"error": {"message": words, "type": "invalid_request_error", "param": None, "code": None} | more}
    return status, {"Content-Type": "application/json"}, json.dumps(body).encode()


def saying(template, lists=False, p=0.9, **more):
    "A model that says one thing, with the letter, the right option's text and a wrong letter in it."

    def reply(ask):
        text = template.format(letter=ask["letter"], text=ask["text"], wrong=others(ask)[0])
        said = within(ask, text)[0]
        return chat(ask, text, logprobs=listed(ask, said, p) if lists else None, **more)

    return reply


FORMS = []


def form(name, reply, source, reads=True, entry=None, endpoint=None):
    fields = {"name": name, "source": source, "entry": entry or {}, "endpoint": endpoint or {}, "reads": reads}
    FORMS.append({**fields, "reply": reply})


# -- texts, without log-probabilities and with them

form("mistral-letter", saying("{letter}"), "no log-probabilities in the API; docs.mistral.ai, Chat Completion")
form("llama-sentence", saying("The answer is {letter}."), "Llama 2 and Mistral Instruct; arXiv 2402.14499")
form(
    "the-answer-is",
    saying("The answer is {letter}.", lists=True),
    "the article A has mass where a sentence begins; Wang et al. 2024, arXiv 2402.14499",
)
form("bold-answer", saying("**Answer: {letter}**", lists=True), "Gemma 2 and 3 begin with Markdown; arXiv 2402.14499")
form("letter-and-text", saying("{letter}. {text}", lists=True), "GPT-4o; platform.openai.com, Chat Completions")
form(
    "bracket",
    saying("({letter}) {text}", lists=True),
    "Claude and Llama echo the form of the options; arXiv 2404.08382",
)
form(
    "json-answer",
    saying('{{"answer": "{letter}"}}', lists=True),
    "Qwen 2.5 with a JSON instruction; qwen.readthedocs.io",
)
form("boxed", saying(r"\boxed{{{letter}}}", lists=True), "Qwen 2.5 Math, model card")
form("fenced", saying('```json\n{{"answer": "{letter}"}}\n```'), "Gemini without response_format; ai.google.dev")
form("answer-tag", saying("<answer>{letter}</answer>", lists=True), "models after R1-Zero's template; arXiv 2501.12948")
form("chinese", saying("答案是{letter}。"), "GLM-4 and Qwen on Chinese prompts; C-Eval, arXiv 2305.08322")
form("german", saying("Die richtige Antwort lautet {letter}.", lists=True), "Teuken-7B, model card")
form("new-lines-first", saying("\n\n{letter}", lists=True), "chat models that begin with white space; arXiv 2402.14499")
form(
    "explains-at-length",
    saying("Let us look at each option in turn. " + "This one has to be weighed with care. " * 60 + "So: {letter}."),
    "chat models asked for a letter alone that explain first; arXiv 2402.14499",
)


def by_turns(ask):
    "A letter for one half of the questions, a sentence for the other."
    even = len(ask["text"]) % 2 == 0
    return saying("{letter}" if even else "The correct answer is {letter}.", lists=True)(ask)


form("letter-or-sentence", by_turns, "first tokens differ from question to question; arXiv 2402.14499")

# -- lists of log-probabilities as servers write them


def changed(change):
    "A plain letter whose list of log-probabilities is changed."

    def reply(ask):
        out = saying("{letter}", lists=True, p=0.6)(ask)
        lp = out["choices"][0].get("logprobs")
        if lp:
            change(ask, lp["content"][0])
        return out

    return reply


def doubled(ask, first):
    first["top_logprobs"].append(dict(first["top_logprobs"][0]))


def sentinel(ask, first):
    for other in first["top_logprobs"][1:]:
        other["logprob"] = -9999.0


def without_top(ask, first):
    first["top_logprobs"] = []


def null_among(ask, first):
    first["top_logprobs"][-1]["logprob"] = None


def raw_tokens(ask, first):
    for entry in [first, *first["top_logprobs"]]:
        entry["token"] = "Ġ" + entry["token"]


form("sampled-twice", changed(doubled), "the sampled token stands in the list again; vllm#36660")
form("sentinel", changed(sentinel), "-9999 for what is not computed; davidmigloz/langchain_dart#535")
form("sampled-alone", changed(without_top), "an empty top_logprobs; lmdeploy#2802")
form("null-among", changed(null_among), "null in the place of minus infinity; trl#5803")
form(
    "raw-tokens",
    changed(raw_tokens),
    "tokens by convert_ids_to_tokens, with the mark of a space; sgl-project/sglang#130",
)


def capped(ask):
    if ask["body"].get("top_logprobs", 0) > 5:
        return error("Requested sample logprobs of 20, which is greater than max allowed: 5")
    return saying("{letter}", lists=True)(ask)


def completion(ask):
    "A base model that goes on writing, up to a stop sequence."
    text = f" {ask['letter']}\n\nQuestion: What follows?\nAnswer: {others(ask)[0]}"
    said, ended = within(ask, text)
    for stop in ask["body"].get("stop") or []:
        if stop in said:
            said, ended = said[: said.index(stop)], "stop"
    choice = {"index": 0, "text": said, "finish_reason": ended}
    if k := ask["body"].get("logprobs"):
        tokens = ["▁" + t.strip(" ") for t in tokens_of(said)]
        tops = [{f"▁{t.strip()}": math.log(q) for t, q in around(ask, t)[:k]} for t in tokens_of(said)]
        choice["logprobs"] = {"tokens": tokens, "token_logprobs": [-0.1] * len(tokens), "top_logprobs": tops}
    return {"object": "text_completion", "choices": [choice], "usage": {"prompt_tokens": 50, "completion_tokens": 3}}


form("vllm-five", capped, "vLLM's max_logprobs; docs.vllm.ai, engine arguments")
form(
    "base-completions",
    completion,
    "Llama 2 base through vLLM's completions, tokens with SentencePiece's mark",
    entry={"api": "completions", "sampling": {"temperature": 0.0, "stop": ["\nQuestion:"]}},
)

# -- thoughts: in fields, in the text, out of sight

WEIGHS = "Let me think. It could be {wrong} at first sight, and the answer is {wrong} in old books. But no: {letter}."


def thinking(template, **more):
    return saying(template.replace("{thought}", WEIGHS), **more)


def in_field(field, tokens=40):
    def reply(ask):
        thought = WEIGHS.format(letter=ask["letter"], wrong=others(ask)[0])
        return chat(ask, ask["letter"], thought=tokens, **{field: thought})

    return reply


def o_series(ask):
    for name in ("max_tokens", "temperature", "logprobs"):
        if name in ask["body"]:
            then = " Use 'max_completion_tokens' instead." if name == "max_tokens" else ""
            words = f"Unsupported parameter: '{name}' is not supported with this model.{then}"
            return error(words, param=name, code="unsupported_parameter")
    count = {"completion_tokens_details": {"reasoning_tokens": min(300, room(ask))}}
    return chat(ask, ask["letter"], thought=300, usage=count)


def out_of_sight(ask):
    out = chat(ask, ask["letter"], thought=1500)
    if not out["choices"][0]["message"]["content"]:
        del out["choices"][0]["message"]["content"]
    return out


def parts(ask):
    out = in_field("unused")(ask)
    message = out["choices"][0]["message"]
    if message["content"]:
        thought = {"type": "reasoning", "text": message.pop("unused")}
        message["content"] = [thought, {"type": "text", "text": message["content"]}]
    return out


form(
    "r1-unopened",
    thinking("{thought}\n</think>\n\n{letter}"),
    "DeepSeek R1: the template opens the thought; vllm#13125",
)
form("think-tags", thinking("<think>\n{thought}\n</think>\n\n{letter}", lists=True), "Qwen 3, model card")
form("gemma-4-channel", thinking("<|channel>thought\n{thought}\n<channel|>{letter}", lists=True), "mlx-vlm#899")
form(
    "gpt-oss-raw",
    thinking(
        "<|channel|>analysis<|message|>{thought}<|end|><|start|>assistant<|channel|>final<|message|>{letter}<|return|>"
    ),
    "harmony without a parser; github.com/openai/harmony",
)
form("seed-oss", thinking("<seed:think>{thought}</seed:think>{letter}"), "ByteDance-Seed/Seed-OSS-36B, chat template")
form("medgemma", thinking("<unused94>thought\n{thought}<unused95>{letter}"), "google/medgemma-27b-it, model card")
form("reasoning-content", in_field("reasoning_content"), "DeepSeek; api-docs.deepseek.com, Thinking Mode")
form("reasoning-field", in_field("reasoning"), "OpenRouter; openrouter.ai/docs, Reasoning Tokens")
form("parts", parts, "parts of a thought beside those of the text; docs.mistral.ai, Reasoning")
form("o-series", o_series, "OpenAI's reasoning models; platform.openai.com, Reasoning models")
form("thought-out-of-sight", out_of_sight, "Gemini 2.5, whose thought fills max_tokens; googleapis/python-genai#811")


def responses(ask):
    if "message.output_text.logprobs" in ask["body"].get("include", []):
        return error("logprobs are not supported with reasoning models.", param="include", code="unsupported_parameter")
    text, ended = within(ask, ask["letter"], 64)
    out = [{"type": "reasoning", "id": "r", "summary": []}]
    if text:
        out.append({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]})
    cut = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    ended = cut if ended == "length" else {"status": "completed"}
    usage = {"input_tokens": 50, "output_tokens": 65, "output_tokens_details": {"reasoning_tokens": 64}}
    return {"id": "x", "object": "response", "output": out, "usage": usage, **ended}


def messages(ask):
    text, ended = within(ask, f"The answer is {ask['letter']}.")
    blocks = [{"type": "text", "text": text}]
    stop = "max_tokens" if ended == "length" else "end_turn"
    usage = {"input_tokens": 50, "output_tokens": 5}
    return {"id": "x", "type": "message", "role": "assistant", "content": blocks, "stop_reason": stop, "usage": usage}


form("responses", responses, "platform.openai.com, Responses", entry={"api": "responses"})
form("messages", messages, "docs.anthropic.com, Messages", entry={"api": "messages"}, endpoint={"kind": "anthropic"})

# -- gateways


def streamed(ask):
    out = chat(ask, ask["letter"])
    [choice] = out["choices"]
    pieces = [{"role": "assistant", "content": choice["message"]["content"]}, {}]
    events = [
        {**out, "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": d, "finish_reason": f}]}
        for d, f in zip(pieces, (None, choice["finish_reason"]))
    ]
    raw = "".join(f"data: {json.dumps(e)}\n\n" for e in events) + "data: [DONE]\n\n"
    return 200, {"Content-Type": "text/event-stream"}, raw.encode()


def tool_call(ask):
    call = {"name": "final_answer", "arguments": json.dumps({"choice": ask["letter"]})}
    calls = [{"id": "c", "type": "function", "function": call}]
    return chat(ask, None, finish="tool_calls", tool_calls=calls)


form("streams-unasked", streamed, "a gateway that streams where nothing is said of it; decolua/9router#3492")
form(
    "text-usage",
    saying("{letter}", usage={"prompt_tokens": "50", "total_tokens": "53"}),
    "counts as texts; Arize-ai/openinference#1183",
)
form("eos-token", saying("{letter}", finish="eos_token"), "huggingface/text-generation-inference#2344")
form("upper-case-ending", saying("{letter}", finish="COMPLETE"), "Cohere, Chat, finish_reason; docs.cohere.com")
form("empty-error", saying("{letter}", refusal=None, annotations=[], audio=None), "OpenAI's fields without values")
form(
    "calls-a-tool",
    tool_call,
    "a call to a tool in the place of a text; vllm#9754",
    reads="the letter stands in the arguments of a call to a tool that nobody offered, and no text comes",
)
form(
    "thought-alone",
    lambda ask: chat(ask, "", thought=12, reasoning_content=f"So the final choice is {ask['letter']}."),
    "the parser of the reasoning takes the answer too; vllm#30139",
    reads="the answer stands in the field of the reasoning, and the content is empty",
)
