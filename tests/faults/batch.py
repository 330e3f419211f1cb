"A batch service on loopback that can lose, fail and expire what it is given."

import asyncio
import json
import threading
import time

from aiohttp import web
from faults.server import answer_to, completion, question_of


class BatchServer:
    """`with BatchServer(...) as s`: s.url, s.batches, s.direct (questions asked outside a batch), s.uploads.

    polls: how many polls a batch takes; end: how it ends (completed, failed, expired, cancelled); lose: questions that
    it does not answer;
    say: the text of an answer, from the body; logprobs: what the choice carries; stray: also return an answer that
    nobody asked for.
    """

    def __init__(self, polls=1, end="completed", lose=(), say=None, logprobs=None, stray=False, refuse_uploads=0):
        self.polls, self.end, self.lose, self.logprobs, self.stray, self.refuse = (
            polls,
            end,
            set(lose),
            logprobs,
            stray,
            refuse_uploads,
        )
        self.say = say or (lambda body: answer_to(question_of(body)))
        self.files, self.batches, self.direct, self.uploads = {}, [], [], 0

    def reply(self, body):
        out = completion(body, self.say(body))
        if self.logprobs:
            out["choices"][0]["logprobs"] = self.logprobs
        return out

    async def chat(self, http):
        body = await http.json()
        self.direct.append(question_of(body))
        return web.json_response(self.reply(body))

    async def upload(self, http):
        text = ""
        async for part in await http.multipart():
            if part.name == "file":
                text = (await part.read()).decode()
            else:
                await part.read()
        if self.refuse:
            self.refuse -= 1
            return web.json_response(
                {"error": {"message": "told to fail"}}, status=500, headers={"retry-after-ms": "10"}
            )
        self.uploads += 1
        name = f"file-{self.uploads}"
        self.files[name] = text
        return web.json_response(
            {
                "id": name,
                "object": "file",
                "bytes": len(text),
                "created_at": 0,
                "filename": "x",
                "purpose": "batch",
                "status": "processed",
            }
        )

    async def content(self, http):
        return web.Response(text=self.files[http.match_info["id"]])

    async def create(self, http):
        d = await http.json()
        b = {
            "id": f"batch-{len(self.batches)}",
            "object": "batch",
            "endpoint": d["endpoint"],
            "input_file_id": d["input_file_id"],
            "completion_window": "24h",
            "created_at": int(time.time()),
            "status": "validating",
            "metadata": d["metadata"],
            "left": self.polls,
        }
        self.batches.append(b)
        return web.json_response(b)

    async def list(self, http):
        return web.json_response({"object": "list", "data": self.batches[::-1], "has_more": False})

    async def retrieve(self, http):
        b = next(b for b in self.batches if b["id"] == http.match_info["id"])
        b["left"] -= 1
        if b["left"] <= 0 and b["status"] != self.end:
            self.finish(b)
        elif b["left"] > 0:
            b["status"] = "in_progress"
        return web.json_response(b)

    def finish(self, b):
        good, bad = [], []
        for line in self.files[b["input_file_id"]].strip("\n").split("\n"):
            d = json.loads(line)
            if self.end == "failed":
                continue
            if question_of(d["body"]) in self.lose:
                if self.end == "completed":
                    bad.append(
                        {
                            "custom_id": d["custom_id"],
                            "response": {"status_code": 500, "body": {"error": {"message": "told to lose it"}}},
                        }
                    )
                else:
                    bad.append(
                        {
                            "custom_id": d["custom_id"],
                            "response": None,
                            "error": {
                                "code": "batch_expired",
                                "message": "This request could not be executed before the completion window expired.",
                            },
                        }
                    )
            else:
                good.append(
                    {"custom_id": d["custom_id"], "response": {"status_code": 200, "body": self.reply(d["body"])}}
                )
        if self.stray:
            good.append(
                {
                    "custom_id": "0" * 64,
                    "response": {"status_code": 200, "body": completion({"messages": []}, "a stray")},
                }
            )
        b["status"] = self.end
        for name, lines in (("output", good[::-1]), ("error", bad)):
            if lines:
                self.files[f"{b['id']}-{name}"] = "\n".join(json.dumps(x) for x in lines)
                b[f"{name}_file_id"] = f"{b['id']}-{name}"
        if self.end == "failed":
            b["errors"] = {"object": "list", "data": [{"code": "invalid", "message": "the file does not fit"}]}

    async def start(self):
        app = web.Application(client_max_size=2**30)
        app.add_routes(
            [
                web.post("/v1/chat/completions", self.chat),
                web.post("/v1/files", self.upload),
                web.get("/v1/files/{id}/content", self.content),
                web.post("/v1/batches", self.create),
                web.get("/v1/batches", self.list),
                web.get("/v1/batches/{id}", self.retrieve),
            ]
        )
        self.runner = web.AppRunner(app, access_log=None)
        await self.runner.setup()
        site = web.TCPSite(self.runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}/v1"

    def __enter__(self):
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        asyncio.run_coroutine_threadsafe(self.start(), self.loop).result()
        return self

    def __exit__(self, *_):
        asyncio.run_coroutine_threadsafe(self.runner.cleanup(), self.loop).result()
        self.loop.call_soon_threadsafe(self.loop.stop)
