"The fleet behind one address: each model answers in its own form, and knows the answer."

import asyncio
import threading

from aiohttp import web

FRUIT = ("Which of these is a fruit?", {"A": "chair", "B": "apple", "C": "river"}, "B")  # of `mhbench check`


def _texts(value):
    if isinstance(value, str):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return [text for part in parts for text in _texts(part)]


class Fleet:
    "`with Fleet(forms, questions) as s`: s.url; s.asked, the bodies by model. A question: its text, options, key."

    def __init__(self, forms, questions):
        self.replies = {form["name"]: form["reply"] for form in forms}
        self.questions = [*questions, FRUIT]
        self.asked = {name: [] for name in self.replies}

    def ask(self, body, path):
        "What a form is given: the question that stands last in the prompt, or the check's."
        prompt = "\n".join(_texts([body.get(k) for k in ("system", "instructions", "messages", "input", "prompt")]))
        found = [(prompt.rfind(question), options, key) for question, options, key in self.questions]
        at, options, key = max(found, key=lambda x: x[0])
        if at < 0:
            options, key = FRUIT[1:]
        about = {"letter": key, "text": options[key], "options": [*options.values()], "letters": [*options]}
        return {**about, "body": body, "path": path}

    async def _reply(self, http):
        body = await http.json()
        self.asked[body["model"]].append(body)
        said = self.replies[body["model"]](self.ask(body, http.path))
        if isinstance(said, dict):
            return web.json_response(said)
        status, headers, raw = said
        return web.Response(status=status, headers=headers, body=raw)

    async def _start(self):
        app = web.Application()
        app.router.add_post("/v1/{rest:.*}", self._reply)
        app.router.add_get("/v1/models", lambda _: web.json_response({"data": [{"id": m} for m in self.replies]}))
        self.runner = web.AppRunner(app)
        await self.runner.setup()
        site = web.TCPSite(self.runner, "127.0.0.1", 0)
        await site.start()
        return f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}/v1"

    def _wait(self, work):
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(30)

    def __enter__(self):
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.url = self._wait(self._start())
        return self

    def __exit__(self, *_):
        self._wait(self.runner.cleanup())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()
