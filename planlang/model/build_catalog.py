"""Makes the catalog: `python -m planlang.model.build_catalog`, or `--check [NAME ...]` to compare with what is there.

The sizes of each checkpoint are facts, kept in `data/checkpoints.json`; the trees are what transformers builds from
them, and the graphs what its code then does. Where a class holds more than the language model, only that part is known:
its vision and audio parts are left out and listed in `Tree.omitted`. The parameters counted must be the published
number.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from planlang.model.build_graphs import Model, differing_graphs, make_graph_files
from planlang.model.capture import capture_config
from planlang.model.catalog import DATA, OWNER
from planlang.model.pretrained import config_for
from planlang.model.store import dump
from planlang.model.tree import Node, Tree

# The classes of each model type, the one to take by default first. Left out, since their sizes are not known: the
# talkers and the speech decoders of the Omni models (their thinkers are language models and are here).
CLASSES = {
    "qwen2": ("Qwen2ForCausalLM", "Qwen2ForSequenceClassification"),
    "qwen2_moe": ("Qwen2MoeForCausalLM", "Qwen2MoeForSequenceClassification"),
    "qwen2_vl_text": ("Qwen2VLForConditionalGeneration",),
    "qwen2_5_vl_text": ("Qwen2_5_VLForConditionalGeneration",),
    "qwen2_5_omni_text": ("Qwen2_5OmniThinkerForConditionalGeneration",),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3ForSequenceClassification"),
    "qwen3_moe": ("Qwen3MoeForCausalLM", "Qwen3MoeForSequenceClassification"),
    "qwen3_next": ("Qwen3NextForCausalLM", "Qwen3NextForSequenceClassification"),
    "qwen3_vl_text": ("Qwen3VLForConditionalGeneration",),
    "qwen3_vl_moe_text": ("Qwen3VLMoeForConditionalGeneration",),
    "qwen3_omni_moe_text": ("Qwen3OmniMoeThinkerForConditionalGeneration",),
    "qwen3_5_text": (
        "Qwen3_5ForCausalLM",
        "Qwen3_5TextForSequenceClassification",
        "Qwen3_5ForConditionalGeneration",
    ),
    "qwen3_5_moe_text": ("Qwen3_5MoeForCausalLM", "Qwen3_5MoeForConditionalGeneration"),
}
UNKNOWN_PARTS = ("model.visual", "model.audio_tower", "visual", "audio_tower")

# Settings beside the facts that shape the modules. They are transformers' defaults for the type, and the number of
# parameters confirms them; other defaults, such as the context length, may be wrong for a checkpoint and are left out.
SHAPING = ("attention_bias", "decoder_sparse_step", "full_attention_interval", "head_dim", "hidden_act", "num_labels")


class CatalogError(Exception):
    """The facts and what transformers builds from them do not agree."""


def make_trees(checkpoint: Mapping[str, Any]) -> dict[str, Tree]:
    """The trees of one row of `data/checkpoints.json`, by class.

    Raises:
        CatalogError: the parameters of a class that writes text are not the published number.
    """
    facts = checkpoint["config"]
    trees = {cls: _make_tree(checkpoint["name"], cls, facts) for cls in CLASSES[facts["model_type"]]}
    for cls, tree in trees.items():
        if not cls.endswith("Classification") and checkpoint["params"] not in (None, tree.size()):
            raise CatalogError(
                f"{checkpoint['name']}: `{cls}` has {tree.size()} parameters, published are {checkpoint['params']}"
            )
    return trees


def make_files(names: Sequence[str] = ()) -> dict[str, str]:
    """File names and texts of the checkpoints of these names, or of all checkpoints and the index.

    Raises:
        CatalogError: a name is not in the facts, or a number of parameters is wrong.
    """
    files: dict[str, str] = {}
    entries: list[str] = []
    for row in _rows(names):
        trees = make_trees(row)
        file = row["name"].removeprefix(OWNER).lower() + ".json"
        files[file] = dump(trees)
        entries.append(json.dumps(_index_record(row, file, trees)))
    if not names:
        files["index.json"] = '{\n "checkpoints": [\n  ' + ",\n  ".join(entries) + "\n ]\n}\n"
        files |= make_graph_files(_models(_rows()))
    return files


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the catalog, or compare it; the exit status is 1 where it differs or the facts are wrong."""
    parser = argparse.ArgumentParser(prog="python -m planlang.model.build_catalog", description="Make the catalog.")
    parser.add_argument("--check", nargs="*", metavar="NAME", help="compare these checkpoints, or all, with the data")
    names: list[str] | None = parser.parse_args(arguments).check
    try:
        files = make_files(names or ())
        differing = [f"{file} differs from what transformers builds" for file in files if not _holds(file, files[file])]
        differing += differing_graphs(_models(_rows(names))) if names else []
    except CatalogError as error:
        print(error, file=sys.stderr)
        return 1
    if names is None:
        for stale in DATA.rglob("*.json"):
            if stale.relative_to(DATA).as_posix() not in (*files, "checkpoints.json"):
                stale.unlink()
        (DATA / "graphs").mkdir(exist_ok=True)
        for file, text in files.items():
            (DATA / file).write_text(text, encoding="utf-8", newline="\n")
        return 0
    for line in differing:
        print(line, file=sys.stderr)
    return 1 if differing else 0


