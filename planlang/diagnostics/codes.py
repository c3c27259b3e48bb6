"""Every kind of finding, one row each. Nothing can be reported without a row here.

The thousands say the phase: 0 files and configuration, 1 syntax, 2 names, arguments and options, 3 patterns and
coverage, 4 layouts, 5 gradients and ties, 6 sizes and mesh, 7 targets, 8 numerics and cost, 9 internal. A number is
never used again for something else. Each row has a page in `docs/`, which `planlang explain` prints.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How much a finding weighs: an error stops the compilation, a warning and a note do not."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Code:
    """A kind of finding.

    Attributes:
        number: `PLN` and four digits.
        name: what is wrong, in kebab case.
        severity: what it weighs.
        summary: one line, for lists.
    """

    number: str
    name: str
    severity: Severity
    summary: str

    def __str__(self) -> str:
        return self.number


CODES: dict[str, Code] = {}


def _code(number: str, name: str, summary: str, severity: Severity = Severity.ERROR) -> Code:
    code = Code(number, name, severity, summary)
    if number in CODES or any(name == other.name for other in CODES.values()):
        raise ValueError(f"{number} {name} is there already")
    CODES[number] = code
    return code


# 0 files and configuration
UNREADABLE_FILE = _code("PLN0001", "unreadable-file", "a file is missing, is a folder, or may not be read")
NOT_TEXT = _code("PLN0002", "not-text", "a plan is not UTF-8 text")
FILE_TOO_LARGE = _code("PLN0003", "file-too-large", "a plan is larger than any plan can sensibly be")
INCLUDE_CYCLE = _code("PLN0004", "include-cycle", "a plan extends itself, directly or through others")
UNKNOWN_PLAN = _code("PLN0005", "unknown-plan", "a name is neither a file nor a bundled plan")
UNWRITABLE_OUTPUT = _code("PLN0006", "unwritable-output", "the output cannot be written")
BAD_CONFIGURATION = _code("PLN0007", "bad-configuration", "a configuration file names no plan where it should")
BAD_PLAN_DATA = _code("PLN0008", "bad-plan-data", "a YAML or JSON file is not a plan that planlang wrote")
UNKNOWN_MODEL = _code("PLN0009", "unknown-model", "a model is neither in the catalog nor a configuration")
BAD_MODEL_CONFIG = _code("PLN0010", "bad-model-config", "a config.json does not describe a model")
UNKNOWN_ARCHITECTURE = _code("PLN0011", "unknown-architecture", "transformers has no such architecture or class")
UNRESOLVED_PATH = _code("PLN0012", "unresolved-path", "a dotted path cannot be imported or is no plan")
OTHER_FILE = _code("PLN0013", "other-file", "a file in another language stands where a text in this one is needed")
MODEL_FAILS = _code("PLN0014", "model-fails", "the model fails on one device, so no plan can be compared with it")
TOO_LITTLE_MEMORY = _code("PLN0015", "too-little-memory", "a model does not fit into memory once for each rank")
NO_SUCH_DEVICES = _code("PLN0016", "no-such-devices", "there are fewer devices than processes that were asked for")

# 1 syntax
UNEXPECTED_TEXT = _code("PLN1001", "unexpected-text", "the text does not fit the grammar here")
UNKNOWN_STATEMENT = _code("PLN1002", "unknown-statement", "a line begins with a word that starts no statement")
UNCLOSED_BRACKET = _code("PLN1003", "unclosed-bracket", "a bracket or a block is not closed, or closed twice")
UNCLOSED_STRING = _code("PLN1004", "unclosed-string", "a string has no closing quote on its line")
BAD_PATTERN = _code("PLN1005", "bad-pattern", "a pattern is not well formed")
MISSING_PLAN_LINE = _code("PLN1006", "missing-plan-line", "a file does not begin with its `plan` line")
MISPLACED_STATEMENT = _code("PLN1007", "misplaced-statement", "a statement stands where it may not, or a second time")
TOO_DEEP = _code("PLN1008", "too-deep", "brackets or conditions are nested too deep")
NUMBER_TOO_LARGE = _code("PLN1009", "number-too-large", "a number is larger than any size can be")
UNFORMATTED = _code("PLN1010", "unformatted", "`planlang fmt` would write a file in another way")

# 2 names, arguments, options
UNKNOWN_STYLE = _code("PLN2001", "unknown-style", "a style is neither the language's nor a `let`")
UNKNOWN_ARGUMENT = _code("PLN2002", "unknown-argument", "a style has no such argument")
BAD_ARGUMENT = _code("PLN2003", "bad-argument", "an argument's value is not of its kind")
REPEATED_ARGUMENT = _code("PLN2004", "repeated-argument", "an argument is given twice")
MISSING_ARGUMENT = _code("PLN2005", "missing-argument", "an argument that must be given is not")
UNKNOWN_NAME = _code("PLN2006", "unknown-name", "a condition names no option and no mesh axis")
UNKNOWN_CONFIG = _code("PLN2007", "unknown-config-name", "the model's configuration has no such setting")
BAD_CONDITION = _code("PLN2008", "bad-condition", "a condition mixes kinds of values or divides by zero")
REPEATED_NAME = _code("PLN2009", "repeated-name", "a name is given to two things")
UNKNOWN_OPTION = _code("PLN2010", "unknown-option", "the plan has no such option")
BAD_OPTION_VALUE = _code("PLN2011", "bad-option-value", "an option is set to a value of another type")
REQUIREMENT_FAILED = _code("PLN2012", "requirement-failed", "a `require` of the plan does not hold")
UNDECIDED_CONDITION = _code(
    "PLN2013", "undecided-condition", "a condition asks for a model or a size that is not given"
)
UNUSED_LET = _code("PLN2014", "unused-let", "a `let` is never used", Severity.WARNING)
UNCHECKED_REQUIREMENT = _code(
    "PLN2015", "unchecked-requirement", "a `require` asks for a model or a size that is not given", Severity.NOTE
)
DECIDED_OTHERWISE = _code(
    "PLN2016", "decided-otherwise", "the conditions of a resolved plan were decided for another size or model"
)

# 3 patterns and coverage
UNMATCHED_RULE = _code("PLN3001", "unmatched-rule", "a pattern matches no module of the model")
UNMATCHED_ALTERNATIVE = _code(
    "PLN3002", "unmatched-alternative", "an alternative in braces matches no module", Severity.WARNING
)
OVERLAPPING_RULES = _code("PLN3003", "overlapping-rules", "two rules of one file reach the same module")
NEEDLESS_OVERRIDE = _code("PLN3004", "needless-override", "an `override` replaces no rule", Severity.WARNING)
RANGE_TOO_LARGE = _code("PLN3005", "range-too-large", "a range holds more numbers than a model has layers")
STYLE_NOT_FOR_MODULE = _code("PLN3006", "style-not-for-module", "torch has no such style for this kind of module")
PLAN_NOT_FOR_MODEL = _code("PLN3007", "plan-not-for-model", "the plan is written for other classes than the model's")
UNCOUNTED_LAYERS = _code("PLN3008", "uncounted-layers", "a negative index needs a model whose layers are counted")
UNKNOWN_CLASS = _code("PLN3009", "unknown-class", "the plan's class is not known, so its patterns cannot be expanded")
OTHER_CLASS = _code(
    "PLN3010", "other-class", "the model's class is not among those that the plan names", Severity.WARNING
)
OMITTED_MODULES = _code(
    "PLN3012", "omitted-modules", "a rule is for a part of the model that its tree leaves out", Severity.WARNING
)
CLASSES_DIFFER = _code("PLN3011", "classes-differ", "a rule holds in one class of the plan and not in another")
NO_RULES = _code("PLN3013", "no-rules", "a plan has no rule that reaches a module", Severity.WARNING)

# 4 layouts
SHARD_OUT_OF_RANK = _code("PLN4001", "shard-out-of-rank", "a layout shards a dimension that the tensor does not have")
CALL_MISMATCH = _code(
    "PLN4002", "call-mismatch", "`prepare` names inputs or outputs that the module's call does not have"
)
FALSE_CLAIM = _code("PLN4003", "false-claim", "an input is declared to lie in a way that it does not")
MIXED_TENSORS = _code("PLN4004", "mixed-tensors", "a plain tensor meets a DTensor")
LAYOUTS_DO_NOT_FIT = _code("PLN4005", "layouts-do-not-fit", "the inputs of an operator do not lie alike")
PARTIAL_SUM_LEAKS = _code("PLN4006", "partial-sum-leaks", "a partial sum is used as if it were the whole")
SHARDED_REDUCTION = _code(
    "PLN4007", "sharded-reduction", "a sum, mean or softmax runs along a dimension of which each rank has a part"
)
RESHAPE_CUTS_SHARDS = _code("PLN4008", "reshape-cuts-shards", "a reshape goes through the ranks' parts of a tensor")
PACKED_PROJECTION = _code("PLN4009", "packed-projection", "a slice is taken along a dimension that is sharded")
LOCAL_LENGTH = _code("PLN4010", "local-length", "code depends on a length of which each rank sees a part")
CONVERSION_REFUSED = _code("PLN4011", "conversion-refused", "torch refuses to convert a layout into another")
HEAD_CONTRACT = _code("PLN4012", "head-contract", "the model's output is not what the loss takes")
EXPECTATION_REFUTED = _code("PLN4013", "expectation-refuted", "an `expect` of the plan does not hold")
UNCHECKED_OPERATOR = _code(
    "PLN4014", "unchecked-operator", "there is no rule for what an operator does to a layout", Severity.WARNING
)
UNPROVED_EXPECTATION = _code(
    "PLN4015", "unproved-expectation", "an `expect` of the plan can be neither proved nor refuted", Severity.WARNING
)
NO_DATAFLOW = _code(
    "PLN4016",
    "no-dataflow",
    "the model's forward pass could not be captured, so layouts are not checked",
    Severity.WARNING,
)
SHARDED_TOKEN_IDS = _code("PLN4020", "sharded-token-ids", "an embedding is told that each rank gets a part of the ids")
RAISES_WHEN_RUN = _code("PLN4021", "raises-when-run", "the ranks raise an error where one device does not")
WRONG_OUTPUT = _code("PLN4022", "wrong-output", "the ranks compute other logits than one device")

# 5 gradients and ties
HALF_RULED_TIE = _code("PLN5001", "half-ruled-tie", "one module of a tied pair has a rule and the other has none")
TIE_PLACEMENTS_DIFFER = _code(
    "PLN5002", "tie-placements-differ", "the rules of a tied pair place the one weight in two ways", Severity.WARNING
)
MAY_BE_TIED = _code(
    "PLN5003", "may-be-tied", "some models of the class tie a pair of which one module has a rule", Severity.WARNING
)
INCOMPLETE_GRADIENT = _code(
    "PLN5004", "incomplete-gradient", "each rank has only a term of a gradient that must be whole"
)
DOUBLED_GRADIENT = _code(
    "PLN5005", "doubled-gradient", "a gradient that is whole on every rank is summed over the ranks"
)
WRONG_GRADIENT = _code("PLN5007", "wrong-gradient", "the ranks compute other gradients or weights than one device")

# 6 sizes and mesh
UNKNOWN_AXIS = _code("PLN6001", "unknown-axis", "a rule acts on a mesh axis that is not there")
HEADS_NOT_DIVISIBLE = _code("PLN6002", "heads-not-divisible", "the ranks do not divide the attention heads")
WIDTH_NOT_DIVISIBLE = _code("PLN6003", "width-not-divisible", "the ranks do not divide a width that is used locally")
MESH_SIZE_CONFLICT = _code("PLN6004", "mesh-size-conflict", "a mesh axis is asked to have two sizes")
REPEATED_AXIS = _code("PLN6005", "repeated-axis", "a mesh axis is named twice")
MESH_MISMATCH = _code("PLN6006", "mesh-mismatch", "the device mesh is not the one that the plan is written for")
UNEVEN_SHARDS = _code("PLN6007", "uneven-shards", "the ranks' parts differ in length where all must be equal")
FAILS_FOR_LENGTH_ONE = _code(
    "PLN6008", "fails-for-length-one", "a plan is wrong for sequences of a single token", Severity.WARNING
)

BLOCKS_NOT_DIVISIBLE = _code("PLN6009", "blocks-not-divisible", "the blocks of an invariant style do not come out even")

# 7 targets
IMPORTS_PLANLANG = _code(
    "PLN7001", "imports-planlang", "the emitted module imports planlang for a style that torch lacks", Severity.NOTE
)
SEVERAL_AXES = _code("PLN7002", "several-axes", "torch applies a plan to one mesh axis, and this one uses several")
BAD_CUSTOM_STYLE = _code("PLN7003", "bad-custom-style", "a custom style cannot be imported or is no ParallelStyle")
APPLIED_TWICE = _code("PLN7004", "applied-twice", "the model is parallel already")
TORCH_REFUSED = _code("PLN7005", "torch-refused", "torch raised an error while a rule was applied")
UNIMPORTABLE_MODULE = _code(
    "PLN7006", "unimportable-module", "a module is written to a file that Python cannot import", Severity.WARNING
)

# 8 numerics and cost
PLAIN_BESIDE_DTENSORS = _code(
    "PLN8001", "plain-beside-dtensors", "some parameters stay plain tensors beside DTensors", Severity.NOTE
)
GRADE_REFUTED = _code("PLN8002", "grade-refuted", "a plan moves bits that its grade says it does not move")
PROBABILITIES_OFF = _code(
    "PLN8003",
    "probabilities-off",
    "a plan moves the probabilities of tokens by more than rounding should",
    Severity.WARNING,
)
MIXED_INVARIANCE = _code(
    "PLN8004", "mixed-invariance", "a plain rule splits a computation beside invariant ones", Severity.WARNING
)

# 9 internal
INTERNAL_ERROR = _code("PLN9001", "internal-error", "planlang itself failed")
