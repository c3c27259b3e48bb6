import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from planlang.model.resolve import ModelError, ModelErrorCode, model_tree

QWEN3 = {
    "model_type": "qwen3",
    "architectures": ["Qwen3ForCausalLM"],
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
}


def write(folder: Path, content: Any) -> str:
    path = folder / "config.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


def refused(spec: str, cls: str | None = None) -> ModelError:
    with pytest.raises(ModelError) as caught:
        model_tree(spec, cls)
    error = caught.value
    assert error.message == str(error)
    assert error.message
    assert error.help
    assert "\n" not in error.message
    return error


def test_a_name_of_the_catalog() -> None:
    tree = model_tree("Qwen3-8B", "Qwen3ForSequenceClassification")
    assert (tree.name, tree.cls) == ("Qwen3-8B", "Qwen3ForSequenceClassification")


def test_a_configuration_and_the_folder_that_holds_it(tmp_path: Path) -> None:
    spec = write(tmp_path, QWEN3)
    for given in (spec, str(tmp_path)):
        tree = model_tree(given)
        assert (tree.name, tree.cls) == (given, "Qwen3ForCausalLM")
        assert tree.config["num_hidden_layers"] == 2
    assert model_tree(spec, "Qwen3Model").cls == "Qwen3Model"


@pytest.mark.parametrize("missing", ["model_type", "architectures"])
def test_the_type_or_the_class_is_enough(tmp_path: Path, missing: str) -> None:
    spec = write(tmp_path, {key: value for key, value in QWEN3.items() if key != missing})
    assert model_tree(spec).cls == "Qwen3ForCausalLM"


@pytest.mark.parametrize(
    "extra",
    [
        {"_attn_implementation": "flash_attention_2"},
        {"attn_implementation": "flash_attention_3"},
        {"quantization_config": {"quant_method": "fp8"}},
        {"auto_map": {"AutoModelForCausalLM": "modeling.Model"}},
        {"torch_dtype": "bfloat16"},
    ],
)
def test_settings_that_do_not_shape_the_model(tmp_path: Path, extra: dict[str, Any]) -> None:
    assert model_tree(write(tmp_path, QWEN3 | extra)).root.call is not None


def test_near_names_are_offered() -> None:
    error = refused("Qwen/Qwen3-9B")
    assert error.code_hint == "unknown-model"
    assert "`Qwen/Qwen3-8B`" in error.help


@pytest.mark.parametrize("spec", ["", "gpt2", "no/such/path", "a\0b", "x" * 5000, "~nobody-of-this-name/x", "Ⅷ"])
def test_unknown_models(spec: str) -> None:
    assert refused(spec).code_hint == "unknown-model"


def test_classes_that_the_catalog_lacks() -> None:
    error = refused("Qwen3-8B", "Qwen3ForCausalLm")
    assert error.code_hint == "unknown-class"
    assert "`Qwen3ForCausalLM`" in error.help


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is no JSON"),
        ("{", "is no JSON"),
        ("[1]", "holds no JSON object"),
        ("null", "holds no JSON object"),
        ("[" * 100_000, "nested too deeply"),
        ('{"hidden_size": ' + "9" * 5000 + "}", "is no JSON"),
        ("{}", "neither `model_type` nor `architectures`"),
        ({"model_type": 3}, "`model_type` is no string"),
        ({"model_type": ["qwen3"]}, "`model_type` is no string"),
        (QWEN3 | {"architectures": "Qwen3ForCausalLM"}, "`architectures` is no list of class names"),
        (QWEN3 | {"architectures": [1]}, "`architectures` is no list of class names"),
        (QWEN3 | {"num_hidden_layers": -1}, "`num_hidden_layers` is -1, expected 1 to 2000"),
        (QWEN3 | {"num_hidden_layers": 0}, "`num_hidden_layers` is 0, expected 1 to 2000"),
        (QWEN3 | {"num_hidden_layers": 10**9}, "`num_hidden_layers` is 1000000000, expected 1 to 2000"),
        (QWEN3 | {"num_hidden_layers": "many"}, "num_hidden_layers"),
        (QWEN3 | {"num_hidden_layers": 2.5}, "num_hidden_layers"),
        (QWEN3 | {"num_hidden_layers": [2]}, "num_hidden_layers"),
        (QWEN3 | {"num_hidden_layers": None}, "num_hidden_layers"),
        (QWEN3 | {"num_attention_heads": 0}, "`num_attention_heads` is 0"),
        (QWEN3 | {"head_dim": -8}, "`head_dim` is -8"),
        (QWEN3 | {"num_labels": 10**9}, "`num_labels` is 1000000000"),
        (QWEN3 | {"hidden_size": 2**62}, "`hidden_size` is 4611686018427387904"),
        (QWEN3 | {"hidden_size": 2**40, "vocab_size": 2**40}, "cannot be built"),
        (QWEN3 | {"hidden_act": "no such function"}, "cannot be built"),
        (QWEN3 | {"layer_types": ["other"]}, "layer_types"),
        (QWEN3 | {"rope_parameters": 3}, "bad configuration"),
        (QWEN3 | {"rope_parameters": {"rope_type": "none such"}}, "bad configuration"),
        ({"model_type": "qwen3_moe", "num_hidden_layers": 2000, "num_experts": 10**4}, "are more than 200000 experts"),
        ({"model_type": "qwen3_vl", "text_config": {"num_hidden_layers": 10**9}}, "`num_hidden_layers` is 1000000000"),
        ({"model_type": "qwen3_vl", "architectures": ["Qwen3VLForConditionalGeneration"], "text_config": 3}, "refuses"),
        ({"model_type": "swin", "depths": [2, 10**9]}, "`depths` is 1000000000, expected 0 to 2000"),
    ],
)
def test_bad_configurations(tmp_path: Path, content: Any, message: str) -> None:
    error = refused(write(tmp_path, content))
    assert (error.code_hint, message) == ("bad-config", message)
    assert message in error.message


