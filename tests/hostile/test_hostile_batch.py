"The Batch API: separators inside answers, files that are cut or none, a service that forgets."

import json
import os
from unittest.mock import patch

import pytest
from aiohttp import web
from faults import batch as service
from faults.batch import BatchServer

from mhbench.ask.batch import BatchUnreadable, ask_batch
from mhbench.ask.cache import Cache
from mhbench.ask.request import Endpoint, Model, Request

MODEL = Model(
    name="m", endpoint="e", served="m-1", sampling={"max_tokens": 5}, price={"prompt": 1.0, "completion": 2.0}
)


class Raw(BatchServer):
    "A service that writes UTF-8 as it is."

    def finish(self, b):
        real = service.json.dumps
        service.json.dumps = lambda x, **k: real(x, ensure_ascii=False, **k)
        try:
            super().finish(b)
        finally:
            service.json.dumps = real


def go(s, cache, questions):
    endpoint = Endpoint(name="e", base_urls=[s.url], identity="e", pause_s=0.01, max_attempts=2)
    requests = [Request(f"q{i}", [{"role": "user", "content": text}]) for i, text in enumerate(questions)]
    return list(ask_batch(requests, MODEL, endpoint, cache=cache, poll_s=0.01, progress=False))


TEN = [f"question {i}" for i in range(10)]


@pytest.mark.parametrize("odd", ["\u2028", "\u2029", "\x85", "\x0b", "\x1c"])
def test_a_separator_inside_an_answer_or_a_question_is_a_character_like_others(tmp_path, odd):
    say = lambda body: f"line{odd}sep" if "question 3" in json.dumps(body) else "fine"
    with Raw(polls=1, say=say) as s, Cache(tmp_path / "c.sqlite") as c:
        out = go(s, c, [*TEN[:5], f"well{odd} yes"])
        assert [a.status for a in out] == ["ok"] * 6 and out[3].text == f"line{odd}sep" and not s.direct


def test_a_question_with_a_separator_is_taken_up_again(tmp_path):
    with Raw(polls=2) as s, Cache(tmp_path / "c.sqlite") as c:
        with patch("mhbench.ask.batch.time.sleep", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
            go(s, c, ["question 0", "well\x85 yes"])
        assert [a.status for a in go(s, c, ["question 0", "well\x85 yes"])] == ["ok", "ok"] and len(s.batches) == 1


def test_a_lone_surrogate_is_one_failure_and_the_others_are_kept(tmp_path):
    say = lambda body: "\ud83d" if "question 3" in json.dumps(body) else "fine"
    with BatchServer(polls=1, say=say) as s, Cache(tmp_path / "c.sqlite") as c:
        out = go(s, c, TEN)
        assert [a.status for a in out] == ["ok"] * 3 + ["error"] + ["ok"] * 6
        assert "lone surrogate" in out[3].error


def torn(how):
    class Torn(Raw):
        def finish(self, b):
            super().finish(b)
            key = f"{b['id']}-output"
            if b["id"] != "batch-0":  # the second is well
                return
            if how == "cut":
                self.files[key] = self.files[key][:-30]
            elif how == "html":
                self.files[key] = "<html>502 Bad Gateway</html>"
            elif how == "null body":
                lines = self.files[key].split("\n")
                d = json.loads(lines[0])
                d["response"]["body"] = None
                self.files[key] = "\n".join([json.dumps(d), *lines[1:]])

        async def retrieve(self, http):
            if how == "forgotten" and http.match_info["id"] == "batch-0":
                return web.json_response({"error": {"message": "No such batch"}}, status=404)
            return await super().retrieve(http)

    return Torn


@pytest.mark.parametrize("how, kept", [("cut", 9), ("html", 0), ("forgotten", 0)])
def test_what_cannot_be_read_says_what_to_do_and_that_works(tmp_path, how, kept):
    with torn(how)(polls=1) as s, Cache(tmp_path / "c.sqlite") as c:
        for _ in range(2):  # it stays so, and does not get worse
            with pytest.raises(BatchUnreadable, match="run again to fetch it once more; if that fails, delete") as e:
                go(s, c, TEN)
            assert len(c) == kept
        path = str(e.value).split("delete '")[1].split("'")[0]
        os.unlink(path)
        out = go(s, c, TEN)
        assert [a.status for a in out] == ["ok"] * 10 and len(c) == 10


def test_a_body_of_null_is_asked_the_ordinary_way(tmp_path):
    with torn("null body")(polls=1) as s, Cache(tmp_path / "c.sqlite") as c:
        assert [a.status for a in go(s, c, TEN)] == ["ok"] * 10 and len(s.direct) == 1
