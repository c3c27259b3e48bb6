"""Plans that together use every style and argument, and everything that is hard to write as Python, YAML or JSON."""

from __future__ import annotations

from dataclasses import dataclass

BUNDLED = ("qwen", "qwen_stable", "qwen_sequence", "qwen_invariant")


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A plan as it is compiled.

    Attributes:
        text: the plan.
        model: a name of the catalog; empty where it is compiled for the classes that it names.
        tp: how many ranks the axis `tp` has, where that is said.
        options: what the caller sets.
    """

    text: str
    model: str = ""
    tp: int | None = None
    options: tuple[tuple[str, bool | int | str], ...] = ()


def plan(rules: str, *, above: str = "", name: str = "x") -> str:
    """A plan for Qwen3; `above` is what stands before its first line."""
    return f"{above}plan {name} for Qwen3ForCausalLM\n\n{rules}\n"


# Python's own words, and names that an emitted module uses itself.
NAMES = ("class", "None", "match", "PLAN", "Shard", "ColwiseParallel", "ParallelStyle", "torch", "café", "_")
TEXTS = {
    "colwise": Text(
        text=plan(
            "model.embed_tokens: colwise(in=replicate, out=shard(-1))\n"
            "*.q_proj: colwise(in=shard(1))\n"
            "*.k_proj: colwise(out=partial)\n"
            "*.v_proj: colwise(local=false)\n"
            "*.o_proj: colwise(in=shard(-1), out=replicate, local=false, axis=tp)\n"
            "lm_head: colwise"
        )
    ),
    "rowwise": Text(
        text=plan(
            "model.embed_tokens: rowwise(in=replicate)\n"
            "*.q_proj: rowwise(out=partial(sum))\n"
            "*.k_proj: rowwise(out=partial(avg))\n"
            "*.v_proj: rowwise(out=partial(max), local=false)\n"
            "*.o_proj: rowwise(in=replicate, out=partial(min))\n"
            "lm_head: rowwise(in=shard(2), out=shard(0))"
        )
    ),
    "sequence": Text(
        text=plan(
            "model.norm: sequence\n*.q_norm: sequence(dim=2)\n*.k_norm: sequence(dim=2, local=true)\n"
            "*.input_layernorm: sequence(local=true)\n*.post_attention_layernorm: sequence(dim=0, local=false)"
        )
    ),
    "invariant": Text(
        text=plan(
            "option blocks = 8\n"
            "model.embed_tokens: rowwise(in=replicate, invariant=blocks)\n"
            "*.{q,k,v}_proj: colwise(invariant=blocks)\n"
            "*.self_attn: attention(invariant=blocks)\n"
            "*.{q,k}_norm: sequence(dim=2, local=true, invariant=4, reduce=tree(acc=float32))\n"
            "*.o_proj: rowwise(out=shard(1), invariant=2, reduce=tree(acc=float64))\n"
            "lm_head: colwise(out=replicate, local=false, invariant=8, reduce=tree(acc=float32))"
        ),
        options=(("blocks", 4),),
    ),
    "prepare_input": Text(
        text=plan(
            "*.self_attn: prepare(in={hidden_states: shard(1) -> replicate}, local=true)\n"
            "*.mlp: prepare(in=shard(1) -> replicate, local_in=false)\n"
            "model.norm: prepare(in=(shard(1) -> replicate,))\n"
            "model.rotary_emb: prepare(in=(none, replicate -> shard(1)))"
        )
    ),
    "prepare_keywords": Text(
        text=plan(
            "*.self_attn: prepare(in={hidden_states: shard(1) -> replicate, attention_mask: replicate -> replicate, "
            "position_ids: replicate -> shard(-1)})\n"
            "model.layers.*: prepare(in={attention_mask: replicate -> replicate})"
        )
    ),
    "prepare_output": Text(
        text=plan(
            "*.self_attn: prepare(out=(partial -> shard(1), none))\n"
            "*.mlp: prepare(out=partial(avg) -> replicate, local=false)\n"
            "model.rotary_emb: prepare(out=(replicate -> shard(1), replicate -> shard(1)), local_out=false)"
        )
    ),
    "prepare_both": Text(
        text=plan(
            "*.self_attn: prepare(in={hidden_states: shard(1) -> replicate}, out=(replicate -> shard(1), none), "
            "local_in=true, local_out=false)\n"
            "*.mlp: prepare(in=shard(1) -> replicate, out=partial -> shard(1))\n"
            "model.rotary_emb: prepare(in=(replicate -> shard(1), none), out=(none, replicate -> replicate), "
            "local_out=false)"
        )
    ),
    "replicate": Text(
        text=plan("model.norm: replicate\n*.q_norm: replicate(grad=none)\n*.k_norm: replicate(grad=sum)\nlm_head: skip")
    ),
    "custom": Text(
        text=plan(
            '*.q_proj: custom "custom_styles:Scaled"\n'
            '*.k_proj: custom "custom_styles:Scaled"(number=-3, text="a", flag=true, nothing=none)\n'
            '*.v_proj: custom "custom_styles:Outer.Inner"(layout=shard(-1), whole=replicate, part=partial(max))\n'
            f'*.o_proj: custom "custom_styles:Scaled"(first="{"long " * 30}", second="{"word " * 12}", axis=tp)\n'
            '*.down_proj: custom "planlang.runtime.replicate:ReplicateParallel"(grad="none")'
        )
    ),
    "custom_texts": Text(
        text=plan(
            "*.q_proj: custom \"custom_styles:Scaled\"(a=\"\\ \\n ' ''' # {}\", "
            'b="\tTab \x0c \x7f \x01 é \u2028 ☃", c="")'
        )
    ),
    "layers_of_a_model": Text(
        text=plan(
            "*.layers.{0..3}.mlp.up_proj: colwise\n*.layers.{-4..-1}.mlp.up_proj: colwise(local=false)\n"
            "*.layers.{8..20..4}.mlp.gate_proj: colwise\n*.layers.5.self_attn.*_proj: rowwise\n*.mlp.down_proj: rowwise"
        ),
        model="Qwen/Qwen3-0.6B",
        tp=8,
    ),
    "layers_of_any_model": Text(
        text=plan(
            "# The first layers are others.\n*.layers.{0..3}.mlp.up_proj: rowwise  # four\n"
            "*.mlp.up_proj except *.layers.{0..3}.**: colwise\n"
            "*.mlp.gate_proj: colwise\noverride *.layers.{1,17,250}.mlp.gate_proj: skip"
        )
    ),
    "options": Text(
        text=plan(
            'option deep = false\noption layers = 3\noption note = "as it is"\n'
            'require tp in {2, 4} "the heads"\nlet head = colwise(out=replicate)\n'
            "when deep and tp == 4 {\n    lm_head: head(local=false)\n} else {\n    lm_head: head\n}\n"
            'when note != "" and layers > 2 {\n    *.o_proj: rowwise\n}\n'
            "expect *.self_attn: in={hidden_states: replicate}, out=(replicate, none)",
            above="# What it is for.\n",
        ),
        tp=4,
        options=(("deep", True), ("note", 'quoted " and \\ and """')),
    ),
    "mesh": Text(text=plan("mesh (dp=2, tp=4)\nlm_head: colwise(axis=tp)")),
    "another_axis": Text(text=plan("mesh (ep, model)\nlm_head: colwise(axis=model)\nmodel.norm: sequence(axis=model)")),
    "extends": Text(
        text=plan(
            'extends "qwen"\ndrop *.self_attn\n# Another head.\nlm_head: colwise(out=replicate)  # whole\n'
            "*.mlp: prepare(in=replicate -> replicate, local=true)"
        )
    ),
    "comments": Text(
        text=plan(
            '# above """ and \'\'\' and \\ and \\n and " at the end"\n#\n#no space\n#\ttab\n#!bang\n## two\n#: colon \n'
            '*.q_proj: colwise  # behind """ \\\n# é ☃ 計画 \U0001f600 \u202e \u2028 \x0c end\\\n*.k_proj: colwise#é\n'
            "# fmt: off\n*.v_proj: colwise\n# fmt: on\n# isort: skip_file\n*.o_proj: rowwise  # fmt: skip # noqa\n"
            "# for nobody"
        )
    ),
    "description": Text(
        text=plan(
            "lm_head: colwise",
            above=(
                '# """quoted""" \'\'\'twice\'\'\' """" \\"""\n# \\ \\n \\x \\N{DASH} \\\n#\n'
                "#   indented, with spaces behind   \n"
                "#\ttab \t\n# é ☃ 計画 \U0001f600 \u202e \x85 \u2028 \x0c\n#\n"
                "# -*- coding: latin-1 -*-\n# {braces} %s $x\n"
                '# ends with "\n'
            ),
        )
    ),
    "empty_description": Text(text=plan("lm_head: colwise", above="#\n# \n#\n")),
    "long_lines": Text(
        text=plan(
            f"# {'w' * 200}\nlm_head: colwise  # {'word ' * 60}\n"
            f'*.q_proj: custom "custom_styles:{"Outer" + ".Outer" * 20}"(layout=shard(-1))',
            above=f"# {'Long ' * 60}\n",
        )
    ),
    "empty": Text(text=plan("")),
    "only_skip": Text(text=plan("# Why.\nlm_head: skip  # because")),
    **{
        f"named_{name}": Text(text=plan("lm_head: colwise(in=shard(1))\nmodel.norm: sequence", name=name))
        for name in NAMES
    },
    "named_as_an_import_of_another_plan": Text(text=plan("model.norm: replicate", name="planlang")),
}
