"Whatever stands in params.yaml, what is wrong with it is said in our words, with its line, and before anything runs."

import json

import pytest
from conftest import ROOT

from mhbench.run.cli import main
from mhbench.run.params import load_params
from mhbench.run.shape import params_schema
from mhbench.steps import generate, parameters
from mhbench.studies.counselingbench import study as counselingbench
from mhbench.studies.medqade import study as medqade
from mhbench.studies.mentat import study as mentat
from mhbench.studies.mhqa import study as mhqa
from mhbench.studies.psychiatrybench import study as psychiatrybench

WRITTEN = "".join((ROOT / name).read_text(encoding="utf-8") for name in ("params.yaml", "run.yaml"))  # in one file
SECRET = "-".join(["sk", "planted", "0123456789abcdef"])  # in no file as it is


def put(tmp_path, *changes, text=WRITTEN):
    "params.yaml with texts replaced, each of which is there."
    for old, new in changes:
        assert old in text, f"mend the test: {old!r} is not in params.yaml"
        text = text.replace(old, new, 1)
    file = tmp_path / "params.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
    return file


def said(tmp_path, *changes, text=WRITTEN):
    with pytest.raises(ValueError) as e:
        load_params(put(tmp_path, *changes, text=text))
    return str(e.value)


MISTAKES = {  # what is written instead, and what is said of it
    "linage": (("lineage: minilm", "linage: minilm"), "models.minilm.linage", "did you mean lineage?"),
    "text for a number": (
        ("\nscore:\n  n_boot: 1000", '\nscore:\n  n_boot: "many"'),
        "score.n_boot must be a whole number",
        "'many'",
    ),
    "half a number": (
        ("\nscore:\n  n_boot: 1000", "\nscore:\n  n_boot: 2.5"),
        "score.n_boot must be a whole number",
        "got 2.5",
    ),
    "resamples without end": (
        ("\nscore:\n  n_boot: 1000", "\nscore:\n  n_boot: 1000000000000"),
        "score.n_boot must be 1000000 or less",
        "got 1000000000000",
    ),
    "a seed that no generator takes": (
        ("seed: 20250107", f"seed: {10**30}"),
        "seed must be 4294967295 or less",
        "1000",
    ),
    "none as a text": (
        ("\n  n_per_category: ", "\n  n_per_category: none "),
        "judge.n_per_category",
        "null stands for none",
    ),
    "a date": (
        ("released: '2021-08-30'", "released: 2025-08-14"),
        "models.minilm.released",
        '"2025-08-14"',
    ),
    "a model that is a number": (("  minilm:\n", "  4:\n"), "models.4 must be named by a text", 'quotes: "4"'),
    "not a number": (("scale: 20.0", "scale: .nan"), "models.minilm.scale must be a number", "nan"),
    "infinite": (("penalty: 5.0", "penalty: .inf"), "preferences.penalty must be a number", "inf"),
    "temperature": (("temperature: 0.0", "temperature: cold"), "models.gemma.sampling.temperature", "got 'cold'"),
    "temperature out of range": (("temperature: 0.0", "temperature: 7"), "sampling.temperature must be 2 or less", "7"),
    "a NaN that is sent": (
        ("temperature: 0.0\n", "temperature: 0.0\n      top_k: .nan\n"),
        "models.gemma must",
        "top_k",
    ),
    "a parameter of the service with a slip": (
        ("temperature: 0.0\n", "temprature: 0.0\n"),
        "models.gemma must",
        "did you mean temperature?",
    ),
    "a pass mark in percent": (("pass mark: 0.63", "pass mark: 63"), "pass mark must be 1 or less", "63"),
    "a page that asks nothing known": (
        ("  mhqa:\n    prepare:\n", "  mhqa:\n    annotate: {kind: agreee}\n    prepare:\n"),
        "studies.mhqa.annotate.kind must be one of",
        "did you mean agree?",
    ),
    "a seed of today": (("seed: 20250107", "seed: today"), "seed must be a whole number", "'today'"),
    "a key twice": (("seed: 20250107", "seed: 1\nseed: 2"), "seed must stand once", "first in line 5"),
    "a section twice": (("report: {title", "score: {}\nreport: {title"), "score must stand once", "line"),
    "a breakdown": (
        ("\n  by:\n  - category\n", "\n  by:\n  - categry\n"),
        "score.by.0 must be one of",
        "did you mean category?",
    ),
    "a breakdown as a text": (
        ("\n  by:\n  - category\n  - topic\n", "\n  by: category\n"),
        "score.by must be a list",
        "[category]",
    ),
    "an attribute": (("D_G: gender", "D_G: gendre"), "demographics.attributes.D_G", "did you mean gender?"),
    "a set that is not made": (("    demographics: {}", "    demographics: {attributes: {D_X: gender}}"), "D_X", "D_G"),
    "a core that is not made": (("core: D0", "core: D9"), "studies.mentat.score.core", "add it there"),
    "options of nothing": (
        ("options: {}\n", "options: null\n"),
        "studies.mentat.prepare.options",
        "nothing",
    ),
    "a study of nothing": (
        ("  mhqa:\n    prepare", "  odd:\n  mhqa:\n    prepare"),
        "studies.odd must be a mapping",
        "not",
    ),
    "a study without prepare": (
        ("  mhqa:\n    prepare", "  odd: {score: {}}\n  mhqa:\n    prepare"),
        "studies.odd must have a section prepare, or ratings; got score",
        "add",
    ),
    "a study named as a folder of copies": (
        ("  mhqa:\n    prepare", "  replication: {ratings: {}}\n  mhqa:\n    prepare"),
        "studies.replication must have a name of its own; got 'replication'",
        "name it after its corpus",
    ),
    "a model of nothing": (("  minilm:\n", "  odd:\n  minilm:\n"), "models.odd must be a mapping", "nothing"),
    "no studies": (
        ("run:\n  studies: [mentat, psych", "run:\n  studies: \n  x: [mentat, psych"),
        "run.studies",
        "nothing",
    ),
    "a stage": (("\npanel: {", "\npannel: {"), "pannel must be one of", "did you mean panel?"),
    "a model of the run": (
        ("models: [qwen-1.5b,", "models: [qwen-1.5,"),
        "run.models must name entries",
        "did you mean qwen-1.5b?",
    ),
    "a judge": (("score, judges: [qwen-1.5b,", "score, judges: [gema,"), "judge.judges", "mean gemma?"),
    "an endpoint": (("endpoint: encoder", "endpoint: encodr"), "models.minilm.endpoint", "did you mean encoder?"),
    "a kind of endpoint": (("kind: encoder}", "kind: opnai}"), "endpoints.encoder", "did you mean openai?"),
    "a path in a name": (("  mhqa:\n", "  ../mhqa:\n"), "studies must have names of letters", "'../mhqa'"),
    "a command in a name": (("  mhqa:\n", '  "x; touch y":\n'), "studies must have names of letters", "rename"),
    "a line break in a name": (("  mhqa:\n", '  "mhqa\\n":\n'), "studies must have names of letters", "rename"),
    "a name without end": (("  minilm:\n", f"  {'m' * 255}:\n"), "models must have 100 characters or fewer", "mmm"),
    "a mode": (
        ("few_shot_cot: {n_items: 6}", "fewshot_cot: {n_items: 6}"),
        "mhqa.generate.modes must be one of",
        "few_shot_cot?",
    ),
    "no items": (
        ("few_shot_cot: {n_items: 6}", "few_shot_cot: {n_items: 0}"),
        "few_shot_cot.n_items must be 1 or more",
        "got 0",
    ),
    "a replay": (("replay: use  ", "replay: never"), "generate.replay must be one of use, only, off", "'never'"),
    "a seed of its own": (("\nscore:\n", "\nscore:\n  seed: 3\n"), "score.seed must be left to the run", "top"),
    "a price": (("price: {prompt: 0.0", "price: {prompt: -1"), "models.gemma.price.prompt must be 0 or more", "-1"),
    "half a price": (
        ("{prompt: 0.0, completion: 0.0}", "{prompt: 0.0}"),
        "models.gemma",
        "fields prompt and completion",
    ),
    "a parameter that nobody gives": (
        ("  convention: official ", "  # conv "),
        "reasoning.convention must be given",
        "add",
    ),
    "lists that do not follow": (("  panel: [medqade]", "  panel: [mhqa]"), "run.panel", "mhbench select"),
    "an executor": (("executor: {kind: threads}", "executor: {kind: slurm}"), "executor.kind", "threads, dask"),
    "a hash": (("sha256:\n", "sha256: abc\n"), "mentat.prepare.sha256 must be a SHA-256", "'abc'"),
}


