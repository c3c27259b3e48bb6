"""What a check is given: a plan's rules on the modules of one tree, and how large the mesh is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from planlang.analysis.assign import Assignment
from planlang.analysis.regions import Box, Site, concrete
from planlang.model.tree import Tree
from planlang.plan import ir
from planlang.source import Place


@dataclass(frozen=True, slots=True)
class Use:
    """One rule at one site."""

    rule: ir.Rule
    site: Site
    box: Box

    @property
    def name(self) -> str:
        """One module of it, in back-ticks: by its full name where layers are counted."""
        if all(numbers.finite for numbers in self.box):
            return f"`{next(concrete(self.site, self.box))}`"
        return f"`{self.site.shown}`"

    @property
    def place(self) -> Place | None:
        """Where the rule stands."""
        return self.rule.place


@dataclass(frozen=True, slots=True)
class Case:
    """A plan on a tree.

    Attributes:
        assignment: the rule of every module.
        sizes: how many ranks each mesh axis has, as far as that is known.
        whole: whether every statement of the plan could be read; where not, nothing is said of what is missing.
    """

    assignment: Assignment
    sizes: Mapping[str, int]
    whole: bool = True

    @property
    def tree(self) -> Tree:
        """The model or class."""
        return self.assignment.sites.tree

    def uses(self) -> Iterator[Use]:
        """Every rule at every site that it rules in the end, in the order of the tree."""
        for site in self.assignment.sites.all:
            for piece in self.assignment.rule_of(site):
                yield Use(piece.rule, site, piece.box)

    def rule_at(self, name: str) -> ir.Rule | None:
        """The rule of the module with a full dotted name."""
        for site in self.assignment.sites.all:
            for piece in self.assignment.rule_of(site):
                if _stands_for(site, piece.box, name):
                    return piece.rule
        return None


def _stands_for(site: Site, box: Box, name: str) -> bool:
    segments = name.split(".") if name else []
    if len(segments) != len(site.path):
        return False
    numbers = iter(box)
    for segment, own in zip(segments, site.path, strict=True):
        if isinstance(own, str):
            if segment != own:
                return False
        elif not segment.isdecimal() or int(segment) not in next(numbers):
            return False
    return True
