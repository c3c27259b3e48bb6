"""`python -m benchmarks.reward_model COMMAND`: train, eval, processes, steps, page, gate.

Each command adds lines to the results; `page` writes the tables of README.md from them, and so does each command but
`train`. The exit code is 1 where the gate does not hold.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from benchmarks.reward_model import results
from benchmarks.reward_model.evaluate import evaluate
from benchmarks.reward_model.gate import OURS, PUBLISHED, unequal_processes, unequal_scores, wrong_training
from benchmarks.reward_model.graded import graded
from benchmarks.reward_model.machine import machine
from benchmarks.reward_model.model import DTYPES
from benchmarks.reward_model.page import write
from benchmarks.reward_model.processes import compare_processes
from benchmarks.reward_model.recipe import MINIATURE, STANDARD, Recipe
from benchmarks.reward_model.results import Processes, Result, Scored, Stepped
from benchmarks.reward_model.steps import train_under
from benchmarks.reward_model.train import train

HERE = Path(__file__).parent
PLANS = (Path("plans/qwen.plan"), Path("plans/qwen_stable.plan"), Path("plans/qwen_invariant.plan"))
PUBLISHED_PLAN = HERE / "plans" / "published.plan"
SEEDS = (0, 1, 2, 3, 4)


def main(words: Sequence[str] | None = None) -> int:
    """Runs one command.

    Returns:
        The exit code.
    """
    arguments = _parser().parse_args(words)
    torch.set_num_threads(1)
    run: Callable[[argparse.Namespace, Recipe], int] = arguments.run
    return run(arguments, MINIATURE if arguments.miniature else STANDARD)


def _train(arguments: argparse.Namespace, recipe: Recipe) -> int:
    for seed in arguments.seeds:
        trained = train(recipe, seed, arguments.cache)
        _add(arguments, [trained])
        print(f"seed {seed}: loss {trained.loss:.4f}, weights {trained.weights}", flush=True)
    _add(arguments, [machine(_command(arguments))])
    return 0


def _eval(arguments: argparse.Namespace, recipe: Recipe) -> int:
    plans = [graded(path, recipe, arguments.tp, arguments.mesh_of_one) for path in arguments.plans]
    for plan in plans:
        print(f"{plan.name}: {plan.grade}", flush=True)
    scored = [] if arguments.again else results.latest(results.read(arguments.results), Scored)
    done = {each.of for each in scored}
    measured = 0
    for rows in evaluate(recipe, arguments.cache, plans, arguments.dtypes, arguments.tp, arguments.seeds, done):
        _add(arguments, rows)
        measured += 1
        for row in rows:
            print(
                f"seed {row.seed} {row.dtype} {row.plan} tp={row.tp} {row.set}: {row.correct} of {row.pairs} right, "
                f"{row.changed} changed, {row.differing} of {row.scores} scores differ",
                flush=True,
            )
    if measured:
        _add(arguments, [machine(_command(arguments))])
    return _finish(arguments)


def _processes(arguments: argparse.Namespace, recipe: Recipe) -> int:
    for plan in arguments.plans:
        for dtype in arguments.dtypes:
            for tp in arguments.tp:
                row = compare_processes(recipe, arguments.cache, plan, dtype, tp, arguments.seeds[0])
                _add(arguments, [row])
                print(f"{row.plan} {row.dtype} tp={row.tp}: {row.differing} of {row.scores} scores differ", flush=True)
    _add(arguments, [machine(_command(arguments))])
    return _finish(arguments)


def _steps(arguments: argparse.Namespace, recipe: Recipe) -> int:
    plans = [(graded(path, recipe, arguments.tp), OURS) for path in arguments.plans]
    plans.append((graded(PUBLISHED_PLAN, recipe, arguments.tp), PUBLISHED))
    for seed in arguments.seeds:
        for dtype in arguments.dtypes:
            for rows in train_under(recipe, plans, dtype, arguments.tp, seed):
                _add(arguments, rows)
                for row in rows:
                    print(
                        f"{row.dtype} {row.plan} tp={row.tp} {row.group}: {row.spread:.2g} between ranks, "
                        f"{row.distance:.2g} of the way off; other bits than {row.against}: {row.differing} of "
                        f"{row.numbers} weights, {row.losses_differing} of {row.steps} losses",
                        flush=True,
                    )
    _add(arguments, [machine(_command(arguments))])
    return _finish(arguments)


def _page(arguments: argparse.Namespace, recipe: Recipe) -> int:
    write(results.read(arguments.results), arguments.page)
    return 0


def _gate(arguments: argparse.Namespace, recipe: Recipe) -> int:
    found = results.read(arguments.results)
    return _judge([*_about_scores(found), *wrong_training(results.latest(found, Stepped))])


def _finish(arguments: argparse.Namespace) -> int:
    """Writes the page, and holds the gate against what the command is about."""
    found = results.read(arguments.results)
    write(found, arguments.page)
    of_training = arguments.command == "steps"
    return _judge(wrong_training(results.latest(found, Stepped)) if of_training else _about_scores(found))


def _about_scores(found: Sequence[Result]) -> list[str]:
    scored = results.latest(found, Scored)
    return [*unequal_scores(scored), *unequal_processes(results.latest(found, Processes), scored)]


def _judge(said: Sequence[str]) -> int:
    for line in said:
        print(f"GATE: {line}", file=sys.stderr)
    print("the gate does not hold" if said else "the gate holds")
    return 1 if said else 0


def _add(arguments: argparse.Namespace, rows: Sequence[Result]) -> None:
    results.append(arguments.results, rows)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reward_model", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)

    def command(name: str, run: Callable[[argparse.Namespace, Recipe], int], about: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=about)
        made.set_defaults(run=run)
        made.add_argument("--results", type=Path, default=HERE / "results.jsonl")
        made.add_argument("--page", type=Path, default=HERE / "README.md")
        made.add_argument("--miniature", action="store_true", help="sizes for a test, not for a result")
        return made

    def sizes(made: argparse.ArgumentParser, tp: Sequence[int], seeds: Sequence[int], plans: Sequence[Path]) -> None:
        made.add_argument("--plans", type=Path, nargs="+", default=plans)
        made.add_argument("--tp", type=int, nargs="+", default=tp)
        made.add_argument("--seeds", type=int, nargs="+", default=seeds)

    def weights(made: argparse.ArgumentParser) -> None:
        made.add_argument("--cache", type=Path, required=True, help="the folder of the trained weights")

    def types(made: argparse.ArgumentParser) -> None:
        made.add_argument("--dtypes", nargs="+", default=tuple(DTYPES), choices=tuple(DTYPES))

    made = command("train", _train, "train the reward models and keep their weights")
    weights(made)
    made.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    made = command("eval", _eval, "score the frozen sets under plans; what is measured already is left out")
    weights(made)
    sizes(made, (1, 2, 4, 8), SEEDS, PLANS)
    types(made)
    made.add_argument("--mesh-of-one", action="store_true", help="hold these plans against themselves on one rank")
    made.add_argument("--again", action="store_true", help="measure also what is measured already")
    made = command("processes", _processes, "score one set on real processes, against simulated ranks")
    weights(made)
    sizes(made, (2, 4), SEEDS[:1], PLANS)
    types(made)
    made = command("steps", _steps, "train under plans and on one process")
    sizes(made, (2, 4, 8), SEEDS[:1], PLANS)
    types(made)
    command("page", _page, "write the tables from the results")
    command("gate", _gate, "hold the gate against all results")
    return parser


def _command(arguments: argparse.Namespace) -> str:
    """The command of a run, with no folder but the plans'."""
    words = ["python", "-m", "benchmarks.reward_model", arguments.command]
    for name in ("plans", "dtypes", "tp", "seeds"):
        if hasattr(arguments, name):
            words += [f"--{name}", *map(str, getattr(arguments, name))]
    return shlex.join(words)


if __name__ == "__main__":
    sys.exit(main())