@pytest.mark.parametrize("what", MISTAKES)
def test_a_mistake_is_said_with_its_line(what, tmp_path):
    change, *parts = MISTAKES[what]
    message = said(tmp_path, change)
    assert all(p in message for p in parts) and "line " in message, message
    assert not any(w in message for w in ("pydantic", "ValidationError", "Traceback", "is not of type")), message


def test_all_mistakes_are_said_at_once_in_the_order_of_the_file(tmp_path):
    keep = [
        c for what, (c, *_) in MISTAKES.items() if what in ("linage", "a date", "a replay", "a breakdown", "a judge")
    ]
    message = said(tmp_path, *keep)
    lines = [int(row.split("line ")[1].split(":")[0]) for row in message.splitlines()[1:]]
    assert "got 5 mistakes" in message and len(lines) == 5 and lines == sorted(lines)


KEYS = {
    "api_key": ("endpoint: encoder", f"endpoint: encoder\n    api_key: {SECRET}"),
    "a header": ("kind: encoder}", f"kind: encoder, headers: {{X-Api-Token: {SECRET}}}}}"),
    "a header of another name": (
        "kind: encoder}",
        f"kind: vllm, base_urls: ['http://h/v1'], headers: {{X-Trace: {SECRET}}}}}",
    ),
    "a key in a URL": ("kind: encoder}", f"kind: vllm, base_urls: ['http://h/v1?key={SECRET}']}}"),
    "a password in a URL": ("kind: encoder}", f"kind: vllm, base_urls: ['http://me:{SECRET}@h/v1']}}"),
    "as the variable": (
        "kind: encoder}",
        f"kind: vllm, base_urls: ['http://h/v1'], headers_env: {{X-Key: {SECRET}}}}}",
    ),
    "in a wrong place": ("\nscore:\n  n_boot: 1000", f"\nscore:\n  n_boot: {SECRET}"),
    "as a list": ("endpoint: encoder", f"endpoint: encoder\n    api_key: [{SECRET}]"),
}


