"""Sorts operator names, PyTorch's and Ullage's, into the groups that the step benchmark prints.

The first row whose pattern is found in the name wins, so special names stand before general ones.
"""

import re

GROUPS = [
    ("optimizer", r"sgd|adam|optimizer|foreach"),
    ("compiled loops", r"compiledfxgraph|cpp_fused"),
    ("normalization", r"norm"),
    ("attention", r"attention|sdpa"),
    ("loss", r"cross_?entropy|nll|log_?softmax"),
    ("softmax", r"softmax"),
    ("convolution backward", r"conv\w*.*(backward|grad|bwd)|grad\w*_conv"),
    ("convolution forward", r"conv(?!ert)"),
    ("pooling", r"pool|aten::mean|mean\w*backward"),
    ("embedding", r"embedding"),
    ("matmul", r"matmul|::(add|b)?mm\b|(mm|linear)(backward|$)|linear|gemm"),
    ("activation", r"relu|gelu|tanh|threshold|clamp"),
    ("copy and reorder", r"copy|clone|reorder|transpose|permute|convert|split|slice|::cat|concat"),
    ("elementwise", r"add|mul|sub|div|pow|fused|elementwise|sum|where|zero|fill|chain"),
]
OTHER = "other"


def find_group(name):
    lowered = name.lower()
    for group, pattern in GROUPS:
        if re.search(pattern, lowered):
            return group
    return OTHER


def group_seconds(by_name):
    """{operator name: seconds} -> {group: seconds}"""
    grouped = {}
    for name, seconds in by_name.items():
        group = find_group(name)
        grouped[group] = grouped.get(group, 0.0) + seconds
    return grouped