def _rows(names: Sequence[str] = ()) -> list[Mapping[str, Any]]:
    """The facts of the checkpoints of these names, or of all."""
    rows = json.loads((DATA / "checkpoints.json").read_text(encoding="utf-8"))["checkpoints"]
    unknown = set(names) - {row["name"] for row in rows}
    if unknown:
        raise CatalogError(f"no such checkpoint: {', '.join(sorted(unknown))}")
    return [row for row in rows if not names or row["name"] in names]


def _models(rows: Sequence[Mapping[str, Any]]) -> Iterator[Model]:
    for row in rows:
        facts = row["config"]
        for cls in CLASSES[facts["model_type"]]:
            yield Model(facts["model_type"], row["name"], cls, _config(cls, facts))


def _config(cls: str, facts: Mapping[str, Any]) -> Any:
    # A reward model has one label.
    labels = {"num_labels": 1} if cls.endswith("Classification") else {}
    return config_for(cls, {**facts, **labels})


def _make_tree(name: str, cls: str, facts: Mapping[str, Any]) -> Tree:
    tree = capture_config(_config(cls, facts), cls, name)
    ignored = [key for key, value in facts.items() if key != "model_type" and tree.config.get(key) != value]
    if ignored:
        raise CatalogError(f"{name}: `{cls}` does not take the published {', '.join(ignored)}")
    omitted = tuple(path for path in UNKNOWN_PARTS if tree.find(path))
    root = tree.root
    for path in omitted:
        root = _without(root, path.split("."))
    known = {"model_type", *facts, *SHAPING}
    config = {key: value for key, value in tree.config.items() if key in known}
    return replace(tree, root=root, config=config, omitted=omitted)


def _without(node: Node, path: Sequence[str]) -> Node:
    """The node without the module at `path`."""
    children = (
        replace(child, node=_without(child.node, path[1:])) if child.name == path[0] else child
        for child in node.children
        if len(path) > 1 or child.name != path[0]
    )
    return replace(node, children=tuple(children))


def _index_record(row: Mapping[str, Any], file: str, trees: Mapping[str, Tree]) -> dict[str, Any]:
    facts = row["config"]
    return {
        "name": row["name"],
        "aliases": row["aliases"],
        "model_type": facts["model_type"],
        "classes": list(trees),
        "heads": facts["num_attention_heads"],
        "kv_heads": facts["num_key_value_heads"],
        "params": next(iter(trees.values())).size(),
        "tied": facts["tie_word_embeddings"],
        "file": file,
    }


def _holds(file: str, text: str) -> bool:
    return (DATA / file).is_file() and (DATA / file).read_text(encoding="utf-8") == text


if __name__ == "__main__":
    sys.exit(main())