@pytest.mark.parametrize(
    ("content", "cls", "code", "help_part"),
    [
        (QWEN3 | {"architectures": ["Qwen3ForCausalLm"]}, None, "unknown-architecture", "`Qwen3ForCausalLM`"),
        ({"model_type": "qwen99"}, None, "unknown-architecture", "version of transformers"),
        ({"architectures": ["FooForCausalLM"]}, None, "unknown-architecture", ""),
        ({"model_type": "vit"}, None, "unknown-architecture", "name a model class"),
        (QWEN3, "Qwen3ForCausalLm", "unknown-class", "`Qwen3ForCausalLM`"),
        (QWEN3, "LlamaForCausalLM", "unknown-class", ""),
        (QWEN3, "Qwen3Config", "unknown-class", ""),
        (QWEN3, "../../etc", "unknown-class", ""),
        (QWEN3 | {"architectures": ["FooForCausalLM"]}, "BarModel", "unknown-class", ""),
    ],
)
def test_unknown_classes(tmp_path: Path, content: Any, cls: str | None, code: ModelErrorCode, help_part: str) -> None:
    error = refused(write(tmp_path, content), cls)
    assert error.code_hint == code
    assert help_part in error.help


def test_a_class_asked_for_replaces_an_unknown_one(tmp_path: Path) -> None:
    spec = write(tmp_path, QWEN3 | {"architectures": ["MyRewardModel"]})
    assert model_tree(spec, "Qwen3ForCausalLM").cls == "Qwen3ForCausalLM"


def test_a_folder_without_configuration(tmp_path: Path) -> None:
    assert refused(str(tmp_path)).code_hint == "bad-config"


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    binary = tmp_path / "model.bin"
    binary.write_bytes(b"\x80\x81\xff" * 10)
    large = tmp_path / "large.json"
    large.write_text(" " * 4_000_001)
    folder = tmp_path / "folder"
    (folder / "config.json").mkdir(parents=True)
    for path in (binary, large, folder):
        assert refused(str(path)).code_hint == "bad-config"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "config.json")
    assert "is no file" in refused(str(tmp_path)).message


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser may read everything")
def test_a_file_without_permission(tmp_path: Path) -> None:
    path = Path(write(tmp_path, QWEN3))
    path.chmod(0)
    assert "cannot read" in refused(str(path)).message


def test_refusing_imports_neither_torch_nor_transformers(tmp_path: Path) -> None:
    code = (
        "import sys; from planlang.model.resolve import ModelError, model_tree\n"
        "for spec in sys.argv[1:]:\n"
        "    try: model_tree(spec)\n"
        "    except ModelError: continue\n"
        "    sys.exit(2)\n"
        "sys.exit(bool({'torch', 'transformers'} & set(sys.modules)))"
    )
    bad = write(tmp_path, QWEN3 | {"num_hidden_layers": -1})
    assert subprocess.run([sys.executable, "-c", code, "Qwen3-9B", bad], check=False).returncode == 0
