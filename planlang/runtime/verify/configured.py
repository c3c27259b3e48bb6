"""The class and the configuration of whatever names or is a model, and whether they make the modules of a plan."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from planlang.diagnostics import codes
from planlang.diagnostics.finding import Finding, PlanError
from planlang.model import catalog
from planlang.model.calls import silence
from planlang.model.pretrained import CaptureError, config_for, config_from, default_class, model_class
from planlang.model.resolve import settings_of
from planlang.model.tree import Tree
from planlang.runtime.verify.twin import Twin


def configured(model: Any, tree: Tree) -> tuple[Any, Any]:
    """The model class of transformers and the configuration.

    Args:
        model: a name of the catalog, a `config.json` or its folder, a configuration, a model.
        tree: its modules.

    Raises:
        PlanError: it is no model of transformers.
    """
    try:
        if isinstance(model, str | os.PathLike):
            name = os.fspath(model)
            if catalog.find(name) is not None:
                return model_class(tree.cls), config_for(tree.cls, dict(tree.config))
            return model_class(tree.cls), config_from(settings_of(name))
        if isinstance(model, Tree):
            return model_class(model.cls), config_for(model.cls, dict(model.config))
        config = getattr(model, "config", model)
        if not hasattr(config, "to_dict"):
            raise CaptureError(f"a `{type(model).__name__}` is no model of transformers, so it has no twin")
        return (type(model) if config is not model else default_class(config)), config
    except CaptureError as error:
        raise PlanError([Finding(code=codes.UNKNOWN_ARCHITECTURE, message=str(error))]) from error


def missing_modules(model: Any, twin: Twin, styles: Iterable[str]) -> Finding | None:
    """What is said where a rule is for a module that the model has, and a new one of its class and configuration not.

    Args:
        model: whatever names or is the model; only one that is there already can have been changed.
        twin: how to make a new one.
        styles: the modules that have rules, by their names in the model.
    """
    if not isinstance(model, nn.Module):
        return None
    try:
        with silence(), torch.device("meta"):
            there = dict(twin.cls(copy.deepcopy(twin.config)).named_modules(remove_duplicate=False))
    except Exception:  # whatever the model's code raises: that is said where it is run
        return None
    for name in styles:
        if twin.name(name) is not None and name not in there:
            cls = twin.cls.__name__
            message = f"the model has `{name}`, and a new `{cls}` of its configuration has not, so it has no twin"
            note = "modules that were added or exchanged after a model was made are not in its configuration"
            help = "put them in where the class makes the others, or look at the plan with `planlang check`"
            return Finding(code=codes.UNKNOWN_ARCHITECTURE, message=message, notes=(note,), help=help)
    return None
