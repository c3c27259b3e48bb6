"""The command `planlang`: finds the subcommand, imports it alone, and turns whatever happens into an exit code.

0: no errors; 1: findings, or a file that would be formatted; 2: the call, a file or a configuration is not right;
101: planlang failed; 130: interrupted.
"""

from __future__ import annotations

import errno
import gc
import io
import os
import sys
from importlib import import_module

import click

from planlang.cli.streams import discard_output, prepare
from planlang.source import printable
from planlang.version import __version__

COMMANDS = {
    "compile": "write a plan as Python, YAML or JSON",
    "check": "check layouts and gradients without running anything",
    "verify": "run a plan on all ranks of a tiny twin, and compare it with one device",
    "show": "show what a plan does to every module of a model",
    "fmt": "format plans",
    "explain": "explain a finding",
    "models": "list the models that are known without torch",
}
INTERNAL_ERROR = 101
INTERRUPTED = 130
_OUTPUT_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


class _Commands(click.Group):
    """Subcommands, each imported when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"planlang.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from planlang.diagnostics.finding import did_you_mean

            if args and args[0].endswith(".plan"):
                raise click.UsageError(f"a command comes first: planlang show {args[0]}", ctx) from error
            raise click.UsageError(f"{error.message} {did_you_mean(args[0], COMMANDS)}".strip(), ctx) from error


@click.command(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="planlang")
def cli() -> None:
    """Tensor-parallel plans: checked, shown, and compiled to what PyTorch applies."""


def main() -> None:
    """The console script."""
    gc.set_threshold(100_000)  # looking for cycles takes as long as a walk, and the process soon ends
    prepare()
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Runs a command line and returns its exit code."""
    try:
        code = cli.main(arguments, prog_name="planlang", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.ClickException as error:
        said = io.StringIO()
        if context := getattr(error, "ctx", None):
            context.color = True  # else click takes escape sequences out, and what was written is not seen
        error.show(said)
        click.echo("\n".join(map(printable, said.getvalue().rstrip("\n").split("\n"))), err=True)
        return 2
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except (Exception, SystemExit) as error:
        if isinstance(error, OSError) and error.errno in _OUTPUT_ERRORS:
            click.echo(f"planlang: the output cannot be written: {str(error.strerror).lower()}", err=True)
            discard_output()
            return 2
        return _internal(error)


def _internal(error: BaseException) -> int:
    if os.environ.get("PLANLANG_TRACEBACK"):
        import traceback

        traceback.print_exc()
    click.echo(
        f"planlang: error[PLN9001]: planlang itself failed: {type(error).__name__}: {error}\n"
        "  = help: this is our mistake; please report it with the plan and the command "
        "(PLANLANG_TRACEBACK=1 shows where it failed)",
        err=True,
    )
    return INTERNAL_ERROR
