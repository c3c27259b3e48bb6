"""What `--model` may be: a checkpoint of the catalog, a `config.json`, or a folder that holds one.

torch and transformers are imported only where a configuration must be built.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, TypeAlias

from planlang.model import catalog
from planlang.model.graph_cache import cached, cached_tree
from planlang.model.template import Graphs
from planlang.model.tree import Tree

ModelErrorCode: TypeAlias = Literal["unknown-model", "bad-config", "unknown-architecture", "unknown-class"]

# Published models have at most some 130 layers, 25,000 experts in all layers and configurations of 100 kB. Much more is
# a slip of the pen, and would keep Python busy for hours.
MAX_BYTES = 4_000_000
MAX_LAYERS = 2_000
MAX_EXPERTS = 200_000
MAX_COUNT = 100_000
MAX_SIZE = 2**40
_POSITIVE = ("hidden_size", "num_attention_heads", "num_hidden_layers", "vocab_size")


class ModelError(ValueError):
    """A model that cannot be had.

    Attributes:
        code_hint: what is wrong, for the choice of a code.
        message: one sentence that says so.
        help: what to do about it.
    """

    def __init__(self, code_hint: ModelErrorCode, message: str, help: str) -> None:
        super().__init__(message)
        self.code_hint = code_hint
        self.message = message
        self.help = help


def model_tree(spec: str, cls: str | None = None) -> Tree:
    """The tree of the model that `spec` names; that of a configuration is captured once and kept.

    Args:
        spec: a published name, which wins over a folder of that name (`./NAME` is the folder), or a path.
        cls: the model class; by default what the catalog or the configuration says.

    Raises:
        ModelError: there is no such model, or it cannot be built.
    """
    if _in_catalog(spec, cls):
        return catalog.tree(spec, cls)
    settings = _settings(_config_path(spec), spec)

    def make() -> Tree:
        from planlang.model.capture import capture_config
        from planlang.model.pretrained import config_from

        return capture_config(config_from(settings), cls)

    with _as_model_error(settings, spec, cls):
        return replace(cached_tree({"settings": settings, "cls": cls}, make), name=spec)


def model_graphs(spec: str, cls: str | None = None) -> Graphs:
    """The graphs of the model that `spec` names; those of a configuration are captured once and kept.

    Args:
        spec: as for `model_tree`.
        cls: as for `model_tree`.

    Raises:
        ModelError: there is no such model, or it cannot be built. Code that fails in a pass is told by `Graphs`.
    """
    if _in_catalog(spec, cls):
        return catalog.graphs(spec, cls)
    settings = _settings(_config_path(spec), spec)

    def make() -> Any:
        from planlang.model.graphs import capture_document
        from planlang.model.pretrained import config_from

        return capture_document(config_from(settings), cls)

    with _as_model_error(settings, spec, cls):
        return cached({"settings": settings, "cls": cls}, make)


def settings_of(spec: str) -> Mapping[str, Any]:
    """The settings in the `config.json` that `spec` names, or that lies in its folder.

    Raises:
        ModelError: there is no such file, or it holds no configuration.
    """
    return _settings(_config_path(spec), spec)


def _in_catalog(spec: str, cls: str | None) -> bool:
    """Whether `spec` names a checkpoint of the catalog; it must be there as `cls` then."""
    entry = catalog.find(spec)
    if entry is not None and cls is not None and cls not in entry.classes:
        near = get_close_matches(cls, entry.classes) or entry.classes
        raise ModelError(
            "unknown-class",
            f"the catalog does not have `{entry.name}` as `{cls}`",
            f"use {_either(near)}, or give the path of a `config.json`",
        )
    return entry is not None


def _config_path(spec: str) -> Path:
    """The file that holds the configuration."""
    try:
        path = Path(spec).expanduser()
        exists, is_folder = bool(spec) and path.exists(), path.is_dir()
    except (OSError, RuntimeError, ValueError):  # a name too long, no such home, a null byte
        exists = False
    if not exists:
        near = catalog.close_names(spec)
        raise ModelError(
            "unknown-model",
            f"`{spec}` is neither a model of the catalog nor a file or folder",
            f"did you mean {_either(near)}?" if near else "give a published name, such as `Qwen/Qwen3-8B`, or a path",
        )
    return path / "config.json" if is_folder else path


def _settings(path: Path, spec: str) -> Mapping[str, Any]:
    """The content of a configuration file, with values that can be built in reasonable time."""
    settings = _read(path, spec)
    kind, classes = settings.get("model_type"), settings.get("architectures")
    problem = next(_absurdities(settings), None)
    if not kind and not classes:
        problem = "it has neither `model_type` nor `architectures`"
    elif not isinstance(kind, str | None):
        problem = "`model_type` is no string"
    elif classes is not None and not (isinstance(classes, list) and all(isinstance(name, str) for name in classes)):
        problem = "`architectures` is no list of class names"
    if problem:
        raise ModelError("bad-config", f"bad configuration `{spec}`: {problem}", "correct the file")
    return settings


def _read(path: Path, spec: str) -> dict[str, Any]:
    """The object in a JSON file."""
    expected = "give the `config.json` of a model, or the folder that holds it"
    try:
        if not path.is_file():  # a pipe or a device could be read for ever
            raise ModelError("bad-config", f"`{path}` is no file", expected)
        if path.stat().st_size > MAX_BYTES:
            raise ModelError("bad-config", f"`{path}` is larger than {MAX_BYTES} bytes", expected)
        settings = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ModelError("bad-config", f"cannot read `{path}`: {error.strerror}", expected) from error
    except RecursionError as error:
        raise ModelError("bad-config", f"`{path}` is nested too deeply", expected) from error
    except ModelError:
        raise
    except ValueError as error:  # no UTF-8, no JSON, a number of too many digits
        raise ModelError("bad-config", f"`{path}` is no JSON: {error}", expected) from error
    if not isinstance(settings, dict):
        raise ModelError("bad-config", f"`{spec}` holds no JSON object", expected)
    return settings


def _absurdities(settings: Mapping[str, Any]) -> Iterator[str]:
    """What is out of all bounds in a configuration, one sentence each."""
    layers, experts = 1, 1
    for key, number in _numbers(settings):
        low, high = _bounds(key)
        if not low <= number <= high:
            yield f"`{key}` is {number}, expected {low} to {high}"
        layers = max(layers, number if _counts_layers(key) else 1)
        experts = max(experts, number if "experts" in key else 1)
    if layers * experts > MAX_EXPERTS:
        yield f"{layers} layers of {experts} experts are more than {MAX_EXPERTS} experts"


def _numbers(settings: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Every setting that is a whole number or a list of them, those of parts of the model too."""
    for key, value in settings.items():
        if isinstance(value, dict):
            yield from _numbers(value)
        for number in value if isinstance(value, list) else [value]:
            if isinstance(number, int) and not isinstance(number, bool):
                yield key, number


