#!/usr/bin/env python3
"""Writes legacy.pt2: mlp.pt2's train_ir in the flat container of torch <= 2.7.

    cd test/conformance && ./make_legacy.py

Needs no PyTorch: the pickles name its functions, as torch.save does.  One
weight is stored twice under two names (tied), and one argument is a bare
-Infinity, as versions before 2.9 wrote it.
"""
import io
import json
import pickle
import sys
import types
import zipfile
from collections import OrderedDict


def fake(module, *names):
    """A module whose members pickle as module.name."""
    made = types.ModuleType(module)
    sys.modules[module] = made
    for name in names:
        member = type(name, (), {"__module__": module})
        setattr(made, name, member)
    return made


torch = fake("torch", "FloatStorage", "LongStorage")
utils = fake("torch._utils")


def rebuild(name):
    def function(*args):
        raise NotImplementedError
    function.__module__ = "torch._utils"
    function.__qualname__ = function.__name__ = name
    setattr(utils, name, function)
    return function


REBUILD = rebuild("_rebuild_tensor_v2")
PARAMETER = rebuild("_rebuild_parameter")


class Storage:
    def __init__(self, key, data):
        self.key, self.data = key, data


class Tensor:
    def __init__(self, storage, size, stride):
        self.storage, self.size, self.stride = storage, size, stride

    def __reduce__(self):
        return PARAMETER, (Inner(self), True, OrderedDict())


class Inner:
    def __init__(self, tensor):
        self.tensor = tensor

    def __reduce__(self):
        t = self.tensor
        return REBUILD, (t.storage, 0, t.size, t.stride, False, OrderedDict())


class Pickler(pickle.Pickler):
    def persistent_id(self, obj):
        if isinstance(obj, Storage):
            return ("storage", torch.FloatStorage, obj.key, "cpu",
                    len(obj.data) // 4)
        return None


def save(value, storages):
    out = io.BytesIO()
    pickled = io.BytesIO()
    Pickler(pickled, 2).dump(value)
    with zipfile.ZipFile(out, "w") as z:
        z.writestr("archive/data.pkl", pickled.getvalue())
        z.writestr("archive/byteorder", "little")
        for s in storages:
            z.writestr("archive/data/" + s.key, s.data)
        z.writestr("archive/version", "3\n")
    return out.getvalue()


def row_major(size):
    strides, step = [], 1
    for n in reversed(size):
        strides.insert(0, step)
        step *= n
    return tuple(strides)


def main():
    z = zipfile.ZipFile("mlp.pt2")
    program = json.loads(z.read("mlp/models/train_ir.json"))
    config = json.loads(
        z.read("mlp/data/weights/train_ir_weights_config.json"))["config"]
    storages, state = [], OrderedDict()
    for fqn, item in config.items():
        data = z.read("mlp/data/weights/" + item["path_name"])
        size = tuple(s["as_int"] for s in item["tensor_meta"]["sizes"])
        storages.append(Storage(str(len(storages)), data))
        state[fqn] = Tensor(storages[-1], size, row_major(size))
    state["tied"] = state["layers.0.weight"]
    x = Storage("0", bytes(4 * 4 * 16))
    sample = ((Tensor(x, (4, 16), (16, 1)),), {})
    program["schema_version"] = {"major": 8, "minor": 2}
    graph = program["graph_module"]["graph"]
    for node in graph["nodes"]:
        node.pop("name", None)
        node.pop("is_hop_single_tensor_return", None)
        for arg in node["inputs"]:
            arg.pop("kind", None)
    graph["nodes"].append({
        "target": "torch.ops.aten.clamp.default",
        "inputs": [{"name": "self",
                    "arg": graph["nodes"][-1]["outputs"][0]},
                   {"name": "min", "arg": {"as_float": float("-inf")}}],
        "outputs": [{"as_tensor": {"name": "clamp"}}], "metadata": {}})
    with zipfile.ZipFile("legacy.pt2", "w") as out:
        out.writestr("serialized_exported_program.json", json.dumps(program))
        out.writestr("serialized_state_dict.pt", save(state, storages))
        out.writestr("serialized_constants.pt", save({}, []))
        out.writestr("serialized_example_inputs.pt", save(sample, [x]))
        out.writestr("version", "8.2")


if __name__ == "__main__":
    main()
