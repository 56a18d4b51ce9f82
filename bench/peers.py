"""The work of a figure in eager PyTorch, torch.compile, ONNX Runtime, OpenVINO.

`bench --peers PYTHON` starts `PYTHON peers.py FIGURE` and asks, a line at a
time; each answer is a line too:

  hello              "hello"
  make PEER THREADS  builds and warms up; "ready", or what is missing
  run COUNT          nanoseconds that COUNT runs of it took

Models have random weights.  PyTorch wants transformers and torchvision for
them, ONNX Runtime and OpenVINO want onnx and onnxscript.
"""

import logging
import os
import sys
import tempfile
import time
import warnings


def llama(tokens):
    import transformers
    config = transformers.LlamaConfig(
        vocab_size=32000, hidden_size=768, intermediate_size=2048,
        num_hidden_layers=12, num_attention_heads=12, num_key_value_heads=4,
        use_cache=False)
    return transformers.LlamaForCausalLM(config), ids(32000, 1, tokens)


def gpt2():
    import transformers
    config = transformers.GPT2Config(use_cache=False)
    return transformers.GPT2LMHeadModel(config), ids(50257, 1, 128)


def bert():
    import transformers
    return transformers.BertModel(transformers.BertConfig()), ids(30000, 1, 128)


def minilm():
    import transformers
    config = transformers.BertConfig(
        hidden_size=384, num_hidden_layers=6, num_attention_heads=12,
        intermediate_size=1536)
    return transformers.BertModel(config), ids(30000, 8, 64)


def resnet50():
    import torchvision
    return torchvision.models.resnet50(), (torch.randn(1, 3, 224, 224),)


def ids(vocabulary, *shape):
    return (torch.randint(0, vocabulary, shape),)


def random(*shapes):
    return tuple(torch.randn(*shape) for shape in shapes)


def attention(q, k, v):
    return functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def rmsnorm(x, w):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * w


def gelu(x, b, s, r):
    return functional.gelu(x + b, approximate="tanh") * s + r


SQUARE, ROW, HEADS = (4096, 4096), (4096,), (1, 12, 1024, 64)

# A module, or a function, and its arguments.
figures = {
    "gpt2": gpt2,
    "bert": bert,
    "minilm": minilm,
    "llama": lambda: llama(128),
    "llamadec": lambda: llama(1),
    "resnet50": resnet50,
    "sdpa": lambda: (attention, random(HEADS, HEADS, HEADS)),
    "softmax": lambda: (lambda x: torch.softmax(x, -1), random(SQUARE)),
    "layernorm": lambda: (
        lambda x, w, b: functional.layer_norm(x, (4096,), w, b),
        random(SQUARE, ROW, ROW)),
    "rmsnorm": lambda: (rmsnorm, random(SQUARE, ROW)),
    "gelu": lambda: (gelu, random(SQUARE, ROW, ROW, SQUARE)),
    "call_overhead": lambda: (
        lambda *tensors: sum(tensors[1:], tensors[0]), random(*[(16,)] * 10)),
}


class Figure:
    """The model of a figure, and how each peer runs it."""

    def __init__(self, name):
        class Model(torch.nn.Module):
            def __init__(self, inner):
                super().__init__()
                self.inner = inner

            def forward(self, *arguments):
                result = self.inner(*arguments)
                if isinstance(result, torch.Tensor):
                    return result
                return result[0]

        inner, self.arguments = figures[name]()
        self.model = Model(inner).eval()
        self.folder = None

    def eager(self, threads):
        return lambda: self.model(*self.arguments)

    def compile(self, threads):
        torch._dynamo.reset()
        compiled = torch.compile(self.model)
        return lambda: compiled(*self.arguments)

    def exported(self):
        if not self.folder:
            folder = tempfile.TemporaryDirectory()
            torch.onnx.export(
                self.model, self.arguments, os.path.join(folder.name, "m.onnx"),
                dynamo=True, external_data=True, verbose=False)
            self.folder = folder
        return os.path.join(self.folder.name, "m.onnx")

    def ort(self, threads):
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        session = onnxruntime.InferenceSession(
            self.exported(), options, providers=["CPUExecutionProvider"])
        feed = {i.name: a.numpy()
                for i, a in zip(session.get_inputs(), self.arguments)}
        return lambda: session.run(None, feed)

    def openvino(self, threads):
        import openvino
        core = openvino.Core()
        compiled = core.compile_model(
            core.read_model(self.exported()), "CPU",
            {"INFERENCE_NUM_THREADS": threads,
             "INFERENCE_PRECISION_HINT": "f32",
             "PERFORMANCE_HINT": "LATENCY"})
        request = compiled.create_infer_request()
        data = [a.numpy() for a in self.arguments]
        return lambda: request.infer(data)


class Peers:
    """Answers lines."""

    def __init__(self, name):
        self.name, self.figure, self.run = name, None, None

    def make(self, peer, threads):
        import_torch()
        self.run = None
        torch.set_num_threads(threads)
        if not self.figure:
            self.figure = Figure(self.name)
        run = getattr(self.figure, peer)(threads)
        for _ in range(3):
            run()
        self.run = run
        return "ready"

    def measure(self, count):
        start = time.perf_counter_ns()
        for _ in range(count):
            self.run()
        return str(time.perf_counter_ns() - start)

    def answer(self, line):
        words = line.split()
        if words[0] == "make":
            return self.make(words[1], int(words[2]))
        if words[0] == "run":
            return self.measure(int(words[1]))
        return "hello"


def import_torch():
    global torch, functional
    import torch
    functional = torch.nn.functional
    torch.set_grad_enabled(False)
    torch.manual_seed(0)


def main():
    # Answers have the output for themselves: what libraries print goes to the
    # errors.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    peers = Peers(sys.argv[1])
    for line in sys.stdin:
        try:
            text = peers.answer(line)
        except Exception as error:  # a library's, told in its own words
            text = f"{type(error).__name__}: {error}"
        print(" ".join(text.split())[:400], file=answers)


main()