def _bounds(key: str) -> tuple[int, int]:
    """The least and the greatest number that a setting of this name may sensibly be."""
    counted = key.startswith(("num_", "n_"))
    if key in _POSITIVE:
        low = 1
    elif counted or _counts_layers(key) or key.endswith(("intermediate_size", "head_dim")):
        low = 0
    else:  # -1 stands for "none" in token ids and for "the last" in dims
        low = -MAX_SIZE
    return low, MAX_LAYERS if _counts_layers(key) else MAX_COUNT if counted else MAX_SIZE


def _counts_layers(key: str) -> bool:
    return key in ("depth", "depths", "n_layer") or (key.endswith("layers") and not key.startswith("max_"))


@contextmanager
def _as_model_error(settings: Mapping[str, Any], spec: str, cls: str | None) -> Iterator[None]:
    """Says of the content of a configuration file what transformers has against it."""
    from planlang.model.pretrained import CaptureError, close_classes

    try:
        yield
    except CaptureError as error:
        if error.fault == "config":
            raise ModelError("bad-config", f"bad configuration `{spec}`: {error}", "correct the file") from error
        code: ModelErrorCode = "unknown-architecture"
        help = "use a version of transformers that has it"
        if error.fault == "class":
            named = [cls] if cls is not None else settings.get("architectures")
            near = [each for each in close_classes(named[0]) if each != named[0]] if named else []
            if cls is not None and settings.get("architectures"):  # what the file says fits its own type
                near = [each for each in settings["architectures"][:1] if each != cls] or near
            help = f"did you mean {_either(near)}?" if near else "name a model class of transformers for this type"
            code = "unknown-class" if cls is not None else code
        raise ModelError(code, str(error), help) from error


def _either(names: Iterable[str]) -> str:
    return " or ".join(f"`{name}`" for name in names)