@pytest.mark.parametrize("where", KEYS)
def test_a_key_in_the_file_is_refused_and_never_repeated(where, tmp_path):
    message = said(tmp_path, KEYS[where])
    assert SECRET not in message and SECRET[3:12] not in message and "line " in message


FILES = {  # whole files: what is said
    "empty": (b"", "got nothing"),
    "a comment": (b"# nothing\n", "got nothing"),
    "a list": (b"- seed\n", "got a list"),
    "a text": (b"root:x:0:0:root:/root:/bin/bash\n", "got a text"),
    "a tab": (b"seed: 1\nrun:\n\tstudies: []\n", "indent with spaces"),
    "an open bracket": (b"seed: [1\nrun: {}\n", "line "),
    "an open quote": (b'seed: "1\n', "line "),
    "latin-1": ("seed: 1 # Größe\n".encode("latin-1"), "must be UTF-8"),
    "UTF-16": ("seed: 1\n".encode("utf-16"), "must be UTF-8"),
    "a NUL": (b"seed: 1\x00\n", "must be YAML"),
    "a tag that runs": (b'seed: !!python/object/apply:os.system ["touch pwned"]\n', "must be YAML"),
    "aliases of aliases": (
        b"a: &a [x,x,x,x,x,x,x,x,x]\n"
        + b"".join(b"%c: &%c [%s]\n" % (98 + n, 98 + n, b",".join([b"*%c" % (97 + n)] * 9)) for n in range(9)),
        "aliases of aliases",
    ),
    "an alias of itself": (b"seed: &a [*a]\n", "aliases of aliases"),
    "without end": (b"[" * 50_000, "must"),
    "two documents": (b"seed: 1\n---\nseed: 2\n", "must be YAML"),
    "a byte order mark": (b"\xef\xbb\xbfseed: 1\n", "run must be there"),
    "only a seed": (b"seed: 1\n", "got 4 mistakes"),
    "everything a list": (b"seed: []\nrun: []\nstudies: []\nmodels: []\nendpoints: []\nexecutor: []\n", "6 mistakes"),
    "everything null": (b"seed:\nrun:\nstudies:\nmodels:\nendpoints:\nexecutor:\n", "5 mistakes"),
}


