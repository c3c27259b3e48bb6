"""What `--tp` takes where several numbers of ranks make sense."""

from __future__ import annotations

import click

from planlang.cli.options import RANKS


class SeveralRanks(click.ParamType[tuple[int, ...]]):
    """`2,4,8`: each number once, in order."""

    name = "N,..."

    def convert(
        self, value: str | tuple[int, ...], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        return tuple(dict.fromkeys(int(RANKS(part.strip(), param, ctx)) for part in value.split(",")))
