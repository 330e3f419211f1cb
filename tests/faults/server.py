"""An endpoint that breaks down as it is told to.

A raw HTTP/1.1 server on loopback that knows, for every question, a list of faults to go through before it answers. What
it answers can be told
from the question (`answer_to`), so a test sees whether an answer belongs to its question. It keeps what it was asked,
in order, and what it answered.
"""

import asyncio
import hashlib
import json
import threading

ANSWER = "an answer to"
FAULTS = {  # fault: whether the client tries again, and may try for long (wait) or only max_attempts times (again)
    "429": "wait",
    "429-after": "wait",
    "429-date": "wait",
    "503": "wait",
    "503-after": "wait",
    "408": "again",
    "409": "again",
    "500": "again",
    "502": "again",
    "stall": "again",
    "reset": "again",
    "drop": "again",
    "half": "again",
    "html": "again",
    "other": "again",
    "loris": "again",
    "empty": "again",
    "null": "again",
    "error-200": "again",
    "garbage": "again",
    "400": "refused",
    "401": "refused",
    "404": "refused",
    "quota": "refused",
    "filter": "filtered",
}


def question_of(body: dict) -> str:
    turns = body.get("messages", body.get("input"))
    return turns[-1]["content"] if turns else body["prompt"]


def answer_to(question: str) -> str:
    return f"{ANSWER} {hashlib.sha256(question.encode()).hexdigest()[:12]}"


def completion(body: dict, text: str | None, finish: str = "stop", **message) -> dict:
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    if "messages" not in body:
        return {
            "object": "text_completion",
            "choices": [{"index": 0, "text": text, "finish_reason": finish}],
            "usage": usage,
        }
    return {
        "object": "chat.completion",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": text, **message}, "finish_reason": finish}
        ],
        "usage": usage,
    }


class FaultServer:
    """`with FaultServer({question: [fault, ...]}) as s`: s.url, s.asked (bodies), s.answered (questions), s.headers.

    A fault may also be a function of the body that gives (status, text); `every` is one for all questions that are not
    named,
    called with the number of the request, from 0; `delay` is in seconds.
    """

    def __init__(self, schedule=None, every=None, delay=0.0):
        self.schedule = {q: list(f) for q, f in (schedule or {}).items()}
        self.every, self.delay, self.models = every, delay, []
        self.asked, self.answered, self.headers, self.in_flight, self.most = [], [], [], 0, 0
        self.paths, self.raw = [], []

    def __enter__(self):
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.server = asyncio.run_coroutine_threadsafe(self._start(), self.loop).result()
        self.url = f"http://127.0.0.1:{self.server.sockets[0].getsockname()[1]}/v1"
        return self

    async def _start(self):
        return await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=512)

    def __exit__(self, *_):
        async def stop():
            self.server.close()
            mine = asyncio.current_task()
            others = [t for t in asyncio.all_tasks() if t is not mine]
            for t in others:
                t.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(stop(), self.loop).result()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()

    async def _serve(self, reader, writer):
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                headers = {k.lower(): v for k, v in (h.split(": ", 1) for h in head[1:] if ": " in h)}
                if head[0].startswith("GET"):
                    await self._models(writer)
                    continue
                self.raw.append(await reader.readexactly(int(headers.get("content-length", 0))))
                body = json.loads(self.raw[-1])
                self.asked.append(body)
                self.headers.append(headers)
                self.paths.append(head[0].split()[1])
                self.in_flight += 1
                self.most = max(self.most, self.in_flight)
                try:
                    if self.delay:
                        await asyncio.sleep(self.delay)
                    keep = await self._reply(writer, headers, body)
                finally:
                    self.in_flight -= 1
                if not keep:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        except asyncio.CancelledError:
            pass
        finally:
            writer.close()

    async def _models(self, writer):
        "What is offered, where a test says so."
        raw = json.dumps({"data": [{"id": m} for m in self.models]}).encode()
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {len(raw)}\r\n\r\n".encode() + raw)
        await writer.drain()

    def _next(self, body):
        question = question_of(body)
        if self.schedule.get(question):
            return self.schedule[question].pop(0)
        return self.every(len(self.asked) - 1, body) if self.every and question not in self.schedule else None

    async def _reply(self, writer, headers, body) -> bool:
        "Send one reply, or break down; whether the connection goes on."
        fault, question, echo = self._next(body), question_of(body), {"X-Request-Id": headers.get("x-request-id", "")}
        good = json.dumps(completion(body, answer_to(question))).encode()

        async def send(status, text, more=None, kind="application/json"):
            raw = text if isinstance(text, bytes) else json.dumps(text).encode()
            lines = [
                f"HTTP/1.1 {status} X",
                f"Content-Type: {kind}",
                f"Content-Length: {len(raw)}",
                *(f"{k}: {v}" for k, v in {**echo, **(more or {})}.items()),
            ]
            writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + raw)
            await writer.drain()
            return True

        if callable(fault):
            return await send(*fault(body))
        error = {"error": {"message": f"told to answer {fault}"}}
        if fault is None:
            self.answered.append(question)
            return await send(200, good)
        if fault in ("429-after", "503-after"):
            return await send(fault[:3], error, {"Retry-After": "0.05"})
        if fault == "429-date":
            return await send(429, error, {"Retry-After": "Thu, 01 Jan 1970 00:00:00 GMT"})
        if fault == "quota":
            return await send(
                429, {"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}
            )
        if fault == "filter":
            return await send(400, {"error": {"message": "blocked", "code": "content_filter"}})
        if fault == "html":
            return await send(200, b"<html><body>Please log in</body></html>", kind="text/html")
        if fault == "half":
            return await send(200, good[: len(good) // 2])
        if fault == "empty":
            return await send(200, {"choices": []})
        if fault == "null":
            return await send(200, completion(body, None, None))
        if fault == "error-200":
            return await send(200, error)
        if fault == "other":
            echo["X-Request-Id"] = "mhb-0000000000000000-1"
            return await send(200, completion(body, answer_to("another question")))
        if fault == "drop":
            return False
        if fault == "garbage":
            writer.write(b"\x00\x01 this is not HTTP\r\n\r\n")
            await writer.drain()
            return False
        writer_head = (
            f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(good)}\r\n\r\n".encode()
        )
        if fault == "reset":
            writer.write(writer_head + good[:20])
            await writer.drain()
            writer.transport.abort()
            return False
        if fault == "stall":
            writer.write(writer_head + good[:20])
            await writer.drain()
            await asyncio.sleep(60)
            return False
        if fault == "loris":
            for i in range(len(good)):
                writer.write(writer_head[i : i + 1])
                await writer.drain()
                await asyncio.sleep(0.05)
            return False
        return await send(int(fault), error)