@pytest.mark.parametrize("what", FILES)
def test_a_file_that_is_none_is_refused_in_our_words(what, tmp_path):
    text, part = FILES[what]
    message = said(tmp_path, text=text)
    assert part in message and "/bin/bash" not in message and "Größe" not in message, message
    assert not (tmp_path / "pwned").exists()


def test_what_is_no_file_is_refused(tmp_path):
    (tmp_path / "params.yaml").mkdir()
    with pytest.raises(ValueError, match="must be a file; got a folder"):
        load_params(tmp_path / "params.yaml")
    with pytest.raises(ValueError, match="must be there; got nothing"):
        load_params(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    "command", [["plan"], ["inputs"], ["select", "--studies", "mhqa"], ["select"], ["run", "report"]]
)
def test_every_command_says_it_before_it_does_anything(command, house, monkeypatch, capsys):
    text = WRITTEN.replace("lineage: minilm", "linage: minilm", 1).replace("replay: use  ", "replay: never", 1)
    (house.top / "params.yaml").write_text(text, encoding="utf-8")
    monkeypatch.chdir(house.top)
    ended, said = main(command), capsys.readouterr().err
    assert ended == 1 and "Traceback" not in said
    assert "got 2 mistakes" in said and "did you mean lineage?" in said
    assert (house.top / "params.yaml").read_text(encoding="utf-8") == text and not (house.top / "results").exists()


def test_a_thousand_models_are_read_soon(tmp_path):
    many = "".join(f"  m{i}: {{endpoint: encoder, served: minilm}}\n" for i in range(1000))
    assert len(load_params(put(tmp_path, ("  minilm:\n", many + "  minilm:\n")))["models"]) == 1000 + len(
        load_params(ROOT / "params.yaml")["models"]
    )


def test_the_schema_for_editors_is_the_one_that_is_checked():
    file = ROOT / "params.schema.json"
    assert json.loads(file.read_text(encoding="utf-8")) == params_schema(ROOT), "run `make export`"
    assert WRITTEN.startswith("# yaml-language-server: $schema=params.schema.json\n")
    schema = json.loads(file.read_text(encoding="utf-8"))
    import jsonschema

    jsonschema.Draft202012Validator.check_schema(schema)
    score = schema["properties"]["score"]["anyOf"][0]["$ref"].rsplit("/", 1)[1]
    assert schema["$defs"][score]["properties"]["n_boot"]["description"] == "bootstrap replicates"
    for record in (generate.Setting, generate.Votes):
        described = {
            k: x["description"] for k, x in schema["$defs"][record.__name__]["properties"].items() if "description" in x
        }
        assert described == {k: f.description for k, f in record.model_fields.items() if f.description}
    for study in (counselingbench, medqade, mentat, mhqa, psychiatrybench):  # and that of the stages of each
        for stage in (place.partition(":")[2] for place in study.STUDY.parameters.values()):
            own = getattr(study, stage)
            assert issubclass(own, parameters.Parameters)
            said = {k: x["default"] for k, x in schema["$defs"][stage]["properties"].items() if "default" in x}
            assert said and said == {k: own.model_fields[k].default for k in said}


@pytest.mark.parametrize("name", ["1e5", "12.5", "'7'", "0x1F"])
def test_a_name_that_dvc_reads_as_a_number_is_refused_with_another(name, tmp_path):
    text = said(tmp_path, ("\nmodels:\n", f"\nmodels:\n  {name}: {{endpoint: local, served: x}}\n"))
    assert "models" in text and ("name it model-" in text or "quot" in text)
