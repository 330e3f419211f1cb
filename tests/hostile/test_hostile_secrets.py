"Keys and prompts: what may not be written, what may not come back, and where nothing may be sent."

import json
from functools import partial

import asking
import pytest
from asking import MODEL, q
from faults.server import FaultServer, answer_to, completion
from pydantic import ValidationError

from mhbench.ask.cache import Cache
from mhbench.ask.client import ask
from mhbench.ask.request import Endpoint
from mhbench.ask.transport import is_loopback

KEY = "sk-planted-0123456789abcdefghij"
ep = partial(asking.ep, max_attempts=2)
PROXIES = ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy")


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)


# -- where a prompt goes


def test_loopback_is_never_reached_through_a_proxy(monkeypatch, tmp_path):
    netrc = tmp_path / "netrc"
    netrc.write_text("default login me password NETRCSECRET\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    with FaultServer() as proxy, FaultServer() as s:
        for name in PROXIES[:6]:
            monkeypatch.setenv(name, proxy.url[:-3])
        (a,) = ask([q(0)], MODEL, ep(s.url), cache=None, progress=False)
        assert (a.text, len(proxy.asked)) == (answer_to("question 0"), 0)
        assert "authorization" not in s.headers[0], "and .netrc is not read"


def test_a_remote_host_is_reached_through_the_proxy_without_netrc(monkeypatch, tmp_path):
    netrc = tmp_path / "netrc"
    netrc.write_text("default login me password NETRCSECRET\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    with FaultServer() as proxy:
        monkeypatch.setenv("http_proxy", proxy.url[:-3])
        (a,) = ask([q(0)], MODEL, ep("http://models.invalid/v1"), cache=None, progress=False)
        assert a.status == "ok" and len(proxy.asked) == 1
        assert not {"authorization", "proxy-authorization"} & set(proxy.headers[0])
        monkeypatch.setenv("no_proxy", "models.invalid")
        (a,) = ask([q(1)], MODEL, ep("http://models.invalid/v1"), cache=None, progress=False)
        assert a.status == "error" and "cannot be reached" in a.error and len(proxy.asked) == 1


@pytest.mark.parametrize(
    "host, here",
    [
        ("127.0.0.1", True),
        ("127.1.2.3", True),
        ("[::1]", True),
        ("localhost", True),
        ("LOCALHOST.", True),
        ("a.localhost", True),
        ("localhost.evil.example", False),
        ("10.0.0.1", False),
    ],
)
def test_what_is_this_machine(host, here):
    assert is_loopback(f"http://{host}:8000/v1") is here


# -- what may not be written


@pytest.mark.parametrize(
    "name",
    [
        "X-Goog-Api-Key",
        "Ocp-Apim-Subscription-Key",
        "Cookie",
        "Proxy-Authorization",
        "Api_Key",
        "X-Api-Token",
        "Authorization",
    ],
)
def test_a_header_that_looks_like_a_secret_is_refused_without_repeating_it(name):
    with pytest.raises(ValidationError, match="headers must hold no key") as e:
        ep("http://x/v1", headers={name: "VERYSECRET-1234"})
    assert "VERYSECRET" not in str(e.value) and "headers_env" in str(e.value)


@pytest.mark.parametrize(
    "more",
    [
        {"api_key": "VERYSECRET-1234"},
        {"token": "VERYSECRET-1234"},
        {"base_urls": ["https://host/v1?key=VERYSECRET-1234"]},
        {"base_urls": ["https://me:VERYSECRET-1234@host/v1"]},
        {"base_urls": ["VERYSECRET-1234"]},
        {"headers": {"X-Plain": "Bearer VERYSECRET-1234"}},
        {"headers_env": {"X-Api-Key": "sk-VERYSECRET-1234"}},
        {"timeout_s": "VERYSECRET-1234"},
    ],
)
def test_a_secret_in_an_entry_is_refused_without_repeating_it(more):
    with pytest.raises(ValidationError) as e:
        Endpoint(**{"name": "e", "base_urls": ["http://x/v1"], **more})
    assert "VERYSECRET" not in str(e.value)


def test_headers_come_from_the_environment(monkeypatch):
    monkeypatch.setenv("MY_HEADER", KEY)
    with FaultServer() as s:
        endpoint = ep(s.url, headers_env={"X-Api-Key": "MY_HEADER"}, headers={"X-Title": "mhbench"})
        list(ask([q(0)], MODEL, endpoint, cache=None, progress=False))
        assert (s.headers[0]["x-api-key"], s.headers[0]["x-title"]) == (KEY, "mhbench")
        assert KEY not in endpoint.model_dump_json()
        monkeypatch.delenv("MY_HEADER")
        with pytest.raises(ValueError, match="MY_HEADER must hold the header X-Api-Key"):
            list(ask([q(0)], MODEL, endpoint, cache=None, progress=False))


def test_the_packages_variables_and_its_description_of_the_machine_stay_here(monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, KEY)
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", f"X-Hidden: {KEY}")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://elsewhere.invalid/v1")
    with FaultServer() as s:
        for api in ("chat", "responses", "messages"):
            list(ask([q(0)], MODEL.model_copy(update={"api": api}), ep(s.url), cache=None, progress=False))
        for headers in s.headers:
            assert not [name for name, value in headers.items() if KEY in value or "stainless" in name]
            assert not {"authorization", "openai-organization", "openai-project"} & set(headers)


def test_the_package_logs_no_secret_and_no_prompt(monkeypatch, caplog):
    monkeypatch.setenv("PLANTED", KEY)
    with FaultServer({"question 0": [echoes(1)]}) as s, caplog.at_level("DEBUG"):
        list(ask([q(0), q(1)], MODEL, ep(s.url, api_key_env="PLANTED"), cache=None, progress=False))
    assert caplog.text and KEY[:8] not in caplog.text and "question 1" not in caplog.text


# -- what may not come back


def echoes(n):
    "An error or an answer that holds the key, whole, cut, at any place, or escaped."
    html = b"<html>" + b"x" * 250 + KEY.encode() + b"</html>"
    forms = [
        lambda b: (401, html),
        lambda b: (400, b"x" * 273 + KEY.encode()),
        lambda b: (400, {"error": {"message": f"you sent {KEY[:17]}..."}}),
        lambda b: (500, KEY.encode() * 3),
        lambda b: (200, completion(b, f"my headers: Bearer {KEY}")),
        lambda b: (200, completion(b, "yes", reasoning_content=f"the key is {KEY[:12]}")),
        lambda b: (
            200,
            json.dumps(completion(b, "K"))
            .replace('"K"', '"' + "".join(f"\\u{ord(c):04x}" for c in KEY) + '"')
            .encode(),
        ),
        lambda b: (200, b"not JSON " + KEY.encode()),
        lambda b: (302, b"", {"Location": f"http://x/?key={KEY}"}),
    ]
    return forms[n % len(forms)]


@pytest.mark.parametrize("header", [False, True])
def test_no_prefix_of_a_key_comes_back_in_any_form(monkeypatch, tmp_path, header):
    monkeypatch.setenv("PLANTED", KEY)
    how = {"headers_env": {"X-Api-Key": "PLANTED"}} if header else {"api_key_env": "PLANTED"}
    with FaultServer({f"question {i}": [echoes(i)] * 3 for i in range(9)}) as s, Cache(tmp_path / "c.sqlite") as c:
        out = list(ask([q(i) for i in range(9)], MODEL, ep(s.url, **how), cache=c, progress=False))
    texts = [repr(a) for a in out] + [p.read_bytes().decode("latin-1") for p in tmp_path.iterdir()]
    assert not [t for t in texts if KEY[:8] in t]
    assert sum("[key]" in repr(a) for a in out) >= 8
    assert out[4].text == "my headers: Bearer [key]" and out[4].status == "ok"


def test_a_short_key_does_not_spoil_the_answers(monkeypatch):
    monkeypatch.setenv("SHORT", "none")
    said = lambda b: (200, completion(b, "There is none."))
    with FaultServer({"question 0": [said]}) as s:
        (a,) = ask([q(0)], MODEL, ep(s.url, api_key_env="SHORT"), cache=None, progress=False)
    assert a.text == "There is none."
