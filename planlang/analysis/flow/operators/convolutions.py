"""Convolutions: in groups, so that cut channels can be right, and along dimensions that a cut goes through."""

from __future__ import annotations

from planlang.analysis.flow.conflict import Fault
from planlang.analysis.flow.operators.base import REPLICATE, Operand, Refusal, Run, undistributed, whole_integers
from planlang.layout import Layout, Partial, Shard, shard_size

_BATCH, _CHANNELS = 0, 1


def _convolution(run: Run) -> tuple[Layout, ...]:
    """`conv1d(x, weight, bias, stride, padding, dilation, groups)`, and in two and three dimensions.

    x [B, C, ...], weight [O, C / groups, ...], bias [O]. Cut channels are right where each rank has whole groups, with
    the weights of just those: in a depthwise convolution wherever both are cut, in an ungrouped one never.
    """
    undistributed(run)
    x, weight, *rest = (run.at(run.argument(index, name)) for index, name in enumerate(("input", "weight", "bias")))
    bias = rest[0]
    if x is None or weight is None or run.operands[x].dims != len(run.operands[weight].shape):
        raise Refusal(Fault.UNKNOWN, f"`{run.name}` without a batch is not known here")
    for index, name in ((3, "stride"), (4, "padding"), (5, "dilation")):
        _hold(run, index, name)
    order = (x, weight, *(() if bias is None else (bias,)))
    layout = _layout(run, run.operands[x], run.operands[weight], order)
    if (run.operands[x].sharded, run.operands[weight].sharded) != (_CHANNELS, 0):
        _hold(run, 6, "groups")
    if bias is not None:
        _add_bias(layout, run.operands[bias], (bias, x, weight))
    return (layout,)


def _layout(run: Run, x: Operand, weight: Operand, order: tuple[int, ...]) -> Layout:
    """The layout before the bias is added."""
    if x.partial or weight.partial:
        return _partial(x, weight, order)
    _whole_places(run, x, weight, order)
    groups = x.shape[_CHANNELS] // weight.shape[_CHANNELS]
    if x.sharded == _BATCH:
        if weight.layout != REPLICATE:
            raise Refusal(Fault.MISMATCH, "batch and weight of a convolution are both sharded", blame=order)
        return Shard(_BATCH)
    if (x.sharded, weight.sharded) == (_CHANNELS, 0) and _whole_groups(run, x, weight):
        return Shard(_CHANNELS)
    if groups == 1 and (x.sharded, weight.sharded) == (None, 0):
        return Shard(_CHANNELS)
    if groups == 1 and (x.sharded, weight.sharded) == (_CHANNELS, _CHANNELS):
        return Partial()
    if (x.sharded, weight.sharded) == (None, None):
        return REPLICATE
    names = ("input", "weight")
    words = [
        f"its {name} {'whole' if each.sharded is None else f'sharded along dimension {each.sharded}'}"
        for name, each in zip(names, (x, weight), strict=True)
    ]
    local = run.integer(run.argument(6, "groups", 1))
    text = f"a convolution in {groups} {'groups' if groups > 1 else 'group'} gets {' and '.join(words)}"
    blame = order if x.sharded is not None else (order[1], order[0], *order[2:])
    crashes = _crashes(run, x, weight, local) if len(order) == 2 else None
    raise Refusal(Fault.MISMATCH, text, crashes=crashes, blame=blame)


def _partial(x: Operand, weight: Operand, order: tuple[int, ...]) -> Layout:
    """A convolution is linear in its input, and in its weight."""
    whole = weight if x.partial else x
    if whole.layout != REPLICATE:
        raise Refusal(Fault.PARTIAL, "a partial sum meets a tensor that is not whole", blame=order)
    partial = x.layout if x.partial else weight.layout
    if isinstance(partial, Partial) and partial.op not in ("sum", "avg"):
        raise Refusal(Fault.PARTIAL, f"a convolution is no {partial.op}", crashes=False, blame=order)
    return partial


def _whole_places(run: Run, x: Operand, weight: Operand, order: tuple[int, ...]) -> None:
    """Refuses what is cut along a dimension that the kernel moves over."""
    for operand, index in ((x, order[0]), (weight, order[1])):
        if operand.sharded is not None and operand.sharded > _CHANNELS:
            if all(size == 1 for size in weight.shape[2:]):
                raise Refusal(Fault.UNKNOWN, "a convolution with a kernel of 1 is not known here", blame=(index,))
            text = f"`{run.name}` is taken along dimension {operand.sharded}, of which each rank has only a part"
            raise Refusal(Fault.REDUCED, text, crashes=None, blame=(index,))


def _whole_groups(run: Run, x: Operand, weight: Operand) -> bool:
    """Whether each rank has the channels and the weights of as many groups as the code asks for there."""
    channels = weight.shape[_CHANNELS]
    filters = weight.shape[0] * channels // x.shape[_CHANNELS]
    for rank in range(run.ranks):
        groups = run.integer(run.argument(6, "groups", 1), rank)
        parts = shard_size(x.shape[_CHANNELS], run.ranks, rank), shard_size(weight.shape[0], run.ranks, rank)
        if not groups or parts != (groups * channels, groups * filters):
            return False
    return True


def _crashes(run: Run, x: Operand, weight: Operand, groups: int | None) -> bool | None:
    """Whether torch finds that the parts do not fit together; where each rank has as much."""
    parts = [list(each.shape) for each in (x, weight)]
    for part, each in zip(parts, (x, weight), strict=True):
        if each.sharded is not None:
            if part[each.sharded] % run.ranks:
                return None
            part[each.sharded] //= run.ranks
    if not groups:
        return None
    return parts[0][_CHANNELS] != groups * parts[1][_CHANNELS] or parts[1][0] % groups != 0


def _hold(run: Run, index: int, name: str) -> None:
    """Refuses where an argument was read off a part."""
    given = run.argument(index, name)
    if given is None or isinstance(given, str):
        return
    for rank in run.edges:
        if run.integers(given, rank) != whole_integers(given):
            text = f"the {name} of `{run.name}` is read off a tensor of which the rank has a part"
            raise Refusal(Fault.LENGTH, text, crashes=None)


def _add_bias(layout: Layout, bias: Operand, blame: tuple[int, ...]) -> None:
    if isinstance(layout, Partial):
        if bias.layout == layout:
            return
        text = "a bias is added to a partial sum on every rank, so it counts once a rank"
        raise Refusal(Fault.PARTIAL, text, crashes=None, blame=blame)
    if bias.layout != (Shard(0) if layout == Shard(_CHANNELS) else REPLICATE):
        raise Refusal(Fault.MISMATCH, "the bias of a convolution does not lie as its channels do", blame=blame)


RULES = dict.fromkeys(("conv1d", "conv2d", "conv3d"), _convolution)
