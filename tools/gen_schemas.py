#!/usr/bin/env python3
"""Writes lib/frontend/schemas.def: the schemas of the targets in aten.def.

    tools/gen_schemas.py SCHEMAS.txt

SCHEMAS.txt is what PyTorch prints for all its operators, a line each:

    for s in torch._C._jit_get_all_schemas(): print(s)

Also lists overloads with out= arguments, and reports in-place overloads whose
arguments differ from those of the functional ones (the reader takes them as
equal).  Only for developers: the result is in the repository.
"""
import os
import re
import sys

FOLDER = os.path.join(os.path.dirname(__file__), "..", "lib", "frontend")
KINDS = {"Tensor": "T", "Scalar": "N", "int": "I", "SymInt": "I",
         "float": "F", "bool": "B", "SymBool": "B", "str": "S",
         "ScalarType": "D", "Device": "X", "Layout": "X",
         "MemoryFormat": "X", "Generator": "X", "number": "N"}


def split_args(text):
    """Cuts at commas outside brackets."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "([") - (c in ")]")
        if c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    parts.append(text[start:].strip())
    return [p for p in parts if p and p != "*"]


def parse_arg(text):
    """(letters, name, default, is_written) or None."""
    m = re.match(r"([A-Za-z]+)(\([^)]*\))?(\?)?(\[(\d*)\])?(\?)? "
                 r"(\w+)(?:=(.*))?$", text)
    if not m or m[1] not in KINDS:
        return None
    alias = m[2] or ""
    letters = KINDS[m[1]]
    if "!" in alias:
        letters += "(a!)"
    elif alias:
        letters += "(a)"
    is_list = m[4] is not None
    item_optional = m[3] and is_list
    if item_optional:
        letters += "?"
    if is_list:
        letters += "[%s]" % m[5]
    if m[6] or (m[3] and not is_list):
        letters += "?"
    return letters, m[7], m[8], "!" in alias


def parse_line(line):
    m = re.match(r"(\w+)::(\w+)(?:\.(\w+))?\((.*)\) -> (.*)$", line)
    if not m or m[1] != "aten":
        return None
    args = [parse_arg(a) for a in split_args(m[4])]
    if None in args:
        return None
    return "%s.%s" % (m[2], m[3] or "default"), args, m[5]


def text_of(args):
    return ", ".join("%s %s%s" % (k, n, "" if d is None else "=" + d)
                     for k, n, d, _ in args)


def quote(text):
    """A C string; a long one in pieces, a line each."""
    pieces, line = [], ""
    for word in re.split(r"(?<=, )", text):
        if len(line) + len(word) > 80:
            pieces.append(line)
            line = ""
        line += word
    pieces.append(line)
    return "\n       ".join(
        '"%s"' % p.replace("\\", "\\\\").replace('"', '\\"') for p in pieces)


def bare(args):
    return [(k.replace("(a!)", "").replace("(a)", ""), n, d)
            for k, n, d, _ in args]


def main():
    schemas = {}
    for line in open(sys.argv[1], encoding="utf-8"):
        parsed = parse_line(line.strip())
        if parsed:
            schemas[parsed[0]] = parsed[1:]
    rows = open(os.path.join(FOLDER, "aten.def"), encoding="utf-8").read()
    targets = re.findall(r'^ATEN(?:_FN)?\("([^"]+)"', rows, re.M)
    out = ["// Made by tools/gen_schemas.py from the schemas of PyTorch and",
           "// the targets of aten.def; sorted by name.",
           "//",
           "//   SCHEMA(target, arguments)  T tensor, N number, I int, ...",
           "//   OUT(target, functional target, out arguments)",
           "",
           "#ifndef SCHEMA", "#define SCHEMA(name, text)", "#endif",
           "#ifndef OUT", "#define OUT(name, functional, ...)", "#endif",
           "", "// clang-format off"]
    for name in sorted(targets):
        if name not in schemas:
            sys.exit("%s: no such operator" % name)
        out.append("SCHEMA(%s, %s)" % (quote(name),
                                       quote(text_of(schemas[name][0]))))
    by_packet = {}
    for name in targets:
        by_packet.setdefault(name.split(".")[0], []).append(name)
    for name, (args, _) in sorted(schemas.items()):
        written = [a for a in args if a[3]]
        packet = name.split(".")[0]
        if not written or packet not in by_packet or name in targets:
            continue
        if args[-len(written):] != written:
            continue
        rest = bare(args[:-len(written)])
        for functional in by_packet[packet]:
            if bare(schemas[functional][0]) == rest:
                out.append("OUT(%s, %s, %s)" % (
                    quote(name), quote(functional),
                    ", ".join(quote(a[1]) for a in written)))
                break
    out += ["// clang-format on", "", "#undef SCHEMA", "#undef OUT", ""]
    path = os.path.join(FOLDER, "schemas.def")
    open(path, "w", encoding="utf-8").write("\n".join(out))
    for name, (args, _) in sorted(schemas.items()):
        packet, overload = name.split(".")
        functional = "%s.%s" % (packet.rstrip("_"), overload)
        if packet.endswith("_") and not packet.startswith("__") \
                and functional in targets and name not in targets \
                and bare(schemas[functional][0]) != bare(args):
            print("in-place differs: %s(%s)" % (name, text_of(args)))


if __name__ == "__main__":
    main()
