"""Sorts operator names, PyTorch's and Ullage's, into the groups that the step benchmark prints.

The first row with a fragment found in the name wins, so special names stand before general ones.
"""

GROUPS = [
    ("optimizer", ("sgd", "adam", "optimizer", "foreach")),
    ("normalization", ("batch_norm", "batchnorm", "layer_norm", "layernorm", "native_norm")),
    ("attention", ("attention", "sdpa", "flash")),
    ("loss", ("cross_entropy", "nll_loss", "log_softmax", "next_token")),
    ("softmax", ("softmax",)),
    (
        "convolution backward",
        (
            "convolution_backward",
            "conv2d_backward",
            "conv2d_input_gradient",
            "conv2d_weight_gradient",
            "conv_input",
            "conv_weight",
            "conv_bwd",
        ),
    ),
    ("convolution forward", ("conv",)),
    ("pooling", ("pool", "aten::mean")),
    ("embedding", ("embedding", "index_add", "gather")),
    ("matmul", ("matmul", "addmm", "::mm", "bmm", "linear", "gemm", "matrix")),
    ("activation", ("relu", "gelu", "tanh", "threshold")),
    (
        "copy and reorder",
        (
            "copy",
            "contiguous",
            "clone",
            "reorder",
            "transpose",
            "permute",
            "::to",
            "convert",
            "split",
            "slice",
            "concat",
            "aten::cat",
        ),
    ),
    (
        "elementwise",
        (
            "add",
            "mul",
            "sub",
            "div",
            "pow",
            "fused",
            "elementwise",
            "sum",
            "where",
            "zero",
            "fill",
            "cpp_",
        ),
    ),
]
OTHER = "other"


def find_group(name):
    lowered = name.lower()
    for group, fragments in GROUPS:
        if any(fragment in lowered for fragment in fragments):
            return group
    return OTHER


def group_seconds(by_name):
    """{operator name: seconds} -> {group: seconds}"""
    grouped = {}
    for name, seconds in by_name.items():
        group = find_group(name)
        grouped[group] = grouped.get(group, 0.0) + seconds
    return grouped
