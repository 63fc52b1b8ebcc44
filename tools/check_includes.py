#!/usr/bin/env python3
"""Checks the order of inclusion between modules, the places of vendor headers, and that no headers include each other in
a circle. Prints one line for each fault; exits 1 where there is one.

usage: check_includes.py [ROOT]
"""
import pathlib
import re
import sys

# What a module may use, directly; what those use is allowed too.
USES = {
    "base": [],
    "memory": ["base"],
    "device": ["memory"],
    "graph": ["base"],
    "kernels": ["graph", "device"],
    "model": ["graph"],
    "plan": ["graph", "memory", "kernels"],
    "run": ["plan", "kernels", "device"],
    "data": ["memory", "device"],
    "dist": ["device"],
    "train": ["run", "data", "model"],
    "probe": ["train", "dist"],
    "observe": ["train", "dist"],
}

# A module that plans for machines nobody here owns touches no live device, and of kernels it sees the lowering alone.
FORBIDDEN = [
    (r"^plan/", r"^device/", "a plan never touches a live device"),
    (r"^plan/", r"^kernels/(?!lowering)", "of kernels, plan sees the lowering alone"),
    (r"^plan/", r"^model/", "a plan knows graphs, not where they come from"),
]

# header, the only places that may include it
VENDORS = [
    (r"^(oneapi/)?dnnl", "kernels/cpu/"),
    (r"^CL/", "device/opencl/"),
    (r"^(cuda|cudnn|cublas|nvrtc|nccl)", "device/cuda/"),
    (r"^mpi\.h", "dist/mpi/"),
    (r"^jansson", ("base/json.", "cli/")),
    (r"^nettle/", "base/sha256."),
    (r"^(arrow|parquet)/", "data/parquet/arrow_module."),
    (r"^(jpeglib|jerror|spng)\.h|^webp/", "data/image/"),
]

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]', re.M)


def closure(module):
    seen = {module}
    queue = [module]
    while queue:
        for used in USES.get(queue.pop(), []):
            if used not in seen:
                seen.add(used)
                queue.append(used)
    return seen


def read_includes(path):
    return [match.group(2) for match in INCLUDE.finditer(path.read_text(encoding="utf-8"))]


def check_source(name, header, root):
    module, target = name.split("/")[0], header.split("/")[0]
    for pattern, folder in VENDORS:
        folders = (folder,) if isinstance(folder, str) else folder
        if re.match(pattern, header) and not name.startswith(folders):
            yield f"src/{name}: <{header}> belongs to src/{folders[0]} alone"
    is_ours = (root / "src" / header).is_file()
    if not is_ours:
        return
    if module == "cli":
        if target != "cli":
            yield f"src/{name}: cli sees include/ullage alone, not {header}"
        return
    if module not in USES:
        yield f"src/{name}: {module} is no module of the design"
    elif target not in closure(module):
        yield f"src/{name}: {module} may not use {target} ({header})"
    for source, used, why in FORBIDDEN:
        if re.match(source, name) and re.match(used, header):
            yield f"src/{name}: {header}: {why}"


def find_circle(graph):
    state = {}

    def visit(node, path):
        if state.get(node) == "done":
            return None
        if node in path:
            return path[path.index(node):] + [node]
        for following in graph.get(node, []):
            circle = visit(following, path + [node])
            if circle:
                return circle
        state[node] = "done"
        return None

    for node in sorted(graph):
        circle = visit(node, [])
        if circle:
            return circle
    return None


def check(root):
    faults = []
    graph = {}
    for path in sorted([*(root / "src").rglob("*.[ch]"), *(root / "src").rglob("*.cc")]):
        name = path.relative_to(root / "src").as_posix()
        headers = read_includes(path)
        if path.suffix == ".h":
            graph[name] = [header for header in headers if (root / "src" / header).is_file()]
        for header in headers:
            faults += check_source(name, header, root)
    for path in sorted((root / "include").rglob("*.h")):
        name = path.relative_to(root / "include").as_posix()
        headers = read_includes(path)
        graph[name] = [header for header in headers if header.startswith("ullage/")]
        for header in headers:
            if (root / "src" / header).is_file():
                faults.append(f"include/{name}: a public header includes the internal {header}")
    circle = find_circle(graph)
    if circle:
        faults.append("headers in a circle: " + " -> ".join(circle))
    return faults


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    faults = check(root)
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
