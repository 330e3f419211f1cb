"""The proxies of docs/howto-hospital.md as they stand there, started before the page with a certificate of the test."""

import http.client
import os
import re
import shutil
import socket
import ssl
import subprocess
import time

import pytest
from conftest import ROOT

from .conftest import ENTRIES

PAGE = (ROOT / "docs" / "howto-hospital.md").read_text(encoding="utf-8")
NGINX = "pid {folder}/pid;\nerror_log {folder}/log;\nevents {{}}\nhttp {{\n{temporary}\n{server}\n}}\n"
TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def written(kind: str, folder, port: int, page: int) -> list[str]:
    "The block of the page with this test's ports and certificate, and the command that starts it."
    blocks = re.findall(r"```(?:nginx|text)\n(.*?)```", PAGE, re.DOTALL)
    text = next(b for b in blocks if ("server {" in b) == (kind == "nginx"))
    said = {"/etc/ssl/certs/ratings.pem": f"{folder}/cert.pem", "/etc/ssl/private/ratings.key": f"{folder}/key.pem"}
    listens = {"listen 443 ssl": f"listen 127.0.0.1:{port} ssl"}
    if kind == "caddy":
        listens = {"ratings.example.org {": f"https://ratings.example.org:{port} {{"}
    said |= {"127.0.0.1:8484": f"127.0.0.1:{page}"} | listens
    for old, new in said.items():
        assert old in text, old
        text = text.replace(old, new)
    if kind == "nginx":
        temporary = "\n".join(f"{t}_temp_path {folder}/{t};" for t in TEMPORARY)
        text = NGINX.format(folder=folder, server=text, temporary=temporary)
        (folder / "nginx.conf").write_text(text, encoding="utf-8")
        return ["nginx", "-c", f"{folder}/nginx.conf", "-p", str(folder), "-g", "daemon off;"]
    (folder / "Caddyfile").write_text(
        "{\n    admin off\n    auto_https disable_redirects\n}\n" + text, encoding="utf-8"
    )
    return ["caddy", "run", "--config", f"{folder}/Caddyfile", "--adapter", "caddyfile"]


class Visitor:
    "A client that trusts the test's certificate and takes 127.0.0.1 for the hospital's name."

    def __init__(self, folder, port: int):
        self.port, self.trust = port, ssl.create_default_context(cafile=f"{folder}/cert.pem")

    def get(self, path: str, cookie: str = "") -> tuple[int, list, bytes]:
        raw = socket.create_connection(("127.0.0.1", self.port), timeout=20)
        c = http.client.HTTPConnection("ratings.example.org", self.port)
        c.sock = self.trust.wrap_socket(raw, server_hostname="ratings.example.org")
        c.request("GET", path, headers={"Cookie": cookie} if cookie else {})
        reply = c.getresponse()
        return reply.status, reply.getheaders(), reply.read()


@pytest.mark.parametrize("kind", ["nginx", "caddy"])
def test_a_rater_comes_in_by_https_through_the_proxy_of_the_page(serve, tmp_path, kind):
    if not (shutil.which(kind) and shutil.which("openssl")):
        pytest.skip(f"{kind} or openssl is not installed: apt-get install nginx-light caddy openssl")
    subject = ["-subj", "/CN=ratings.example.org", "-addext", "subjectAltName=DNS:ratings.example.org"]
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject]
    subprocess.run([*made, "-keyout", "key.pem", "-out", "cert.pem"], cwd=tmp_path, check=True, capture_output=True)
    s = serve(ENTRIES["sliders"], prefix="/study")
    port = free_port()
    with (tmp_path / "said.txt").open("wb") as log:
        env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
        command = written(kind, tmp_path, port, s.port)
        proxy = subprocess.Popen(command, stdout=log, stderr=log, env=env)
    try:
        visitor, until = Visitor(tmp_path, port), time.monotonic() + 60
        while True:
            try:
                status, headers, _ = visitor.get(f"/study/in/{s.tokens['r1']}")
                break
            except OSError:
                assert proxy.poll() is None and time.monotonic() < until, (tmp_path / "said.txt").read_text()
                time.sleep(0.1)
        found = {k.lower(): v for k, v in headers}
        assert status == 303 and found["location"] == "/study/"
        assert all(word in found["set-cookie"] for word in ("; Secure", "; HttpOnly", "SameSite=Lax", "Path=/study"))
        assert found["strict-transport-security"] == "max-age=31536000"
        assert "frame-ancestors 'none'" in found["content-security-policy"]
        status, _, page = visitor.get("/study/consent", cookie=found["set-cookie"].split(";")[0])
        assert status == 200 and b'action="/study/consent"' in page
        beside = {k.lower() for k, _ in visitor.get("/elsewhere")[1]}
        assert "content-security-policy" not in beside  # no page of ours: it is not passed on
    finally:
        proxy.terminate()
        proxy.wait(20)
    assert s.tokens["r1"] not in "".join(f.read_text(errors="replace") for f in tmp_path.glob("*log*"))
