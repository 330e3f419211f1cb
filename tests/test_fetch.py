"""Releases come from their authors' server or from a folder: checked, private, and nothing else than was registered."""

import hashlib
import http.server
import json
import os
import re
import shutil
import stat
import threading
import time
from pathlib import Path
from urllib.parse import quote

import pyAesCrypt
import pytest
import yaml
from conftest import BIN, ENV, ROOT, mhbench, run

from mhbench.ask.prompts import build, template
from mhbench.ask.wording import prompt_folder
from mhbench.ledger import release as releasing
from mhbench.ledger.release import Blob, FileGroup, Release, ReleasedFile, Tree, inventory_of, recorded
from mhbench.records.schema import Item
from mhbench.run.cli import main
from mhbench.run.params import load_params
from mhbench.tools import fetch as fetching
from mhbench.tools.fetch import fetch_prompts, fetch_release, release_lines, unlock

A, B = b"id,answer\n1,A\n", bytes(range(256)) * 4000
COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Server:
    "What authors' files lie on: `files` by path; `cut`: how often a path breaks off half way; `asked`: what was asked."

    def __init__(self, http):
        self.http, self.files, self.cut, self.asked = http, {}, {}, []
        self.url = f"http://127.0.0.1:{http.server_port}"


@pytest.fixture
def server(monkeypatch):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            path = re.sub("^http://[^/]+", "", self.path)  # whole where we are the proxy
            here.asked.append(self.path)
            content = here.files.get(path)
            self.send_response(404 if content is None else 200)
            self.send_header("Content-Length", str(len(content or b"")))
            self.end_headers()
            left = here.cut.get(path, 0)
            here.cut[path] = left - 1
            self.wfile.write((content or b"")[: len(content or b"") // 2 if left > 0 else None])

        def log_message(self, *_):
            pass

    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as served:
        here = Server(served)
        threading.Thread(target=served.serve_forever, daemon=True).start()
        yield here
        served.shutdown()


def registered(content: bytes) -> ReleasedFile:
    return ReleasedFile(size=len(content), sha256=hashlib.sha256(content).hexdigest())


@pytest.fixture
def release(server, monkeypatch, tmp_path):
    "A release of two files and one that nobody has held, on the server; nothing waits between attempts."
    runs = {"a.csv": registered(A), "b c.bin": registered(B), "later.csv": ReleasedFile()}
    groups = [FileGroup(there="results/runs/*", to="runs/{}", files=runs)]
    about = {"title": "t", "licence": "MIT", "terms": "None.", "repository": server.url, "commit": COMMIT}
    made = Release(groups=groups, imported={"path": "runs", "options": {"key": "number"}}, **about)
    for module in (fetching, releasing):
        monkeypatch.setattr(module, "releases", lambda: {"example": made})
    monkeypatch.setenv("MHBENCH_CORPORA", str(tmp_path / "corpora"))
    monkeypatch.setattr(time, "sleep", lambda s: None)
    base = f"/raw/{COMMIT}/results/runs/"
    server.files |= {base + "a.csv": A, base + "b%20c.bin": B}
    return made


def blob(content: bytes) -> str:
    "What git hash-object says, from its own definition."
    return hashlib.sha1(f"blob {len(content)}\0".encode() + content).hexdigest()


def modes(folder):
    return {stat.S_IMODE(p.stat().st_mode) for p in folder.rglob("*") if p.is_file()}, {
        stat.S_IMODE(p.stat().st_mode) for p in [folder, *folder.rglob("*")] if p.is_dir()
    }


# ---------------------------------------------------------------- from a server


def test_a_release_is_downloaded_once_into_a_folder_of_its_owner_s(server, release, tmp_path):
    got = fetch_release("example")
    assert got.folder == tmp_path / "corpora" / "example" and got.corpus == got.folder / "runs"
    assert (got.folder / "runs/b c.bin").read_bytes() == B and got.options == {"key": "number"}
    assert got.missing == ["runs/later.csv"] and not got.unregistered  # the server says 404: it is not needed
    assert modes(got.folder) == ({0o600}, {0o700})
    record = recorded(got.folder)
    assert record["commit"] == COMMIT and record["files"]["runs/a.csv"] == {
        "sha256": hashlib.sha256(A).hexdigest(),
        "blob": blob(A),
        "registered": True,
    }
    server.asked.clear()
    again = fetch_release("example")
    assert again == got and recorded(got.folder) == record
    assert {a.rsplit("/", 1)[1] for a in server.asked} == {"later.csv"}


def test_a_file_that_nobody_had_registered_is_taken_and_said_to_be_so(server, release):
    server.files[f"/raw/{COMMIT}/results/runs/later.csv"] = b"new\n"
    got = fetch_release("example")
    assert got.unregistered == ["runs/later.csv"] and not got.missing
    told = "\n".join(got.summary_lines())
    assert f"not in the registry: runs/later.csv, sha256 {hashlib.sha256(b'new' + bytes([10])).hexdigest()}" in told
    assert recorded(got.folder)["files"]["runs/later.csv"]["registered"] is False


def test_another_hash_is_refused_by_name_with_both(server, release):
    other = A + b"2,B\n"
    server.files[f"/raw/{COMMIT}/results/runs/a.csv"] = other
    with pytest.raises(ValueError, match=r"runs/a\.csv must have the hash of the release") as e:
        fetch_release("example")
    assert hashlib.sha256(other).hexdigest() in str(e.value) and hashlib.sha256(A).hexdigest() in str(e.value)
    assert not list((fetching.corpora() / "example").rglob("*.csv"))


def test_a_download_that_is_cut_is_tried_again(server, release):
    path = f"/raw/{COMMIT}/results/runs/b%20c.bin"
    server.cut[path] = fetching.RETRIES
    assert (fetch_release("example").folder / "runs/b c.bin").read_bytes() == B
    assert server.asked.count(path) == fetching.RETRIES + 1


def test_one_that_stays_cut_is_told_and_the_same_command_goes_on_with_the_rest(server, release):
    path = f"/raw/{COMMIT}/results/runs/b%20c.bin"
    server.cut[path] = 99
    with pytest.raises(ConnectionError, match=r"runs/b c\.bin must be whole.*--from FOLDER"):
        fetch_release("example")
    folder = fetching.corpora() / "example"
    assert [p.name for p in folder.rglob("*") if p.is_file()] == ["a.csv"], "no half file stays"
    server.cut[path] = 0
    server.asked.clear()
    assert fetch_release("example").files.keys() == {"runs/a.csv", "runs/b c.bin"}
    assert not [a for a in server.asked if a.endswith("a.csv")]


def test_nobody_there_is_one_sentence(release, server):
    server.http.shutdown()
    server.http.server_close()
    with pytest.raises(ConnectionError, match=r"fetch: runs/a\.csv must be whole; got .*; the same command goes on"):
        fetch_release("example")


def test_a_proxy_is_taken_from_the_environment(server, release, monkeypatch):
    elsewhere = release.model_copy(update={"repository": "http://authors.invalid"})
    for module in (fetching, releasing):
        monkeypatch.setattr(module, "releases", lambda: {"example": elsewhere})
    monkeypatch.setenv("http_proxy", server.url)
    monkeypatch.setenv("no_proxy", "")
    assert len(fetch_release("example").files) == 2
    assert all(a.startswith("http://authors.invalid/") for a in server.asked)


def test_where_nothing_can_be_written_another_folder_is_asked_for(release, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(PermissionError, match=r"--to must be a folder that can be written; got .*file/corpora"):
        fetch_release("example", to=tmp_path / "file" / "corpora")
    if os.geteuid():
        shut = tmp_path / "shut"
        shut.mkdir(mode=0o500)
        with pytest.raises(PermissionError, match="name another one with --to, or set MHBENCH_CORPORA"):
            fetch_release("example", to=shut / "example")


# ---------------------------------------------------------------- from a folder


@pytest.mark.parametrize("layout", ["clone/results/runs", "copy/runs", "results/runs"])
def test_a_folder_is_taken_in_the_authors_layout_and_in_ours(server, release, tmp_path, layout):
    source = tmp_path / "source"
    folder = source / layout
    folder.mkdir(parents=True)
    (folder / "a.csv").write_bytes(A)
    (folder / "held out.csv").write_bytes(b"3\n")
    (source / "elsewhere.bin").write_bytes(B)  # its hash says what it is
    (source / "README.md").write_text("...")
    (source / ".git").mkdir()
    (source / ".git" / "a.csv").write_text("not looked at")
    got = fetch_release("example", source)
    assert set(got.files) == {"runs/a.csv", "runs/b c.bin", "runs/held out.csv"}
    assert (got.unregistered, got.passed_over, server.asked) == (["runs/held out.csv"], 1, [])
    assert modes(got.folder) == ({0o600}, {0o700})
    assert fetch_release("example", got.folder, tmp_path / "third").files == got.files


def test_a_changed_file_is_refused_before_anything_is_copied(release, tmp_path):
    folder = tmp_path / "results" / "runs"
    folder.mkdir(parents=True)
    (folder / "b c.bin").write_bytes(B)
    (folder / "a.csv").write_bytes(A.replace(b"A", b"B"))
    with pytest.raises(ValueError, match=r"a\.csv must have the hash of the release; got [0-9a-f]{64}, the reg"):
        fetch_release("example", tmp_path)
    assert not list((fetching.corpora() / "example").iterdir())
    shutil.copytree(folder, tmp_path / "kept" / "runs")
    (tmp_path / "kept" / "runs" / "a.csv").write_bytes(A)  # beside it the right one: that is taken
    assert not fetch_release("example", tmp_path).unregistered


@pytest.mark.parametrize("by_download", [True, False])
def test_files_of_ones_own_in_the_folder_keep_their_modes_and_are_not_replaced(release, tmp_path, by_download):
    "A program beside the release could not be run any more, and a file in the place of a released one was gone."
    source, home = tmp_path / "source", tmp_path / "home"
    for folder in (source / "results" / "runs", home / "bin", home / "runs"):
        folder.mkdir(parents=True)
    (source / "results" / "runs" / "a.csv").write_bytes(A)
    (home / "bin" / "tool.sh").write_text("true\n")
    for path in (home / "bin", home / "bin" / "tool.sh"):
        path.chmod(0o755)
    mode = lambda place: stat.S_IMODE((home / place).stat().st_mode)
    (home / "runs" / "a.csv").write_text("mine\n")
    fetch = lambda: fetch_release("example", None if by_download else source, home)
    with pytest.raises(ValueError, match=r"got runs/a\.csv, which `mhbench fetch` did not write .*home\); move it"):
        fetch()
    assert (home / "runs" / "a.csv").read_text() == "mine\n" and not (home / "release.json").exists()
    (home / "runs" / "a.csv").unlink()
    (home / "release.json").write_text("[]\n")
    with pytest.raises(ValueError, match=r"got release\.json, which `mhbench fetch` did not write"):
        fetch()
    (home / "release.json").unlink()
    for _ in range(2):
        assert "bin/tool.sh" in fetch().unregistered
        assert (mode("bin"), mode("bin/tool.sh"), mode("runs/a.csv"), mode("runs")) == (0o755, 0o755, 0o600, 0o700)
        (home / "runs" / "a.csv").write_text("changed\n")  # what an earlier call wrote is replaced
    assert recorded(home)["other_files"] == ["bin/tool.sh"]


def test_a_folder_without_any_of_the_files_is_refused(release, tmp_path):
    (tmp_path / "notes.txt").write_text("...")
    with pytest.raises(ValueError, match=r"must hold files of example; got .* with none of results/runs/\*"):
        fetch_release("example", tmp_path)
    with pytest.raises(FileNotFoundError, match="must be a folder that holds files of the release"):
        fetch_release("example", tmp_path / "nowhere")


def test_two_files_that_differ_for_one_place_are_asked_about(release, tmp_path):
    for name, text in {"one": "1", "two": "2"}.items():
        (tmp_path / name / "runs").mkdir(parents=True)
        (tmp_path / name / "runs" / "new.csv").write_text(text)
    with pytest.raises(ValueError, match=r"runs/new\.csv must be one file; got 2 that differ"):
        fetch_release("example", tmp_path)


# ---------------------------------------------------------------- a whole repository, by the ids of its blobs

WHOLE = {
    "results/runs/a.csv": A,
    "results/runs/b c.bin": B,
    "chains/one.json": b"[]\n",
    "README.md": b"x\n",
    "again.csv": A,
}


@pytest.fixture
def whole(server, release, monkeypatch):
    "The release of a repository of five files, two of them the same bytes; two of them are brought by default."
    files = {path: Blob(blob(content), len(content)) for path, content in WHOLE.items()}
    made = Release(
        **{k: getattr(release, k) for k in ("title", "licence", "terms", "repository", "commit")},
        groups=[FileGroup(there="results/runs/*", to="runs/{}")],
        derived={"ours.csv": {"how": "made by us"}, "chains.json": {"how": "a copy", "of": "chains/one.json"}},
    ).model_copy(update={"tree": Tree("authors/example", COMMIT, files)})
    for module in (fetching, releasing):
        monkeypatch.setattr(module, "releases", lambda: {"example": made})
    server.files = {f"/raw/{COMMIT}/{quote(path)}": content for path, content in WHOLE.items()}
    return made


def test_any_file_of_a_repository_can_be_asked_for_and_the_rest_is_told(server, whole):
    got = fetch_release("example")
    assert set(got.files) == {"runs/a.csv", "runs/b c.bin"} and got.unasked == 3
    assert "3 more files in the authors' repository were not asked for" in got.summary_lines()[-1]
    assert set(fetch_release("example", only=["chains/*"]).files) == {"runs/a.csv", "runs/b c.bin", "chains/one.json"}
    with pytest.raises(ValueError, match="--only must fit a file of example; got 'chain/.', which fits none of "):
        fetch_release("example", only=["chains/*", "chain/*"])
    every = fetch_release("example", only=["**"])
    assert len(every.files) == 5 and not every.unregistered and every.unasked == 0
    assert all(
        known["blob"] == blob((every.folder / p).read_bytes()) for p, known in recorded(every.folder)["files"].items()
    )


@pytest.mark.parametrize("came", [A + b"2,B\n", A[:5], b""])
def test_a_wrong_blob_or_half_a_file_is_refused_and_not_kept(server, whole, came):
    server.files[f"/raw/{COMMIT}/results/runs/a.csv"] = came
    with pytest.raises(ValueError, match=r"runs/a\.csv must have the hash of the release") as e:
        fetch_release("example")
    assert blob(came) in str(e.value) and blob(A) in str(e.value)
    assert not list((fetching.corpora() / "example").rglob("a.csv"))


def test_a_file_that_has_gone_and_a_commit_that_has_moved_are_refused(server, whole):
    gone = server.files.pop(f"/raw/{COMMIT}/results/runs/b%20c.bin")
    with pytest.raises(ConnectionError, match=r"runs/b c\.bin must be whole; got 404"):
        fetch_release("example")
    server.files = {path.replace(COMMIT, "f" * 40): content for path, content in server.files.items()}
    with pytest.raises(ConnectionError, match="got 404"):
        fetch_release("example", to=fetching.corpora() / "elsewhere")
    server.files[f"/raw/{COMMIT}/results/runs/b%20c.bin"] = gone
    assert "runs/b c.bin" in fetch_release("example").files


def test_a_changed_file_on_this_machine_is_replaced(server, whole):
    folder = fetch_release("example").folder
    (folder / "runs/a.csv").write_bytes(b"changed")
    assert fetch_release("example").folder.joinpath("runs/a.csv").read_bytes() == A


def test_the_root_of_a_clone_is_taken_by_content(server, whole, tmp_path):
    for path, content in WHOLE.items():
        (tmp_path / "clone" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "clone" / path).write_bytes(content)
    (tmp_path / "clone" / "ours.csv").write_text("made\n")
    (tmp_path / "clone" / "chains.json").write_text("extracted\n")
    got = fetch_release("example", tmp_path / "clone", only=["chains/*"])
    assert set(got.files) == {"runs/a.csv", "runs/b c.bin", "chains/one.json", "ours.csv", "chains.json"}
    assert got.derived == {"ours.csv": "made by us", "chains.json": "a copy"} and not got.unregistered
    assert got.passed_over == 1 and not server.asked
    here = inventory_of("example", got.folder)
    assert [here.search([p]).reason for p in ("results/**", "chains/*", "README.md", "*.xlsx")] == [
        "",
        "",
        "not_fetched",
        "not_in_release",
    ]
    (got.folder / "chains" / "one.json").unlink()
    only_copy = fetch_release("example", got.folder, tmp_path / "copy")
    assert inventory_of("example", only_copy.folder).search(["chains/*"]).reason == "", "a copy of it is here"


# ---------------------------------------------------------------- the password, and the command


def test_the_password_is_asked_for_on_a_terminal_and_written_nowhere(monkeypatch, tmp_path):
    monkeypatch.delenv("MHBENCH_MENTAT_PASSWORD", raising=False)
    asked = []
    monkeypatch.setattr(fetching.getpass, "getpass", lambda prompt: asked.append(prompt) or " a secret ")
    monkeypatch.setattr(fetching.sys, "stdin", type("Terminal", (), {"isatty": lambda self: False})())
    unlock("mentat")
    assert not asked and "MHBENCH_MENTAT_PASSWORD" not in os.environ
    monkeypatch.setattr(fetching.sys, "stdin", type("Terminal", (), {"isatty": lambda self: True})())
    unlock("mentat")
    unlock("mentat")
    assert len(asked) == 1 and "github.com/maxlampe/mentat" in asked[0]
    assert os.environ["MHBENCH_MENTAT_PASSWORD"] == "a secret"
    del os.environ["MHBENCH_MENTAT_PASSWORD"]  # not by monkeypatch, which would put it back


def test_a_study_of_one_s_own_brings_its_release(server, tmp_path, monkeypatch):
    "As a user has it: a folder of studies, a server, one command."
    study = tmp_path / "studies" / "sixth"
    study.mkdir(parents=True)
    (study / "__init__.py").write_text("")
    (study / "study.py").write_text(
        "from mhbench.registry import RegisteredStudy\nSTUDY = RegisteredStudy(name='sixth')\n"
    )
    file = {"size": len(A), "sha256": hashlib.sha256(A).hexdigest()}
    entry = {"title": "Sixth", "licence": "CC0", "terms": "None.", "repository": server.url, "commit": COMMIT}
    entry |= {"groups": [{"there": "*.csv", "to": "{}", "files": {"a.csv": file}}]}
    (study / "release.yaml").write_text(yaml.safe_dump(entry))
    server.files[f"/raw/{COMMIT}/a.csv"] = A
    monkeypatch.setitem(ENV, "MHBENCH_STUDIES", str(tmp_path / "studies"))
    monkeypatch.setitem(ENV, "MHBENCH_CORPORA", str(tmp_path / "corpora"))
    said = run(BIN / "mhbench", "fetch", "sixth", "--no-import", cwd=tmp_path)
    assert "sixth: 1 file," in said and "1 as the registry has them" in said and "mhbench import sixth" in said
    listed = run(BIN / "mhbench", "fetch", cwd=tmp_path)
    assert re.search(r"sixth: Sixth\n.*\n +files +1 file,.*\n +licence +CC0\n +terms +None", listed)
    assert str(tmp_path / "corpora" / "sixth") in listed


def test_what_can_be_fetched_is_listed_with_its_terms():
    said = "\n".join(release_lines())
    assert [line.split(":")[0] for line in release_lines() if not line.startswith(" ")] == [
        "counselingbench",
        "mentat",
        "mhqa",
    ]
    assert "MIT" in said and "be distributed" in said and said.count("licence") == 3


# ---------------------------------------------------------------- the real releases


@pytest.mark.parametrize(("name", "n", "lacking"), [("mentat", 34, 2), ("mhqa", 13, 18), ("counselingbench", 308, 1)])
def test_the_releases_at_hand_are_those_of_the_registry(datasets, tmp_path, name, n, lacking):
    got = fetch_release(name, datasets, tmp_path / name)
    assert not got.unregistered and len(got.missing) == lacking
    assert len(got.files) - len(got.derived) == n
    assert got.files == fetch_release(name, datasets / name, tmp_path / "again").files
    assert modes(got.folder) == ({0o600}, {0o700})


UPSTREAM = {
    "mhqa/final_results/*.csv": "benchmarking/final_results",
    "mhqa/difficulty/gpt*.csv": "difficulty_evaluation/final_results",
    "mhqa/difficulty/[ms]*800.csv": "difficulty_evaluation/data",
    "counselingbench/outputs_t/*.csv": "results/outputs/outputs_t",
    "counselingbench/metrics/*": "results/metrics",
}


@pytest.mark.parametrize("name", ["mhqa", "counselingbench"])
def test_files_held_out_go_through_in_both_layouts(datasets, tmp_path, name):
    "Files that the registry does not know, in the authors' folders and in ours."
    clone, ours = tmp_path / f"{name}-main", tmp_path / "ours"
    for pattern, there in UPSTREAM.items():
        for file in sorted(datasets.glob(pattern)) if pattern.startswith(name) else ():
            (clone / there).mkdir(parents=True, exist_ok=True)
            here = ours / file.parent.relative_to(datasets / name)
            here.mkdir(parents=True, exist_ok=True)
            for copy in (clone / there / file.name, here / file.name):
                shutil.copyfile(file, copy.with_stem("held_out_" + copy.stem))
    for folder in (clone, ours):
        for file in folder.rglob("held_out_*"):
            file.write_bytes(file.read_bytes() + b"\n")
    one, two = (fetch_release(name, folder, tmp_path / f"of {folder.name}") for folder in (clone, ours))
    assert one.files == two.files and len(one.files) > 5 and sorted(one.files) == one.unregistered
    assert one.passed_over == two.passed_over == 0


def test_fetch_imports_and_the_record_names_the_commit(clone, datasets, tmp_path, monkeypatch):
    monkeypatch.setenv("MHBENCH_CORPORA", str(tmp_path / "corpora"))
    folder = tmp_path / "mhbench"
    shutil.copytree(clone, folder)
    said = mhbench("fetch", "mhqa", "--from", datasets, cwd=folder)
    assert "13 as the registry has them" in said and "mhqa: 2475 items" in said
    entry = yaml.safe_load((folder / "params.yaml").read_text(encoding="utf-8"))["studies"]["mhqa"]["prepare"]
    assert entry["path"] == str(tmp_path / "corpora" / "mhqa") and entry["options"]["key"] == "number"
    record = json.loads((tmp_path / "corpora" / "mhqa" / "release.json").read_text())
    assert record["commit"].startswith("c8e2584") and len(record["files"]) == 13


def made_up_clone(name: str, folder: Path) -> Path:
    "The demo's corpus of a study as its authors' repository lays it out."
    demo, root = ROOT / "data" / name, folder / "clone"
    files = {
        "mhqa": {"datasets/mhqa.csv": "mhqa_demo.csv"},
        "counselingbench": {"results/outputs/outputs_t/a.csv": "counselingbench_demo.csv"},
        "mentat": {"mentat/config/config_params.py": "creators.csv", "annotated_data": "annotated_data"},
    }[name]
    for there, here in files.items():
        (root / there).parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (demo / here).is_dir() else shutil.copy)(demo / here, root / there)
    if name == "mentat":
        (root / "mentat/config/config_params.py").write_text("")
        with (demo / "final_dataset_raw_questions.csv").open("rb") as plain:
            with (root / "final_dataset_raw_questions.csv.aes").open("wb") as out:
                pyAesCrypt.encryptStream(plain, out, "sesame")
    return root


@pytest.mark.parametrize("name", ["counselingbench", "mhqa", "mentat"])
def test_the_root_of_a_clone_is_imported(name, tmp_path, monkeypatch, capsys):
    root = made_up_clone(name, tmp_path)
    assert not releasing.releases()[name].is_clone_root(ROOT / "data" / name), "the local layout is no clone"
    of = {p.relative_to(root).as_posix(): Blob(blob(p.read_bytes()), None) for p in root.rglob("*") if p.is_file()}
    made = releasing.releases()[name].model_copy(update={"tree": Tree("authors/x", COMMIT, of)})
    for module in (fetching, releasing):
        monkeypatch.setattr(module, "releases", lambda: {name: made})
    monkeypatch.setenv("MHBENCH_CORPORA", str(tmp_path / "corpora"))
    monkeypatch.setenv("MHBENCH_MENTAT_PASSWORD", "sesame")
    project = tmp_path / "project"
    project.mkdir()
    for file in ("dvc.yaml", "params.yaml", "run.yaml"):
        shutil.copy(ROOT / file, project)
    for part in ("data", "nbs", "mhbench"):
        (project / part).symlink_to(ROOT / part)
    monkeypatch.setenv("MHBENCH_ROOT", str(project))
    monkeypatch.chdir(project)
    assert main(["import", name, str(root)]) == 0, capsys.readouterr().err
    prepare = load_params(project / "params.yaml")["studies"][name]["prepare"]
    assert prepare["path"] == str(tmp_path / "corpora" / name / made.imported.get("path", "")).rstrip("/")
    assert "recorded in params.yaml" in capsys.readouterr().out
    assert recorded(prepare["path"])["commit"] == made.commit


def test_prompts_come_from_the_authors_programs_which_are_not_run(server, tmp_path, monkeypatch):
    "A release whose program would end everything: its prompt becomes a template; a changed program is refused."
    monkeypatch.setenv("MHBENCH_CORPORA", str(tmp_path / "corpora"))
    program = b'raise SystemExit("run")\nprompt = """Q: {q}\nOption1: {o1}\nOption2: {o2}\nAnswer: """\n'
    group = FileGroup(
        there="code/*", to="code/{}", files={"ask.py": ReleasedFile(size=len(program), blob=blob(program))}
    )
    about = {"title": "t", "licence": "MIT", "terms": "None.", "repository": server.url, "commit": COMMIT}
    made = Release(groups=[group], imported={}, **about)
    recipe = tmp_path / "wording.yaml"
    source = {"user": {"file": "code/ask.py", "name": "prompt"}, "fields": {"q": "question"}, "options": ["o1", "o2"]}
    recipe.write_text(yaml.safe_dump({"multiple_choice.yaml": {"zero_shot": source}}))
    monkeypatch.setattr(fetching, "study_files", lambda name: {"mhqa": recipe})
    for module in (fetching, releasing):
        monkeypatch.setattr(module, "releases", lambda: {"mhqa": made})
    with pytest.raises(ValueError, match="the paper's prompts must be there where wording is paper"):
        prompt_folder("paper", "mhqa", None)
    server.files[f"/raw/{COMMIT}/code/ask.py"] = program
    (written,) = fetch_prompts("mhqa")
    assert stat.S_IMODE(written.stat().st_mode) == 0o600
    given = dict(item_id="i", study="mhqa", task="multiple_choice", source="t")
    item = Item(**given, question="Why?", options=["x", "y"], key=["A"])
    (turn,) = build(item, dir=prompt_folder("paper", "mhqa", None))
    assert turn["content"] == "Q: Why?\nOption1: x\nOption2: y\nAnswer:"
    assert prompt_folder("ours", "mhqa", "mine") == "mine"
    with pytest.raises(ValueError, match="prompts_dir must be null"):
        prompt_folder("paper", "mhqa", "mine")
    changed = tmp_path / "clone" / "code"
    changed.mkdir(parents=True)
    (changed / "ask.py").write_bytes(program.replace(b"Q:", b"Question:"))
    with pytest.raises(ValueError, match="must have the hash of the release"):
        fetch_prompts("mhqa", changed.parent)
    with pytest.raises(ValueError, match="NAME must be a study whose released files have prompts"):
        fetch_prompts("medqade")


def test_a_prompt_that_was_typed_from_an_appendix_is_the_papers_too(tmp_path, monkeypatch):
    "A template in the user's folder says whose words it has; what the folder lacks is asked in ours."
    monkeypatch.setenv("MHBENCH_CORPORA", str(tmp_path))
    folder = tmp_path / "prompts" / "counselingbench"
    folder.mkdir(parents=True)
    typed = {"user": "Case: {context.demographics}\n{question}\n{options}", "prefill": "It is ("}
    typed["option"] = "({letter}): {text}"
    (folder / "multiple_choice.yaml").write_text(yaml.safe_dump(typed | {"wording": "paper"}))
    given = dict(study="counselingbench", source="t", question="Why?", context={"demographics": "A man."})
    item = Item(**given, item_id="i", task="multiple_choice", options=["x", "y"], key=["A"])
    prompts = prompt_folder("paper", "counselingbench", None)
    asked = template(item, dir=prompts)
    assert (asked.wording, asked.prefill) == ("paper", "It is (")
    assert build(item, dir=prompts)[0]["content"] == "Case: A man.\nWhy?\n(A): x\n(B): y"
    assert template(Item(**given, item_id="j", task="open", key=["z"]), dir=prompts).wording == "ours"
    (folder / "multiple_choice.yaml").write_text(yaml.safe_dump(typed))
    assert template(item, dir=prompts).wording == "own", "words whose origin is not said"
