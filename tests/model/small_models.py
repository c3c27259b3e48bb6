"""Small configurations of the families whose passes are captured in tests."""

from typing import Any

from planlang.model.pretrained import config_for

SMALL = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
}
EXPERTS = {
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 16,
    "shared_expert_intermediate_size": 16,
}
FAMILIES: dict[str, dict[str, Any]] = {
    "Qwen2ForCausalLM": {},
    "Qwen3ForCausalLM": {},
    "Qwen3ForSequenceClassification": {},
    "Qwen3MoeForCausalLM": EXPERTS,
    "Qwen3NextForCausalLM": EXPERTS,
    "Qwen3_5ForCausalLM": {},
    "Gemma3ForCausalLM": {"pad_token_id": 0},
    "Phi3ForCausalLM": {"pad_token_id": 0},
    "LlamaForCausalLM": {"pad_token_id": 0},
}


def small_config(cls: str, **settings: Any) -> Any:
    """The configuration of a small model of a class."""
    return config_for(cls, SMALL | FAMILIES.get(cls, {}) | settings)
