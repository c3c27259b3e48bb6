"""`planlang models`."""

from __future__ import annotations

import json

import click

from planlang.cli.tables import print_table
from planlang.model import catalog


@click.command("models")
@click.argument("search", required=False)
@click.option("--json", "as_json", is_flag=True, help="As JSON, with aliases and classes.")
def command(*, search: str | None, as_json: bool) -> int:
    """List the models of the catalog, or those whose names contain SEARCH.

    The last column has the sizes of the axis tp that divide both the attention heads and the key and value heads.
    """
    wanted = (search or "").lower()
    entries = [
        entry for entry in catalog.names() if any(wanted in name.lower() for name in (entry.name, *entry.aliases))
    ]
    if as_json:
        rows = [
            {
                "name": entry.name,
                "aliases": list(entry.aliases),
                "model_type": entry.model_type,
                "classes": list(entry.classes),
                "heads": entry.heads,
                "kv_heads": entry.kv_heads,
                "parameters": entry.params,
                "tied": entry.tied,
                "tp": list(entry.tp_sizes),
            }
            for entry in entries
        ]
        click.echo(json.dumps(rows, indent=2))
        return 0
    if not entries:
        raise click.UsageError(
            f"no model of the catalog has {search!r} in its name; for others give --model the path that "
            "`hf download NAME config.json` prints"
        )
    print_table(
        ("model", "type", "heads", "kv heads", "parameters", "tied", "tp"),
        [
            (
                "\n".join((entry.name, *entry.aliases)),
                entry.family,
                str(entry.heads),
                str(entry.kv_heads),
                f"{entry.params:,}",
                "yes" if entry.tied else "no",
                " ".join(map(str, entry.tp_sizes)),
            )
            for entry in entries
        ],
        right=("heads", "kv heads", "parameters"),
    )
    return 0
