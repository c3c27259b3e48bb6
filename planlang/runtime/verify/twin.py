"""A tiny twin of a model: the same classes and code, the real numbers of heads, one layer of each kind, small widths.

What a plan does to a model depends on the divisibility of its sizes, not on the sizes: a width of the twin is divided
by the same numbers of ranks as the real one. Layers of one class whose rules are alike compute alike, so one of them
stands for all.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from planlang.model.calls import silence
from planlang.model.pretrained import text_config
from planlang.model.tree import Node, Tree
from planlang.plan.styles import Style
from planlang.runtime.verify.narrow import NARROW, Widths, narrow, narrow_tower, settle, undrop

_DEPTHS = {"depth", "num_hidden_layers", "encoder_layers"}
SPREAD = 0.3  # of norm weights and biases around what they start as


@dataclass(frozen=True, slots=True)
class Twin:
    """How to make a twin.

    Attributes:
        cls: the model class in transformers.
        config: its configuration, with small widths and as many layers as the last one that is kept needs.
        layers: the full name of the list of layers; empty where none was cut.
        kept: the layers that stand for all, by their numbers in the real model.
        full: whether widths are the real ones.
    """

    cls: Any
    config: Any
    layers: str = ""
    kept: tuple[int, ...] = ()
    full: bool = False

    def make(
        self, *, attention: str = "sdpa", seed: int = 1, dtype: torch.dtype = torch.float64, buffers: bool = True
    ) -> nn.Module:
        """A model on the CPU, in evaluation mode, the same for the same arguments; every weight is felt.

        Args:
            attention: transformers' name for how attention is computed.
            seed: for the weights.
            dtype: of parameters.
            buffers: whether buffers are of that type too; else they are as transformers makes them, when it loads a
                model in this type.
        """
        config = copy.deepcopy(self.config)
        config._attn_implementation = attention
        config._experts_implementation = "eager"  # grouped products do not know float64
        before = torch.get_default_dtype()
        with silence(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            try:
                torch.set_default_dtype(dtype)
                model: nn.Module = self.cls(config)
            finally:
                torch.set_default_dtype(before)
            self._cut(model)
            undrop(model)
            _fill(model, torch.Generator().manual_seed(seed))
        if buffers:
            model.to(dtype)
        for parameter in model.parameters():
            parameter.data = parameter.data.to(dtype)
        return model.eval()

    def name(self, real: str) -> str | None:
        """The name in the twin of a module or parameter of the real model; `None` for a layer that it lacks."""
        return self._renamed(real, {str(old): str(new) for new, old in enumerate(self.kept)})

    def real(self, name: str) -> str:
        """The name in the real model of a module or parameter of the twin."""
        found = self._renamed(name, {str(new): str(old) for new, old in enumerate(self.kept)})
        assert found is not None
        return found

    def _renamed(self, name: str, numbers: Mapping[str, str]) -> str | None:
        if not self.layers or not name.startswith(self.layers + "."):
            return name
        number, dot, rest = name.removeprefix(self.layers + ".").partition(".")
        return f"{self.layers}.{numbers[number]}{dot}{rest}" if number in numbers else None

    def _cut(self, model: nn.Module) -> None:
        """Takes the layers away that others stand for."""
        if not self.layers:
            return
        found = model.get_submodule(self.layers)
        assert isinstance(found, nn.ModuleList)
        count = len(found)
        kept = [found[index] for index in self.kept]
        parent, _, own = self.layers.rpartition(".")
        setattr(model.get_submodule(parent), own, nn.ModuleList(kept))
        for number, layer in enumerate(kept):
            for module in layer.modules():
                if isinstance(getattr(module, "layer_idx", None), int):
                    module.layer_idx = number  # type: ignore[assignment]
        configs = {
            id(each): each for module in model.modules() if (each := getattr(module, "config", None)) is not None
        }
        for config in configs.values():
            for key, values in _by_layer(config, count):
                setattr(config, key, [values[index] for index in self.kept])
            if getattr(config, "num_hidden_layers", None) == count:
                config.num_hidden_layers = len(kept)

    def inputs(self, batch: int, length: int, *, masked: bool = False, seed: int = 5) -> dict[str, Tensor]:
        """Token numbers, and with `masked` a padding mask that hides the first tokens of every other sequence."""
        source = torch.Generator().manual_seed(seed + 1000 * batch + length)
        vocabulary = text_config(self.config).vocab_size
        tokens = torch.randint(1, vocabulary, (batch, length), generator=source)
        found = {"input_ids": tokens, "use_cache": False}
        if masked:
            mask = torch.ones(batch, length, dtype=torch.long)
            mask[1::2, : max(length // 3, 1)] = 0
            found["attention_mask"] = mask
        return found  # type: ignore[return-value]


def twin_of(
    cls: Any,
    config: Any,
    tree: Tree,
    styles: Mapping[str, Style],
    ranks: tuple[int, ...],
    *,
    full: bool = False,
    widths: Widths = NARROW,
) -> Twin:
    """The twin of a model under a plan.

    Args:
        cls: the model class.
        config: the model's configuration, which is left as it is.
        tree: the model's modules.
        styles: the style of every module that has one, by its name in the real model.
        ranks: the numbers of ranks that the twin is to be split over.
        full: keep the real widths.
        widths: what each width becomes else.
    """
    made = copy.deepcopy(config)
    text = text_config(made)
    if not full:
        narrow(text, math.lcm(*ranks), widths)
    for each in {id(made): made, id(text): text}.values():
        settle(each)
    for key in made.sub_configs:
        part = getattr(made, key, None)
        if part is not None and part is not text and not full:  # a tower for images or sound, which tokens never enter
            for depth in _DEPTHS & vars(part).keys():
                setattr(part, depth, 1)
            narrow_tower(part, text.hidden_size)
    count = text.num_hidden_layers
    layers, kinds = _layers(tree.root, count)
    if not layers:
        return Twin(cls, made, full=full)
    inside: dict[int, list[tuple[str, Style]]] = {}
    for name, style in styles.items():
        if name.startswith(layers + "."):
            number, _, rest = name.removeprefix(layers + ".").partition(".")
            inside.setdefault(int(number), []).append((rest, style))
    lists = [values for _, values in _by_layer(text, count)]
    first: dict[object, int] = {}
    for index in range(count):
        key = (kinds(index), *(values[index] for values in lists), tuple(sorted(inside.get(index, ()), key=str)))
        first.setdefault(repr(key), index)
    kept = tuple(first.values())
    needed = kept[-1] + 1
    for key, values in list(_by_layer(text, count)):
        setattr(text, key, list(values[:needed]))
    text.num_hidden_layers = needed
    return Twin(cls, made, layers, kept, full)


def _layers(root: Node, count: int) -> tuple[str, Any]:
    """The name of the list of layers, and what kind each layer is; an empty name where there is no one such list."""
    found: list[tuple[str, Node]] = []

    def visit(node: Node, name: str) -> None:
        if node.length == count and node.children:
            found.append((name, node))
            return
        for child in node.children:
            if isinstance(child.name, str):
                visit(child.node, f"{name}.{child.name}" if name else child.name)

    visit(root, "")
    if len(found) != 1:
        return "", None
    name, node = found[0]

    def kind(index: int) -> int:
        return next(
            i for i, child in enumerate(node.children) if not isinstance(child.name, str) and index in child.name
        )

    return name, kind


def _by_layer(config: Any, count: int) -> Iterator[tuple[str, list[Any]]]:
    """The settings that hold one value for each layer."""
    for key, value in vars(config).items():
        if isinstance(value, list) and len(value) == count and not key.startswith("_"):
            yield key, value


def _fill(model: nn.Module, source: torch.Generator) -> None:
    """Random weights that are felt: matrices of unit gain, norms and biases around what they start as."""
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=source, dtype=torch.float64)
            if parameter.ndim > 1:
                parameter.copy_(noise / math.sqrt(parameter.shape[-1]))
            else:
                parameter.add_(SPREAD * noise)
