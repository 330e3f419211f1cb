"""A small OpenAI-compatible endpoint on loopback whose answers a test decides."""

import asyncio
import contextlib
import json
import threading

from aiohttp import web

from mhbench.ask.request import Endpoint


class Body(dict):
    "The JSON of a request, and its bytes as they came."

    raw: bytes


@contextlib.contextmanager
def answering(reply, **more):
    """`reply(body)` gives a text, a JSON-able verdict, a choice (with `message`), or a whole response. Yields the
    endpoint and the list of bodies seen.
    """
    loop, seen = asyncio.new_event_loop(), []

    async def chat(request):
        body = Body(await request.json())
        body.raw = await request.read()
        seen.append(body)
        out = reply(body)
        if isinstance(out, web.Response):
            return out
        if not (isinstance(out, dict) and "message" in out):
            out = {"message": {"content": out if isinstance(out, str) else json.dumps(out)}, "finish_reason": "stop"}
        return web.json_response({"choices": [out], "usage": {"prompt_tokens": 100, "completion_tokens": 10}})

    async def start():
        app = web.Application()
        app.router.add_post("/v1/chat/completions", chat)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        return runner, site._server.sockets[0].getsockname()[1]

    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    runner, port = asyncio.run_coroutine_threadsafe(start(), loop).result(10)
    try:
        yield Endpoint(name="here", base_urls=[f"http://127.0.0.1:{port}/v1"], **more), seen
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)


def refuse(status=400, words="not served here"):
    return web.json_response({"error": {"message": words}}, status=status)
