"""Models from transformers configurations, on the meta device: no weights, no memory, no network, no foreign code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from planlang.model.calls import silence

if TYPE_CHECKING:
    from torch import nn


CaptureFault: TypeAlias = Literal["config", "model-type", "class"]


class CaptureError(ValueError):
    """A model that cannot be built or read; the message says why, in one sentence.

    Attributes:
        fault: what is to blame: the configuration's values, its model type, or the model class.
    """

    def __init__(self, message: str, fault: CaptureFault = "config") -> None:
        super().__init__(message)
        self.fault = fault


def model_class(name: str) -> Any:
    """The transformers model class of a name.

    Raises:
        CaptureError: transformers has no model class of that name.
    """
    import transformers

    found = getattr(transformers, name, None)
    if not (isinstance(found, type) and issubclass(found, transformers.PreTrainedModel) and found.config_class):
        raise CaptureError(f"transformers {transformers.__version__} has no model class `{name}`", "class")
    return found


def default_class(config: Any) -> Any:
    """The first class that a configuration names, else the one that transformers has for causal language models.

    Raises:
        CaptureError: transformers has no such class.
    """
    import transformers

    for name in config.architectures or ():
        return model_class(str(name))
    mapping: Any = transformers.MODEL_FOR_CAUSAL_LM_MAPPING
    if type(config) not in mapping:
        raise CaptureError(
            f"the configuration names no class, and `{config.model_type}` models have no default one", "class"
        )
    return mapping[type(config)]


def config_for(cls: str, settings: Mapping[str, Any]) -> Any:
    """The configuration of a model class with the given settings of its language model, defaults elsewhere.

    Where the class holds a language model among others, the settings go to its `text_config`.

    Raises:
        CaptureError: transformers has no such class, or its configuration refuses the settings.
    """
    config_class = model_class(cls).config_class
    whole = dict(settings)
    if settings and "text_config" in config_class.sub_configs:
        whole = {"text_config": dict(settings)}
        # transformers asks the whole whether embeddings are tied, not its language model.
        if "tie_word_embeddings" in settings:
            whole["tie_word_embeddings"] = settings["tie_word_embeddings"]
    with _as_capture_error(f"the configuration of `{cls}` refuses these settings"):
        return config_class(**whole)


def config_from(settings: Mapping[str, Any]) -> Any:
    """The configuration that the content of a `config.json` describes; code beside it is never run.

    Args:
        settings: with a `model_type`, or with `architectures`, of which the first tells the type.

    Raises:
        CaptureError: the type or the class is unknown to transformers, or the values are refused.
    """
    import transformers

    kind = settings.get("model_type") or model_class(settings["architectures"][0]).config_class.model_type
    if kind not in transformers.CONFIG_MAPPING:
        raise CaptureError(f"transformers {transformers.__version__} has no model type `{kind}`", "model-type")
    # Which kernels to run is of no matter to a structure, and asking for those that are not installed fails.
    kept = {
        key: value
        for key, value in settings.items()
        if not key.endswith(("attn_implementation", "_experts_implementation"))
    }
    with _as_capture_error(f"the configuration of a `{kind}` model refuses these settings"):
        return transformers.CONFIG_MAPPING[kind].from_dict(kept)


def build(cls: Any, config: Any) -> nn.Module:
    """The model of a class and a configuration, on the meta device.

    Raises:
        CaptureError: the class is for models of another type, or its code refuses the configuration.
    """
    import torch

    wanted = cls.config_class
    if not isinstance(config, wanted):
        # The language model alone, from the configuration of a model that holds it among others.
        config = text_config(config)
    if not isinstance(config, wanted):
        raise CaptureError(f"`{cls.__name__}` is no class for `{config.model_type}` models", "class")
    with _as_capture_error(f"`{cls.__name__}` cannot be built from this configuration"), torch.device("meta"):
        model: nn.Module = cls(config)
    return model


def text_config(config: Any) -> Any:
    """The part of a configuration that describes the language model: the whole where there is none, or two of them."""
    try:
        return config.get_text_config()
    except ValueError:
        return config


def close_classes(name: str) -> list[str]:
    """Up to three model classes of transformers that look like `name`, the nearest first."""
    import transformers

    return get_close_matches(name, [known for known in dir(transformers) if known[:1].isupper() and "For" in known])


@contextmanager
def _as_capture_error(problem: str) -> Iterator[None]:
    """Make one error of whatever transformers raises, since its checks and model code raise anything."""
    try:
        with silence():
            yield
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise CaptureError(f"{problem}: {reason[:300]}") from error
