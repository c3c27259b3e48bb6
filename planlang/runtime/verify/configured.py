"""The class and the configuration of whatever names or is a model."""

from __future__ import annotations

import os
from typing import Any

from planlang.diagnostics import codes
from planlang.diagnostics.finding import Finding, PlanError
from planlang.model import catalog
from planlang.model.pretrained import CaptureError, config_for, config_from, default_class, model_class
from planlang.model.resolve import settings_of
from planlang.model.tree import Tree


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
