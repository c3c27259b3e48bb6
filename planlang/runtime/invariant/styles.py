"""The styles, for `torch.distributed.tensor.parallel.parallelize_module`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Placement, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ParallelStyle

from planlang.runtime.invariant.settings import Settings, check_blocks, check_width, keep
from planlang.runtime.invariant.styled import (
    Attended,
    Columns,
    Features,
    Repeated,
    Rows,
    Styled,
    Vocabulary,
    check_plain,
    restyle,
)


class _Invariant(ParallelStyle):
    def __init__(self, blocks: int, accumulate: torch.dtype | None) -> None:
        super().__init__()
        self.blocks, self.accumulate = blocks, accumulate

    def _settle(
        self, module: nn.Module, mesh: DeviceMesh, arrives: Placement, leaves: Placement, local: bool
    ) -> Settings:
        check_plain(module)
        check_blocks(self.blocks, mesh)
        settings = Settings(mesh, self.blocks, arrives, leaves, local, self.accumulate)
        keep(module, settings)
        return settings

    def _place(
        self, module: nn.Module, mesh: DeviceMesh, placements: Mapping[str, Placement], style: type[Styled]
    ) -> None:
        for name, parameter in list(module._parameters.items()):
            if parameter is None or isinstance(parameter, DTensor):
                continue
            placed = distribute_tensor(parameter, mesh, [placements[name]], src_data_rank=self.src_data_rank)
            module.register_parameter(name, nn.Parameter(placed, requires_grad=parameter.requires_grad))
        restyle(module, style)


class InvariantColwiseParallel(_Invariant):
    """`ColwiseParallel` with the same bits on any number of ranks that divides `blocks`.

    Layers that are given one and the same tensor share the sum of its gradient across ranks.

    Keyword Args:
        blocks: in how many blocks the output features are computed; a power of two that divides them.
        input_layouts: `Replicate()` by default, or a `Shard` that is gathered.
        output_layouts: `Shard(-1)` by default.
        use_local_output: whether the output is a plain tensor.
        accumulate: what sums over blocks are added in; by default the tensors' own type.
    """

    def __init__(
        self,
        *,
        blocks: int = 8,
        input_layouts: Placement | None = None,
        output_layouts: Placement | None = None,
        use_local_output: bool = True,
        accumulate: torch.dtype | None = None,
    ) -> None:
        super().__init__(blocks, accumulate)
        self.input_layouts = input_layouts or Replicate()
        self.output_layouts = output_layouts or Shard(-1)
        self.use_local_output = use_local_output

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        self._settle(module, device_mesh, self.input_layouts, self.output_layouts, self.use_local_output)
        if isinstance(module, nn.Linear):
            check_width("output features", module.out_features, self.blocks, least=2)
            self._place(module, device_mesh, {"weight": Shard(0), "bias": Shard(0)}, Columns)
        elif isinstance(module, nn.Embedding):
            _check_embedding(module)
            check_width("features", module.embedding_dim, self.blocks)
            self._place(module, device_mesh, {"weight": Shard(1)}, Features)
        else:
            raise NotImplementedError(f"{type(self).__name__} is for nn.Linear and nn.Embedding")
        return module

    def __repr__(self) -> str:
        return f"{type(self).__name__}(blocks={self.blocks})"


class InvariantRowwiseParallel(_Invariant):
    """`RowwiseParallel` with the same bits on any number of ranks that divides `blocks`.

    Keyword Args:
        blocks: in how many blocks the input features are summed; a power of two that divides them.
        input_layouts: `Shard(-1)` by default; for an embedding `Replicate()`.
        output_layouts: `Replicate()` by default.
        use_local_output: whether the output is a plain tensor.
        accumulate: what sums over blocks are added in; by default the tensors' own type.
    """

    def __init__(
        self,
        *,
        blocks: int = 8,
        input_layouts: Placement | None = None,
        output_layouts: Placement | None = None,
        use_local_output: bool = True,
        accumulate: torch.dtype | None = None,
    ) -> None:
        super().__init__(blocks, accumulate)
        self.input_layouts = input_layouts or Shard(-1)
        self.output_layouts = output_layouts or Replicate()
        self.use_local_output = use_local_output

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        self._settle(module, device_mesh, self.input_layouts, self.output_layouts, self.use_local_output)
        if isinstance(module, nn.Linear):
            check_width("input features", module.in_features, self.blocks, least=2)
            self._place(module, device_mesh, {"weight": Shard(1), "bias": Replicate()}, Rows)
        elif isinstance(module, nn.Embedding):
            _check_embedding(module)
            check_width("rows", module.num_embeddings, self.blocks)
            self._place(module, device_mesh, {"weight": Shard(0)}, Vocabulary)
        else:
            raise NotImplementedError(f"{type(self).__name__} is for nn.Linear and nn.Embedding")
        return module

    def __repr__(self) -> str:
        return f"{type(self).__name__}(blocks={self.blocks})"


class InvariantSequenceParallel(_Invariant):
    """`SequenceParallel` with the same bits on any number of ranks that divides `blocks`.

    The module's own code runs block by block along the dimension that is split, so that the gradients of its
    parameters, which are whole on every rank, are sums over blocks.

    Keyword Args:
        blocks: in how many blocks the input is cut; a power of two that divides the dimension.
        sequence_dim: the dimension along which the input is split.
        use_local_output: whether the output is a plain tensor.
        accumulate: what sums over blocks are added in; by default the tensors' own type.
    """

    def __init__(
        self,
        *,
        blocks: int = 8,
        sequence_dim: int = 1,
        use_local_output: bool = False,
        accumulate: torch.dtype | None = None,
    ) -> None:
        super().__init__(blocks, accumulate)
        self.sequence_dim, self.use_local_output = sequence_dim, use_local_output

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        if any(True for child in module.children() for _ in child.parameters()):
            raise NotImplementedError(f"{type(self).__name__} is for a module without parameters below its own")
        split = Shard(self.sequence_dim)
        self._settle(module, device_mesh, split, split, self.use_local_output)
        self._place(module, device_mesh, dict.fromkeys(module._parameters, Replicate()), Repeated)
        return module

    def __repr__(self) -> str:
        return f"{type(self).__name__}(blocks={self.blocks}, sequence_dim={self.sequence_dim})"


class InvariantAttention(_Invariant):
    """Computes attention in blocks of heads, so that its kernels do the same on any number of ranks.

    For a module that calls `scaled_dot_product_attention` or `matmul` on plain tensors of a rank's heads, such as the
    attention of transformers' models under the implementations `sdpa` and `eager`. Layouts and parameters stay.

    Keyword Args:
        blocks: in how many blocks of heads; a power of two that divides the heads, those of keys and values too.
    """

    def __init__(self, *, blocks: int = 8) -> None:
        super().__init__(blocks, None)

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        self._settle(module, device_mesh, Replicate(), Replicate(), local=True)
        restyle(module, Attended)
        return module

    def __repr__(self) -> str:
        return f"{type(self).__name__}(blocks={self.blocks})"


def _check_embedding(module: nn.Embedding) -> None:
    """Refuses what an embedding can do besides looking up."""
    settings: dict[str, Any] = {
        "max_norm": module.max_norm is not None,
        "scale_grad_by_freq": module.scale_grad_by_freq,
        "sparse": module.sparse,
    }
    for name, used in settings.items():
        if used:
            raise NotImplementedError(f"an embedding with `{name}` has no invariant style")
