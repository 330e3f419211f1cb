"A model on loopback, its endpoint and questions to it, for tests of the client."

from mhbench.ask.client import Recorder, ask
from mhbench.ask.request import Endpoint, Model, Request

MODEL = Model(
    name="m",
    endpoint="e",
    served="m-1",
    sampling={"temperature": 0.0, "max_tokens": 5},
    price={"prompt": 1.0, "completion": 2.0},
)


def bundled_model(**settings):
    "The bundled model: greedy, short, and stopped where it invents another question."
    sampling = {"temperature": 0.0, "max_tokens": 32, "seed": 0, "stop": ["\nQuestion:", "\n\n"]}
    free = {"prompt": 0.0, "completion": 0.0}
    entry = {"name": "gemma-3-270m", "endpoint": "local", "served": "gemma-3-270m", "price": free, "sampling": sampling}
    return Model(**entry | settings)


def ep(url, **more):
    "The endpoint at one URL or several; failures are asked again at once."
    urls = [url] if isinstance(url, str) else url
    usual = {"identity": "e", "concurrency": 4, "timeout_s": 5.0, "pause_s": 0.01}
    return Endpoint(**{"name": "e", "base_urls": urls, **usual, **more})


def q(i, **more):
    "A request, told from others by its number."
    return Request(f"id-{i}", [{"role": "user", "content": f"question {i}"}], **more)


def plan(requests, model, endpoint, cache):
    "What would be asked, and what it could cost."
    recorder = Recorder()
    list(recorder.ask(requests, model, endpoint, cache=cache))
    return recorder.calls[0].plan


def run(requests, server, model=MODEL, cache=None, endpoint=None, **more):
    "The answers of a server."
    return list(ask(requests, model, endpoint or ep(server.url), cache=cache, progress=False, **more))
